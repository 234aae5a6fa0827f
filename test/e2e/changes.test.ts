import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { createTempStore, startLeat, waitFor } from '../helpers/leat.ts';
import { openPull } from '../helpers/pull.ts';

describe('GET /changes of the running program', () => {
  test('clients that are gone before the head, ask for the head alone or send more requests leave no connection taken', async (t) => {
    const tempStore = await createTempStore();
    const leat = await startLeat(tempStore, { LEAT_SSE_MAX_CONNECTIONS: '4' });
    t.after(async () => {
      await leat.kill();
      await tempStore.remove();
    });
    const head = (method: string): string =>
      `${method} /api/v2/changes HTTP/1.1\r\nHost: localhost:${leat.port}\r\nAuthorization: Bearer ${leat.token}\r\n\r\n`;
    for (let round = 0; round < 30; round += 1) {
      const sockets = [head('GET'), head('HEAD') + head('GET'), head('GET').repeat(3)].map(
        (requests, index) => {
          const socket = connect({ port: leat.port, host: '127.0.0.1' }, () => {
            socket.write(requests);
            if ((round + index) % 2 === 0) socket.destroy();
          });
          return socket.on('error', () => undefined);
        },
      );
      if (round % 3 === 0)
        await Promise.race(sockets.map((socket) => once(socket, 'data').catch(() => undefined)));
      for (const socket of sockets) socket.destroy();
    }
    const url = `${leat.url}/api/v2/changes`;
    const open = await waitFor('two free connections', async () => {
      const pulls = [await openPull(url, leat.token), await openPull(url, leat.token)];
      if (pulls.every(({ status }) => status === 200)) return pulls;
      for (const pull of pulls) pull.close();
      return undefined;
    });
    assert.equal((await openPull(url, leat.token)).status, 403);
    for (const pull of open) pull.close();
  });
});
