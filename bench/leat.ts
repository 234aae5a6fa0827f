import type { ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import { systemClock, systemRandom } from '../src/clock.ts';
import { makeBody } from '../src/core/envelope.ts';
import { makeId } from '../src/core/ids.ts';
import { makeSecret } from '../src/core/sign.ts';
import type { NewEvent, Stream } from '../src/core/types.ts';
import { openStore, type StoreOptions } from '../src/store/open.ts';
import type { Store } from '../src/store/port/store.ts';
import * as program from '../test/helpers/leat.ts';
import { secretKey } from '../test/helpers/leat.ts';
import { beginProfile, endProfiled, profiledEnvironment } from './profile.ts';

/** An empty store: a fresh SQLite file, or a fresh database of a PostgreSQL server. */
export interface TempStore extends program.TempStore {
  readonly location: StoreOptions['location'];
  /** Settings that make a server run on it. */
  readonly settings: Readonly<Record<string, string>>;
}

/** How a store is created, and how many servers run on it. */
export interface Setup {
  readonly createTempStore: () => Promise<TempStore>;
  readonly nodes: number;
}

/** Folders and servers must not outlive a benchmark that fails or is interrupted. */
const living = new Set<ChildProcess>();
const folders: string[] = [];
process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Creates a folder that is removed when this process ends at the latest. */
export async function makeFolder(): Promise<program.TempStore> {
  const tempStore = await program.createTempStore();
  folders.push(tempStore.folder);
  return tempStore;
}

/** Creates an SQLite store in a file of its own. */
export async function createTempStore(): Promise<TempStore> {
  const tempStore = await makeFolder();
  return { ...tempStore, location: { engine: 'sqlite', path: tempStore.file }, settings: {} };
}

export const onSqlite: Setup = { createTempStore, nodes: 1 };

const tenant = 1;

/** Opens a store without a server, for filling it by direct commands. */
export async function withStore<T>(
  tempStore: TempStore,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const store = await openStore({
    location: tempStore.location,
    secretKeys: [secretKey],
    random: systemRandom,
    clock: systemClock,
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

/** Creates an enabled stream for `types` that posts to a port of this machine. */
export async function addStream(
  store: Store,
  port: number,
  options: Pick<Stream, 'name'> &
    Partial<Pick<Stream, 'status' | 'delivery'>> & {
      types?: readonly string[];
      /** As JSON. */
      filter?: string;
      protocol?: 'http' | 'https';
    },
): Promise<string> {
  const now = systemClock.now();
  const result = await store.streams.create(
    {
      tenant,
      id: makeId('est_', now, systemRandom),
      name: options.name,
      status: options.status ?? 'enabled',
      types: options.types ?? ['order.paid'],
      filter: options.filter,
      destination: {
        type: 'webhook',
        endpoint: `${options.protocol ?? 'http'}://127.0.0.1:${port}/`,
        authorization: { method: 'bearer', token: 'token-of-the-bench' },
      },
      delivery: options.delivery,
      signingSecrets: [{ secret: makeSecret(systemRandom), createdAt: now, expiresAt: undefined }],
      createdAt: now,
      updatedAt: now,
    },
    { streamsMax: 100_000 },
  );
  if ('refused' in result) throw new Error(result.refused);
  return result.created.id;
}

/** A typical event: an envelope of about 400 bytes. */
export function makeEvent(seq = 0, type = 'order.paid'): NewEvent {
  const now = systemClock.now();
  const id = makeId('evt_', now, systemRandom);
  const body = makeBody({
    id,
    type,
    time: now,
    data: orderData(seq),
    tenantName: 'main',
    service: 'leat',
    prefix: 'svc',
  });
  return { id, chosen: false, type, time: now, body };
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

/** Appends waiting events, with their types in turn; `seqOf` returns `seq` of an index. */
export async function fill(
  store: Store,
  count: number,
  progress: (text: string) => void,
  types: readonly string[] = ['order.paid'],
  seqOf: (index: number) => number = () => 0,
): Promise<void> {
  const chunk = 1000;
  for (let done = 0; done < count; done += chunk) {
    const events = Array.from({ length: Math.min(chunk, count - done) }, (_, i) =>
      makeEvent(seqOf(done + i), types[(done + i) % types.length]),
    );
    await store.log.append(tenant, events);
    if (done % 50_000 === 0) progress(`filling the log: ${done} of ${count}`);
  }
}

/** Starts the real server with the settings of a benchmark. */
export async function startLeat(
  tempStore: TempStore,
  settings: Record<string, string> = {},
): Promise<Running> {
  const all = {
    LEAT_PUBLISH_LIMIT_PER_SECOND: '100000000',
    LEAT_LOG_LEVEL: 'error',
    ...tempStore.settings,
    ...settings,
  };
  const leat = await program.startLeat(tempStore, profiledEnvironment(all));
  return endedWithBench(leat);
}

/** Ends a server of `test/helpers/leat.ts` with this process at the latest. */
export function endedWithBench({ port, url, token, child, kill }: program.Running): Running {
  living.add(child);
  child.once('exit', () => living.delete(child));
  beginProfile(child, 'server');
  const end = async (): Promise<void> => {
    if (!(await endProfiled(child, () => child.kill('SIGINT')))) await kill();
  };
  return { port, url, pid: child.pid ?? 0, token, end };
}

/** Starts servers on one store, one after the other: the first one creates the schema and the keys. */
export async function startNodes(
  tempStore: TempStore,
  count: number,
  settings: Record<string, string> = {},
): Promise<Running[]> {
  const nodes: Running[] = [];
  while (nodes.length < count) nodes.push(await startLeat(tempStore, settings));
  return nodes;
}

export async function endNodes(nodes: readonly Running[]): Promise<void> {
  await Promise.all(nodes.map((node) => node.end()));
}

export interface Running {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  readonly token: string;
  end(): Promise<void>;
}
