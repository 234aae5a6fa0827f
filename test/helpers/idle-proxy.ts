import { mkdtemp, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from './cluster.ts';
import { freePort } from './ports.ts';
import { programPath, startProgram } from './program.ts';

/** Connections that are idle between requests: through a proxy that keeps them, and without one. */

/** Returns why this machine has no proxy for {@link sendAfterIdleTimes}. */
export const noNginx = (): string | false =>
  programPath('nginx') === undefined && 'nginx is not installed';

export interface IdleRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Status of its response. */
  readonly expected: number;
}

export interface IdleTimes {
  /** After so long the proxy closes an idle connection. */
  readonly idleMs: number;
  /** Times that each client waits and sends again. */
  readonly rounds: number;
  readonly clients: number;
}

/** Requests come this much before the proxy closes the connection, or after it. */
const aroundMs = [-120, -60, -20, 0, 20, 60, 120];

/**
 * Sends a request again and again when its connection was idle for so long, through a real nginx and over a
 * connection of its own. Returns what was wrong: another status, or a connection that Leat did not keep.
 */
export async function sendAfterIdleTimes(
  scope: Scope,
  leatPort: number,
  asked: IdleRequest,
  { idleMs, rounds, clients }: IdleTimes,
): Promise<string[]> {
  const proxyPort = await startNginx(scope, leatPort, { idleMs, connections: clients });
  const wrong: string[] = [];
  const client = async (port: number, agent: Agent | false, first: number): Promise<void> => {
    for (let round = 0; round <= rounds; round += 1) {
      const { status, isReused } = await send(port, asked, agent);
      if (status !== asked.expected) wrong.push(`${status} after ${idleMs} ms`);
      if (agent !== false && round > 0 && !isReused) {
        wrong.push(`Leat did not keep a connection that was idle for ${idleMs} ms`);
      }
      const ms = aroundMs[(first + round) % aroundMs.length] ?? 0;
      if (round < rounds) await sleep(idleMs + ms);
    }
  };
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const throughProxy = Array.from({ length: clients }, (_, first) =>
    client(proxyPort, false, first),
  );
  await Promise.all([...throughProxy, client(leatPort, agent, 0)]);
  agent.destroy();
  return wrong;
}

/** Returns the port of an nginx that sends each request once, over a connection that it kept if it has one. */
async function startNginx(
  scope: Scope,
  leatPort: number,
  { idleMs, connections }: { readonly idleMs: number; readonly connections: number },
): Promise<number> {
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
    keepalive ${connections};
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
  scope.after(program.close);
  return port;
}

function send(
  port: number,
  { method, path, headers }: IdleRequest,
  agent: Agent | false,
): Promise<{ readonly status: number; readonly isReused: boolean }> {
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: '127.0.0.1', method, path, headers, agent });
    sent.on('error', reject);
    sent.on('response', (response) => {
      response.resume();
      const { reusedSocket: isReused } = sent;
      response.on('end', () => resolve({ status: response.statusCode ?? 0, isReused }));
    });
    sent.end(method === 'POST' ? '{"type":"order.paid","data":{"object":{}}}' : undefined);
  });
}
