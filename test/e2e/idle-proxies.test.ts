import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { accepts } from '../../src/operator/running-server.ts';
import { noNginx, sendAfterIdleTimes } from '../helpers/idle-proxy.ts';
import { end, freePort, spawnLeat, startFreshLeat, waitFor } from '../helpers/leat.ts';

/**
 * Proxies in front close idle connections to Leat after a time of their own, 60 s and 350 s with load
 * balancers. Leat keeps them for longer, `LEAT_KEEP_ALIVE_SECONDS`: otherwise it closes one while a request is on its
 * way. All times are a hundredth of those; `npm run test:nights` waits for the real ones.
 */
const keepAliveSeconds = 7;
const idleTimesMs = [600, 3500];
const clients = 12;
const rounds = 7;

describe('nginx in front of both APIs', { skip: noNginx(), concurrency: true }, () => {
  for (const idleMs of idleTimesMs) {
    test(
      `no request fails that comes when nginx has kept its connection idle for ${idleMs} ms`,
      { tags: ['long'] },
      async (t) => {
        const messagesPort = await freePort();
        const settings = { LEAT_KEEP_ALIVE_SECONDS: `${keepAliveSeconds}` };
        const leat = await startFreshLeat(t, settings);
        const { child, output } = spawnLeat(['messages'], {
          ...settings,
          PORT: `${messagesPort}`,
          CLIENT_ORIGIN_URL: 'https://www.example.com',
          TOKEN_AUDIENCE: 'https://messages.example.com',
          TOKEN_ISSUER_DOMAIN: 'issuer.example.com',
        });
        t.after(() => end(child, 'SIGKILL'));
        const listens = () => accepts({ port: messagesPort, host: '127.0.0.1' });
        await waitFor('the message API to listen', listens, { progress: output });
        const headers = {
          authorization: `Bearer ${leat.token}`,
          'content-type': 'application/json',
        };
        const published = {
          method: 'POST',
          path: '/api/v2/events',
          headers,
          expected: 202,
        } as const;
        const read = {
          method: 'GET',
          path: '/api/messages/public',
          headers: {},
          expected: 200,
        } as const;
        const times = { idleMs, rounds, clients };
        const wrong = await Promise.all([
          sendAfterIdleTimes(t, leat.port, published, times),
          sendAfterIdleTimes(t, messagesPort, read, times),
        ]);
        assert.deepEqual(wrong.flat(), []);
      },
    );
  }
});
