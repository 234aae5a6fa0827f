import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createMemoryPool } from '../../../src/api/http/memory-pool.ts';
import { waitFor } from '../../helpers/wait.ts';
import { limits, openApiFixture, type ApiFixture } from '../fixture.ts';

describe('the memory pool of a node', () => {
  test('a tenant gets at most as much as remains for all others', () => {
    const pool = createMemoryPool({ bytesMax: 90 });
    const one = pool.open(1);
    assert.equal(one.take(45), true);
    assert.equal(one.take(1), false);
    assert.equal(pool.open(1).take(1), false);
    const two = pool.open(2);
    assert.equal(two.take(22), true);
    assert.equal(two.take(1), false);
    assert.equal(pool.open(3).take(11), true);
  });

  test('closed shares are free again', () => {
    const pool = createMemoryPool({ bytesMax: 20 });
    const first = pool.open(1);
    const second = pool.open(1);
    assert.equal(first.take(4), true);
    assert.equal(first.take(2), true);
    assert.equal(second.take(4), true);
    assert.equal(second.take(1), false);
    first.close();
    first.close();
    assert.equal(second.take(6), true);
    assert.equal(second.take(1), false);
  });
});

describe('memory of request bodies', () => {
  const bytesMax = 256 * 1024;
  const open = async (t: TestContext): Promise<ApiFixture> => {
    const fixture = await openApiFixture({ limits: { ...limits, bodiesBytesMax: bytesMax } });
    t.after(() => fixture.close());
    return fixture;
  };

  /** Sends a part of a body, which ends only when the rest of it is sent. */
  const hang = (
    t: TestContext,
    fixture: ApiFixture,
    path: string,
    sent: string,
    more: number,
  ): Socket => {
    const socket = connect(fixture.port, '127.0.0.1').on('error', () => {});
    t.after(() => socket.destroy());
    socket
      .resume()
      .write(
        `POST /api/v2${path} HTTP/1.1\r\nhost: 127.0.0.1:${fixture.port}\r\n` +
          `authorization: Bearer ${fixture.token}\r\ncontent-type: application/json\r\n` +
          `content-length: ${sent.length + more}\r\n\r\n${sent}`,
      );
    return socket;
  };
  const event = { type: 'order.paid', data: { x: 'x'.repeat(100_000) } };

  for (const path of ['/events', '/users']) {
    test(`POST ${path}: a body above the memory of its tenant is 429 until others have ended`, async (t) => {
      const fixture = await open(t);
      const sent = '{'.padEnd(bytesMax / 2 - 60_000);
      /** An event that arrives before all of it is read gets the memory instead of it. */
      const hangOne = async (): Promise<Socket> => {
        const accepted = once(fixture.app.server, 'connection') as Promise<[Socket]>;
        const opened = hang(t, fixture, path, sent, 50_000);
        const [peer] = await accepted;
        const isRead = (): boolean => peer.bytesRead > sent.length || peer.destroyed;
        await waitFor('the part of a body to be read', isRead);
        return opened;
      };
      let socket = await hangOne();
      const rejected = await waitFor('a 429', async () => {
        // A reset may arrive before the response.
        if (socket.bytesRead > 0 || socket.destroyed) socket = await hangOne();
        const response = await fixture.send('POST', '/events', event);
        return response.status === 429 && response;
      });
      assert.deepEqual(rejected.body, {
        statusCode: 429,
        error: 'Too Many Requests',
        message: 'Too many bodies of this tenant are under way.',
        errorCode: 'too_many_requests',
      });
      assert.equal(rejected.headers.get('retry-after'), '1');
      assert.equal((await fixture.send('POST', '/events', { type: 'a.b', data: {} })).status, 202);
      socket.destroy();
      await waitFor(
        'free memory',
        async () => (await fixture.send('POST', '/events', event)).status === 202,
      );
    });
  }

  test('a disconnected client releases the memory of its body', { tags: ['long'] }, async (t) => {
    const fixture = await open(t);
    const slow = `{"type":"a.b","data":{"x":[${Array(30_000).fill('1.0').join(',')}]}}`;
    for (let i = 0; i < 20; i += 1) hang(t, fixture, '/events', slow, 0).end();
    await waitFor(
      'free memory',
      async () => (await fixture.send('POST', '/events', event)).status === 202,
    );
  });

  test(
    'a body in chunks of one byte takes the memory of its bytes',
    { tags: ['long'] },
    async (t) => {
      const fixture = await open(t);
      const before = memoryInUse().heapUsed;
      const chunks = 60_000;
      const sockets: Socket[] = [];
      for (let i = 0; i < 5; i += 1) {
        const socket = connect(fixture.port, '127.0.0.1').on('error', () => {});
        sockets.push(socket);
        const accepted = once(fixture.app.server, 'connection') as Promise<[Socket]>;
        socket.write(
          'POST /oauth/token HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n' +
            'transfer-encoding: chunked\r\n\r\n',
        );
        socket.write('1\r\n \r\n'.repeat(chunks));
        const [peer] = await accepted;
        await waitFor('all to be read', () => peer.bytesRead > 6 * chunks);
      }
      const bytes = memoryInUse().heapUsed - before;
      for (const socket of sockets) socket.destroy();
      assert.ok(bytes < 20_000_000, `${bytes} bytes`);
    },
  );

  test('a connection whose body was too long does not hold what was read of it', async (t) => {
    const fixture = await openApiFixture();
    t.after(() => fixture.close());
    const before = memoryInUse().arrayBuffers;
    const chunk = `80000\r\n${'x'.repeat(0x80000)}\r\n`;
    const sockets = Array.from({ length: 10 }, () => connect(fixture.port, '127.0.0.1'));
    const rejected = sockets.map(async (socket) => {
      t.after(() => socket.destroy());
      socket.write(
        'POST /api/v2/event-streams HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n' +
          `content-type: application/json\r\nauthorization: Bearer ${fixture.token}\r\n\r\n`,
      );
      socket.write(chunk.repeat(3));
      const [response] = (await once(socket, 'data')) as [Buffer];
      return response.toString('latin1').slice(9, 12);
    });
    assert.deepEqual(new Set(await Promise.all(rejected)), new Set(['413']));
    const bytes = (): number => memoryInUse().arrayBuffers - before;
    await waitFor('free memory', () => bytes() < 3_000_000, { progress: () => String(bytes()) });
    assert.ok(sockets.every((socket) => !socket.readableEnded));
  });
});

/** Returns the memory of what is still reachable. */
function memoryInUse(): NodeJS.MemoryUsage {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage();
}
