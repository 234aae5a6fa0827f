import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, systemRandom } from '../src/clock.ts';
import { makeBody } from '../src/core/envelope.ts';
import { makeId } from '../src/core/ids.ts';
import { makeSecret } from '../src/core/sign.ts';
import type { NewEvent } from '../src/core/types.ts';
import { openStore } from '../src/store/open.ts';
import type { Store } from '../src/store/port.ts';

/** A folder with a store, and the real `leat serve` on it. */

const secretKey = Buffer.alloc(32, 7);
const client = { id: 'bench', secret: 'a-secret-of-the-bench' };
const tenant = 1;

export interface Running {
  readonly port: number;
  readonly pid: number;
  readonly token: string;
  end(): Promise<void>;
}

export interface Place {
  readonly file: string;
  remove(): Promise<void>;
}

export async function makePlace(): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-bench-'));
  return {
    file: join(folder, 'leat.db'),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Opens the store of a place without a server, for filling it by direct commands. */
export async function withStore<T>(place: Place, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore({
    location: { engine: 'sqlite', path: place.file },
    secretKey,
    random: systemRandom,
  });
  try {
    if ((await store.tenants.list()).length === 0) {
      await store.tenants.create({ name: 'main', domain: 'localhost' }, systemClock.now());
    }
    return await work(store);
  } finally {
    await store.close();
  }
}

/** An enabled stream for `types` that posts to a port of this machine. */
export async function addStream(
  store: Store,
  port: number,
  options: { name: string; types?: readonly string[]; status?: 'enabled' | 'disabled' },
): Promise<string> {
  const now = systemClock.now();
  const answer = await store.streams.create(
    {
      tenant,
      id: makeId('est_', now, systemRandom),
      name: options.name,
      status: options.status ?? 'enabled',
      types: options.types ?? ['order.paid'],
      destination: {
        type: 'webhook',
        endpoint: `http://127.0.0.1:${port}/`,
        authorization: { method: 'bearer', token: 'token-of-the-bench' },
      },
      signingSecrets: [{ secret: makeSecret(systemRandom), createdAt: now, expiresAt: undefined }],
      createdAt: now,
      updatedAt: now,
    },
    { streamsMax: 100_000 },
  );
  if ('refused' in answer) throw new Error(answer.refused);
  return answer.created.id;
}

/** What a shop might publish: an envelope of about 400 bytes. */
export function makeEvent(seq = 0): NewEvent {
  const now = systemClock.now();
  const id = makeId('evt_', now, systemRandom);
  const body = makeBody({
    id,
    type: 'order.paid',
    time: now,
    data: orderData(seq),
    tenantName: 'main',
    service: 'leat',
    prefix: 'svc',
  });
  return { id, chosen: false, type: 'order.paid', time: now, body };
}

export function orderData(seq: number): Record<string, unknown> {
  return {
    object: {
      seq,
      order_id: '65e1a0b2c3d4e5f60718293a',
      customer: { name: 'Ada Lovelace', email: 'ada@example.com' },
      total: { amount: 4200, currency: 'EUR' },
      items: [{ sku: 'book-1', quantity: 2 }],
    },
  };
}

export async function fill(
  store: Store,
  count: number,
  progress: (text: string) => void,
): Promise<void> {
  const chunk = 1000;
  for (let done = 0; done < count; done += chunk) {
    const events = Array.from({ length: Math.min(chunk, count - done) }, () => makeEvent());
    await store.log.append(tenant, events, systemClock.now());
    if (done % 50_000 === 0) progress(`filling the log: ${done} of ${count}`);
  }
}

/** Starts the program on a place and waits until it is ready. */
export async function startLeat(
  place: Place,
  settings: Record<string, string> = {},
): Promise<Running> {
  const port = await freePort();
  const child = spawn(process.execPath, ['src/main.ts', 'serve'], {
    cwd: new URL('..', import.meta.url),
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      LEAT_STORE: `sqlite:${place.file}`,
      LEAT_SECRET_KEY: secretKey.toString('base64'),
      LEAT_PORT: String(port),
      LEAT_BOOTSTRAP_CLIENT_ID: client.id,
      LEAT_BOOTSTRAP_CLIENT_SECRET: client.secret,
      LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
      LEAT_EGRESS_ALLOW: '127.0.0.0/8',
      LEAT_PUBLISH_LIMIT_PER_SECOND: '100000000',
      LEAT_LOG_LEVEL: 'error',
      ...settings,
    },
  });
  const pid = child.pid;
  if (pid === undefined) throw new Error('the server did not start');
  await ready(child, port);
  return { port, pid, token: await fetchToken(port), end: () => end(child) };
}

async function ready(child: ChildProcess, port: number): Promise<void> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    if (answer?.ok === true) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function fetchToken(port: number): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id: client.id,
      client_secret: client.secret,
    }),
  });
  const { access_token: token } = (await answer.json()) as { access_token?: string };
  if (token === undefined) throw new Error(`no token: ${answer.status}`);
  return token;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
