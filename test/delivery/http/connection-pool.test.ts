import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createLines, type Line, type Lines } from '../../../src/delivery/http/connection-pool.ts';

interface NumberedLine extends Line {
  readonly number: number;
  isEnded: boolean;
}

function setUp(idleMax = 100): { lines: Lines<NumberedLine>; opened: NumberedLine[] } {
  const opened: NumberedLine[] = [];
  const open = (origin: string): NumberedLine => {
    const line: NumberedLine = {
      origin,
      number: opened.length,
      isEnded: false,
      end: async () => {
        line.isEnded = true;
      },
    };
    opened.push(line);
    return line;
  };
  return { lines: createLines({ open, idleMax }), opened };
}

describe('lines', () => {
  test('are opened when none is idle, and the one used last is used again', () => {
    const { lines } = setUp();
    const [a, b] = [lines.take('x'), lines.take('x')];
    assert.notEqual(a, b);
    lines.release(a);
    lines.release(b);
    assert.equal(lines.take('x'), b);
    assert.equal(lines.take('x'), a);
    assert.equal(lines.take('x').number, 2);
  });

  test('serve one origin each', () => {
    const { lines } = setUp();
    lines.release(lines.take('x'));
    assert.equal(lines.take('y').number, 1);
    assert.deepEqual(lines.count(), { origins: 2, lines: 2, idle: 1 });
  });

  test('that are dropped are ended and not used again, and their origin is forgotten', () => {
    const { lines } = setUp();
    const [used, idle] = [lines.take('x'), lines.take('x')];
    lines.release(idle);
    lines.drop(idle);
    lines.drop(idle);
    lines.release(idle);
    assert.ok(idle.isEnded);
    assert.deepEqual(lines.count(), { origins: 1, lines: 1, idle: 0 });
    lines.drop(used);
    lines.release(used);
    assert.deepEqual(lines.count(), { origins: 0, lines: 0, idle: 0 });
    assert.equal(lines.take('x').number, 2);
  });

  test('beyond the most that may be idle are ended, those of old origins first', () => {
    const { lines, opened } = setUp(2);
    const taken = ['a', 'b', 'c', 'd'].map((origin) => lines.take(origin));
    for (const line of taken) lines.release(line);
    assert.deepEqual(
      opened.map(({ isEnded }) => isEnded),
      [true, true, false, false],
    );
    assert.deepEqual(lines.count(), { origins: 2, lines: 2, idle: 2 });
  });

  test('of origins that are all in use are not ended in place of idle ones', () => {
    const { lines, opened } = setUp(1);
    lines.take('busy');
    const [a, b] = [lines.take('a'), lines.take('b')];
    lines.release(a);
    lines.release(b);
    assert.deepEqual(
      opened.map(({ isEnded }) => isEnded),
      [false, true, false],
    );
  });

  test('that cannot be opened leave nothing behind', () => {
    const open = (): NumberedLine => {
      throw new TypeError('no URL');
    };
    const lines = createLines<NumberedLine>({ open, idleMax: 1 });
    assert.throws(() => lines.take('nonsense'), TypeError);
    assert.deepEqual(lines.count(), { origins: 0, lines: 0, idle: 0 });
  });

  test('are all ended by closing', async () => {
    const { lines, opened } = setUp();
    lines.release(lines.take('x'));
    lines.take('x');
    lines.take('y');
    await lines.close();
    assert.ok(opened.length === 2 && opened.every(({ isEnded }) => isEnded));
    assert.deepEqual(lines.count(), { origins: 0, lines: 0, idle: 0 });
  });

  test('are counted rightly after any use, and none is in two hands', () => {
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
          const { lines, opened } = setUp(idleMax);
          const held: NumberedLine[] = [];
          for (const { kind, origin, index } of acts) {
            if (kind === 'take') {
              const line = lines.take(origin);
              assert.ok(!held.includes(line) && !line.isEnded && line.origin === origin);
              held.push(line);
            } else {
              const [line] = held.splice(index, 1);
              if (line !== undefined) lines[kind === 'drop' ? 'drop' : 'release'](line);
            }
            const alive = opened.filter(({ isEnded }) => !isEnded);
            const { origins, lines: count, idle } = lines.count();
            assert.equal(count, alive.length);
            assert.equal(idle, alive.length - held.length);
            assert.ok(idle <= idleMax);
            assert.equal(origins, new Set(alive.map((line) => line.origin)).size);
          }
        },
      ),
    );
  });
});
