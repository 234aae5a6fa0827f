import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import {
  createShortages,
  noNameServer,
  noThread,
  type ShortageChange,
} from '../../../src/delivery/http/shortages.ts';
import {
  classifyTransportError,
  hasIPv6,
  shortageOf,
} from '../../../src/delivery/http/transport-error.ts';
import { createManualClock } from '../../helpers/clock.ts';

const error = (code: string, address?: string) => Object.assign(new Error(code), { code, address });

describe('a shortage of this node', () => {
  const codes = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EAGAIN', 'EADDRNOTAVAIL', noNameServer];
  for (const code of codes) {
    test(`${code} is a shortage, alone and for every address of a name`, () => {
      const shortage = { kind: 'shortage', code };
      assert.deepEqual(shortageOf(error(code)), shortage);
      const all = [error(code), error('ENETUNREACH')];
      assert.deepEqual(shortageOf(new AggregateError(all)), shortage);
      assert.deepEqual(shortageOf(new AggregateError(all.toReversed())), shortage);
    });

    test(`${code} is none where another address of the name has refused or was too slow`, () => {
      for (const other of ['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT']) {
        assert.equal(shortageOf(new AggregateError([error(code), error(other)])), undefined);
      }
    });
  }

  test('what a receiver can cause is none', () => {
    for (const code of ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENETUNREACH', 'ENOTFOUND', '']) {
      assert.equal(shortageOf(error(code)), undefined, code);
    }
    const refused = { kind: 'error', cause: 'refused', detail: 'ECONNREFUSED' };
    assert.deepEqual(classifyTransportError(error('ECONNREFUSED'), 'connecting'), refused);
  });

  test('an IPv6 address without a free port is one, on a machine without IPv6 it is none', () => {
    const shortage = { kind: 'shortage', code: 'EADDRNOTAVAIL' };
    const hasNoIPv6 = (): boolean => false;
    for (const [address, without] of [
      ['2001:db8::1', undefined],
      ['192.0.2.1', shortage],
    ] as const) {
      const one = error('EADDRNOTAVAIL', address);
      const all = new AggregateError([error('ENETUNREACH', '192.0.2.1'), one]);
      for (const each of [one, all]) {
        assert.deepEqual(
          shortageOf(each, () => true),
          shortage,
        );
        assert.deepEqual(shortageOf(each, hasNoIPv6), without);
      }
    }
  });

  test('what the system says where no port is left is one, for addresses of both families', async (t) => {
    const shortage = { kind: 'shortage', code: 'EADDRNOTAVAIL' };
    assert.deepEqual(shortageOf(await connectWithoutPort(t, '127.0.0.1')), shortage);
    if (hasIPv6()) assert.deepEqual(shortageOf(await connectWithoutPort(t, '::1')), shortage);
    else assert.equal(shortageOf(await failureOf(connect({ host: '::1', port: 9 }))), undefined);
  });
});

/** Connects from a port that is in use for the same receiver; returns how that fails. */
async function connectWithoutPort(t: TestContext, host: string): Promise<unknown> {
  const listen = async (): Promise<Server> => {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    t.after(() => server.close());
    return server;
  };
  const { port } = (await listen()).address() as AddressInfo;
  const former = await listen();
  const { port: localPort } = former.address() as AddressInfo;
  await new Promise((resolve) => former.close(resolve));
  const open = (): Socket => {
    const socket = connect({ host, port, localAddress: host, localPort });
    t.after(() => socket.destroy());
    return socket;
  };
  await once(open(), 'connect');
  return failureOf(open());
}

async function failureOf(socket: Socket): Promise<unknown> {
  const [failure] = (await once(socket, 'error')) as [unknown];
  return failure;
}

describe('what is held back in a shortage', () => {
  const createFixture = (t: TestContext) => {
    const clock = createManualClock();
    const shortages = createShortages({ clock });
    t.after(() => shortages.close());
    const changes: ShortageChange[] = [];
    shortages.watch((change) => changes.push(change));
    return { clock, shortages, changes };
  };

  test('waits grow to five seconds, and few tries begin after each', async (t) => {
    const { clock, shortages } = createFixture(t);
    const { connections } = shortages;
    assert.equal(connections.isOpen, true);
    for (const waitMs of [100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
      assert.equal(shortages.noted({ code: 'EMFILE' }), waitMs);
      // Those that failed together count once.
      assert.equal(shortages.noted({ code: 'EMFILE' }), waitMs);
      let hasOpened = false;
      void connections.wait().then(() => (hasOpened = true));
      await clock.advance(waitMs - 1);
      assert.equal(connections.isOpen, false);
      assert.equal(hasOpened, false);
      await clock.advance(1);
      assert.equal(hasOpened, true);
      assert.equal(connections.isOpen, true);
      connections.began();
      assert.equal(connections.isOpen, false);
    }
  });

  test('without a further failure the tries double until nothing is held back', async (t) => {
    const { clock, shortages } = createFixture(t);
    const { connections } = shortages;
    shortages.noted({ code: 'EADDRNOTAVAIL' });
    await clock.advance(100);
    for (let tries = 1; tries <= 4096; tries *= 2) {
      for (let n = 0; n < tries; n += 1) {
        assert.equal(connections.isOpen, true);
        connections.began();
      }
      assert.equal(connections.isOpen, false);
      await clock.advance(100);
    }
    for (let n = 0; n < 10_000; n += 1) connections.began();
    assert.equal(connections.isOpen, true);
  });

  test('a shortage is told of once, and once more when it has been over for ten seconds', async (t) => {
    const { clock, shortages, changes } = createFixture(t);
    for (let n = 0; n < 5; n += 1) {
      shortages.noted({ code: 'EMFILE' });
      await clock.advance(9999);
    }
    const began = { resource: 'descriptors', code: 'EMFILE', isOver: false };
    assert.deepEqual(changes, [began]);
    assert.deepEqual(shortages.present(), ['descriptors']);
    await clock.advance(1);
    assert.deepEqual(changes, [began, { ...began, isOver: true }]);
    assert.deepEqual(shortages.present(), []);
  });

  test('a lack of name servers holds back lookups alone, a thread that ended nothing', async (t) => {
    const { shortages } = createFixture(t);
    shortages.noted({ code: noThread });
    assert.deepEqual([shortages.connections.isOpen, shortages.names.isOpen], [true, true]);
    shortages.noted({ code: noNameServer });
    assert.deepEqual([shortages.connections.isOpen, shortages.names.isOpen], [true, false]);
    shortages.noted({ code: 'EMFILE' });
    assert.deepEqual([shortages.connections.isOpen, shortages.names.isOpen], [false, false]);
  });
});
