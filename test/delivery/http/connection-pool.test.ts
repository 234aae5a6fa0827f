import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  createConnectionPool,
  type Connection,
  type ConnectionPool,
} from '../../../src/delivery/http/connection-pool.ts';

interface NumberedLine extends Connection {
  readonly number: number;
  isEnded: boolean;
  /** May carry no further request. */
  isStale: boolean;
}

function setUp(idleMax = 100): {
  connections: ConnectionPool<NumberedLine>;
  opened: NumberedLine[];
} {
  const opened: NumberedLine[] = [];
  const open = (origin: string): NumberedLine => {
    const line: NumberedLine = {
      route: origin,
      number: opened.length,
      isEnded: false,
      isStale: false,
      end: async () => {
        line.isEnded = true;
      },
    };
    opened.push(line);
    return line;
  };
  const isReusable = ({ isStale }: NumberedLine): boolean => !isStale;
  return { connections: createConnectionPool({ open, isReusable, idleMax }), opened };
}

describe('connections', () => {
  test('a connection is opened when none is idle; otherwise the one used last is used again', () => {
    const { connections } = setUp();
    const [a, b] = [connections.take('x'), connections.take('x')];
    assert.notEqual(a, b);
    connections.release(a);
    connections.release(b);
    assert.equal(connections.take('x'), b);
    assert.equal(connections.take('x'), a);
    assert.equal(connections.take('x').number, 2);
  });

  test('a connection serves one route', () => {
    const { connections } = setUp();
    connections.release(connections.take('x'));
    assert.equal(connections.take('y').number, 1);
    assert.deepEqual(connections.count(), { routes: 2, connections: 2, idle: 1 });
  });

  test('a dropped connection is ended and not used again, and its route is removed', () => {
    const { connections } = setUp();
    const [used, idle] = [connections.take('x'), connections.take('x')];
    connections.release(idle);
    connections.drop(idle);
    connections.drop(idle);
    connections.release(idle);
    assert.ok(idle.isEnded);
    assert.deepEqual(connections.count(), { routes: 1, connections: 1, idle: 0 });
    connections.drop(used);
    connections.release(used);
    assert.deepEqual(connections.count(), { routes: 0, connections: 0, idle: 0 });
    assert.equal(connections.take('x').number, 2);
  });

  test('idle connections above the maximum are ended, those of old routes first', () => {
    const { connections, opened } = setUp(2);
    const taken = ['a', 'b', 'c', 'd'].map((origin) => connections.take(origin));
    for (const line of taken) connections.release(line);
    assert.deepEqual(
      opened.map(({ isEnded }) => isEnded),
      [true, true, false, false],
    );
    assert.deepEqual(connections.count(), { routes: 2, connections: 2, idle: 2 });
  });

  test('connections in use are not ended in place of idle ones', () => {
    const { connections, opened } = setUp(1);
    connections.take('busy');
    const [a, b] = [connections.take('a'), connections.take('b')];
    connections.release(a);
    connections.release(b);
    assert.deepEqual(
      opened.map(({ isEnded }) => isEnded),
      [false, true, false],
    );
  });

  test('a connection that may carry no further request is ended: when it is released, and while idle', () => {
    const { connections, opened } = setUp();
    const [used, first, last] = ['x', 'x', 'x'].map((route) => connections.take(route));
    assert.ok(used && first && last);
    connections.release(first);
    connections.release(last);
    used.isStale = true;
    last.isStale = true;
    connections.release(used);
    assert.equal(connections.idle('x'), 1);
    assert.equal(connections.take('x'), first);
    assert.deepEqual(
      opened.map(({ isEnded }) => isEnded),
      [true, false, true],
    );
    assert.deepEqual(connections.count(), { routes: 1, connections: 1, idle: 0 });
  });

  test('a connection that cannot be opened leaves nothing behind', () => {
    const open = (): NumberedLine => {
      throw new TypeError('no URL');
    };
    const connections = createConnectionPool<NumberedLine>({
      open,
      isReusable: () => true,
      idleMax: 1,
    });
    assert.throws(() => connections.take('nonsense'), TypeError);
    assert.deepEqual(connections.count(), { routes: 0, connections: 0, idle: 0 });
  });

  test('close ends all connections', async () => {
    const { connections, opened } = setUp();
    connections.release(connections.take('x'));
    connections.take('x');
    connections.take('y');
    await connections.close();
    assert.ok(opened.length === 2 && opened.every(({ isEnded }) => isEnded));
    assert.deepEqual(connections.count(), { routes: 0, connections: 0, idle: 0 });
  });

  test('connections are counted correctly after any use, and none is used twice at a time', () => {
    const act = fc.record({
      kind: fc.constantFrom('take', 'release', 'drop'),
      origin: fc.constantFrom('x', 'y', 'z'),
      index: fc.nat(20),
    });
    fc.assert(
      fc.property(
        fc.array(act, { maxLength: 60 }),
        fc.integer({ min: 0, max: 4 }),
        (acts, idleMax) => {
          const { connections, opened } = setUp(idleMax);
          const held: NumberedLine[] = [];
          for (const { kind, origin, index } of acts) {
            if (kind === 'take') {
              const line = connections.take(origin);
              assert.ok(!held.includes(line) && !line.isEnded && line.route === origin);
              held.push(line);
            } else {
              const [line] = held.splice(index, 1);
              if (line !== undefined) connections[kind === 'drop' ? 'drop' : 'release'](line);
            }
            const alive = opened.filter(({ isEnded }) => !isEnded);
            const { routes, connections: count, idle } = connections.count();
            assert.equal(count, alive.length);
            assert.equal(idle, alive.length - held.length);
            assert.ok(idle <= idleMax);
            assert.equal(routes, new Set(alive.map((line) => line.route)).size);
          }
        },
      ),
    );
  });
});
