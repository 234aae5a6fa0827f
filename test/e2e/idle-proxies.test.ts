import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { accepts } from '../../src/operator/running-server.ts';
import { end, freePort, spawnLeat, startFreshLeat, waitFor } from '../helpers/leat.ts';
import { programPath, startProgram } from '../helpers/program.ts';

/**
 * Proxies in front close idle connections to Leat after a time of their own, 60 s and 350 s with load
 * balancers. Leat keeps them for longer, `LEAT_KEEP_ALIVE_SECONDS`: otherwise it closes one while a request is on its
 * way. All times are a hundredth of those.
 */
const keepAliveSeconds = 7;
const idleTimesMs = [600, 3500];
const pollers = 12;
/** Requests of each poller come this much before the proxy closes the connection, or after it. */
const aroundMs = [-120, -60, -20, 0, 20, 60, 120];

const skip = programPath('nginx') === undefined && 'nginx is not installed';
describe('nginx in front of both APIs', { skip, concurrency: true }, () => {
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
        const management = await startNginx(t, leat.port, idleMs);
        const messages = await startNginx(t, messagesPort, idleMs);
        const headers = {
          authorization: `Bearer ${leat.token}`,
          'content-type': 'application/json',
        };
        const statuses = await Promise.all(
          Array.from({ length: pollers }, async () => {
            const found: (readonly [number, number])[] = [];
            for (const ms of aroundMs) {
              const published = send(management, 'POST', '/api/v2/events', headers);
              const read = send(messages, 'GET', '/api/messages/public', {});
              found.push([await published, await read]);
              await sleep(idleMs + ms);
            }
            return found;
          }),
        );
        const wrong = statuses
          .flat()
          .filter(([published, read]) => published !== 202 || read !== 200);
        assert.deepEqual(wrong, []);
      },
    );
  }
});

/** Returns the port of an nginx that sends each request once, over a connection that it kept if it has one. */
async function startNginx(t: TestContext, leatPort: number, idleMs: number): Promise<number> {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), 'leat-nginx-'));
  const file = join(folder, 'nginx.conf');
  await writeFile(
    file,
    `daemon off;
pid ${folder}/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  upstream leat {
    server 127.0.0.1:${leatPort};
    keepalive ${pollers};
    keepalive_timeout ${idleMs}ms;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://leat;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host 127.0.0.1:${leatPort};
      proxy_next_upstream off;
    }
  }
}
`,
  );
  const args = ['-p', folder, '-c', file, '-e', 'stderr'];
  const program = await startProgram('nginx', { args, folder, port, end: { signal: 'QUIT' } });
  t.after(program.close);
  return port;
}

/** Returns the status of a request over a connection of its own. */
function send(
  port: number,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: '127.0.0.1', method, path, headers, agent: false });
    sent.on('error', reject);
    sent.on('response', (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode ?? 0));
    });
    sent.end(method === 'POST' ? '{"type":"order.paid","data":{"object":{}}}' : undefined);
  });
}
