import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { connect as connectSecurely } from 'node:tls';
import { formatOffset } from '../../src/core/offset.ts';
import { createTempStore, type Running, startLeat, waitFor } from '../helpers/leat.ts';
import { openPull } from '../helpers/pull.ts';

const message = 'a pull was closed because its client did not read';

// Concurrent, as they mostly wait.
describe('clients of the program that do not read', { concurrency: true }, () => {
  for (const tls of [false, true]) {
    const how = tls ? ', over TLS' : '';
    test(
      `clients of the program that do not read are disconnected and named in the log, while others are served${how}`,
      { tags: ['long'] },
      async (t) => {
        const tempStore = await createTempStore();
        const leat = await startLeat(tempStore, tls ? { LEAT_TLS: 'local' } : {});
        t.after(async () => {
          await leat.kill();
          await tempStore.remove();
        });
        const live = await openDeaf(leat, tls, '');
        await publish(leat);
        const behind = await openDeaf(leat, tls, `?from=${formatOffset(0)}`);
        const warned = (): number => leat.output().split(message).length - 1;
        await waitFor('two warnings', async () => warned() === 2);
        assert.ok(leat.output().includes('"client":"operator"'));
        assert.ok(!leat.output().includes('xxxx'), 'nothing of an event is logged');
        await Promise.all([live, behind].map(ended));
        if (tls) return;
        // A client that reconnects is served.
        const pull = await openPull(
          `${leat.url}/api/v2/events?from=${formatOffset(0)}`,
          leat.token,
        );
        await pull.events(300);
        pull.close();
      },
    );
  }
});

/** Opens a pull whose client reads the head of the response and no more. */
async function openDeaf(leat: Running, tls: boolean, query: string): Promise<Socket> {
  const { port } = leat;
  const socket = tls
    ? connectSecurely({ port, host: 'localhost', servername: 'localhost' })
    : connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `GET /api/v2/events${query} HTTP/1.1\r\nHost: localhost:${port}\r\n` +
      `Authorization: Bearer ${leat.token}\r\n\r\n`,
  );
  await once(socket, 'data');
  socket.pause();
  return socket;
}

/** 30 MB, more than the system buffers for a connection. */
async function publish(leat: Running): Promise<void> {
  const data = { text: 'x'.repeat(100_000) };
  const events = Array.from({ length: 30 }, () => ({ type: 'a.big', data }));
  for (let round = 0; round < 10; round += 1) {
    const response = await leat.send('POST', '/api/v2/events', events);
    assert.equal(response.status, 202);
  }
}

async function ended(socket: Socket): Promise<void> {
  const closed = once(socket, 'close');
  socket.resume();
  await closed;
}
