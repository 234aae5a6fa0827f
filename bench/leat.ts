import { rmSync } from 'node:fs';
import { systemClock, systemRandom } from '../src/clock.ts';
import { makeBody } from '../src/core/envelope.ts';
import { makeId } from '../src/core/ids.ts';
import { makeSecret } from '../src/core/sign.ts';
import type { NewEvent, Stream } from '../src/core/types.ts';
import { openStore, type StoreOptions } from '../src/store/open.ts';
import type { Store } from '../src/store/port/store.ts';
import * as program from '../test/helpers/leat.ts';
import type { Progress } from './bench.ts';
import { endChild, profiled } from './child.ts';

type Settings = Readonly<Record<string, string>>;

/** An empty store: a fresh SQLite file, or a fresh database of a PostgreSQL server. */
export interface TempStore extends program.TempStore {
  readonly location: StoreOptions['location'];
  /** Settings that make a server run on it. */
  readonly settings: Settings;
}

/** Where stores are created. */
export interface Engine {
  readonly name: 'SQLite' | 'PostgreSQL';
  createTempStore(): Promise<TempStore>;
  /** The process of its server, if it has one. */
  readonly serverPid: number | undefined;
}

const folders: string[] = [];
process.on('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Creates a folder that is removed when this process ends at the latest. */
export async function makeFolder(): Promise<program.TempStore> {
  const tempStore = await program.createTempStore();
  folders.push(tempStore.folder);
  return tempStore;
}

export const sqlite: Engine = {
  name: 'SQLite',
  serverPid: undefined,
  createTempStore: async () => {
    const tempStore = await makeFolder();
    return { ...tempStore, location: { engine: 'sqlite', path: tempStore.file }, settings: {} };
  },
};

const tenant = 1;

/** Opens a store without a server, for filling it by direct commands. */
export async function withStore<T>(
  tempStore: TempStore,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const store = await openStore({
    location: tempStore.location,
    secretKeys: [program.secretKey],
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

/** A stream that is enabled, for `order.paid`, unless another is asked for. */
export type StreamOptions = Partial<Pick<Stream, 'name' | 'status' | 'delivery' | 'tenant'>> & {
  readonly types?: readonly string[];
  /** As JSON. */
  readonly filter?: string;
  readonly protocol?: 'http' | 'https';
};

/** Creates streams that post to a port of this machine. */
export async function addStreams(
  store: Store,
  port: number,
  streams: readonly StreamOptions[],
  progress?: Progress,
): Promise<void> {
  for (const [index, options] of streams.entries()) {
    if (index % 500 === 0) progress?.(`creating streams: ${index} of ${streams.length}`);
    await addStream(store, port, { name: `stream-${index}`, ...options });
  }
}

/** Creates a stream that posts to a port of this machine; returns its id. */
export async function addStream(
  store: Store,
  port: number,
  options: StreamOptions & Pick<Stream, 'name'>,
): Promise<string> {
  const now = systemClock.now();
  const result = await store.streams.create(
    {
      tenant: options.tenant ?? tenant,
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
  progress: Progress,
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

/** A server under measurement. */
export interface Running extends program.Running {
  readonly pid: number;
  /** Of requests with a JSON body. */
  readonly headers: Readonly<Record<string, string>>;
  end(): Promise<void>;
}

/** Starts the real server with the settings of a benchmark, and the sender threads of this process. */
export async function startLeat(tempStore: TempStore, settings: Settings = {}): Promise<Running> {
  const { LEAT_SENDER_THREADS: threads } = process.env;
  const leat = await program.startLeat(
    tempStore,
    profiled('leat', {
      LEAT_PUBLISH_LIMIT_PER_SECOND: '100000000',
      LEAT_LOG_LEVEL: 'error',
      ...(threads !== undefined && { LEAT_SENDER_THREADS: threads }),
      ...tempStore.settings,
      ...settings,
    }),
  );
  const headers = { authorization: `Bearer ${leat.token}`, 'content-type': 'application/json' };
  return { ...leat, pid: leat.child.pid ?? 0, headers, end: () => endChild(leat.child) };
}

interface Wanted {
  /** SQLite by default. */
  readonly engine?: Engine;
  /** How many servers: 1 by default. */
  readonly nodes?: number;
  /** Fills the store before they start. */
  readonly fill?: (store: Store, tempStore: TempStore) => Promise<unknown>;
  readonly settings?: Settings;
}

/**
 * Starts servers on a fresh store for the time of `work`, one after the other: the first one creates the
 * schema and the keys.
 */
export async function withNodes<T>(
  { engine = sqlite, nodes: count = 1, fill: filled, settings }: Wanted,
  work: (nodes: readonly Running[], tempStore: TempStore) => Promise<T>,
): Promise<T> {
  const tempStore = await engine.createTempStore();
  if (filled !== undefined) await withStore(tempStore, (store) => filled(store, tempStore));
  const nodes: Running[] = [];
  while (nodes.length < count) nodes.push(await startLeat(tempStore, settings));
  const result = await work(nodes, tempStore);
  await Promise.all(nodes.map((node) => node.end()));
  await tempStore.remove();
  return result;
}

/** The same with one server. */
export function withLeat<T>(
  wanted: Omit<Wanted, 'nodes'>,
  work: (leat: Running, tempStore: TempStore) => Promise<T>,
): Promise<T> {
  return withNodes(wanted, ([leat], tempStore) => {
    if (leat === undefined) throw new Error('No server was started.');
    return work(leat, tempStore);
  });
}
