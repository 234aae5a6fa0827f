import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import { webhookKeys as keyUse } from '../../src/auth/key-use.ts';
import { createKeyringOf } from '../../src/auth/keys.ts';
import { createWebhookKeys } from '../../src/auth/webhook-keys.ts';
import type { Clock } from '../../src/core/clock.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { selectionNow, withSelection } from '../../src/core/subscription.ts';
import type { NewEvent, Stream, Node } from '../../src/core/types.ts';
import { createDispatcher, type Dispatcher } from '../../src/delivery/dispatcher.ts';
import type { DeliveryReport } from '../../src/delivery/report.ts';
import { createSigningTransport } from '../../src/delivery/signing-transport.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';
import { openMemoryCopy } from '../helpers/sqlite.ts';
import {
  createScriptedTransport,
  type ScriptedPost,
  type ScriptedTransport,
} from '../helpers/transport.ts';
import { addTenant, newEvent, newStream, waitRule } from '../store/contract/fixture.ts';

export const secret = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=';

export const settings: DeliverySettings = {
  streamConcurrency: 4,
  concurrency: 16,
  inflightBytesMax: 1_000_000,
  claimedBytes: 1000,
  slowSlots: 4,
  unansweredBackoffMs: 250,
  unansweredPerSecond: 256,
  retryDelaysMs: [1000, 2000, 4000],
  retry4xx: [408, 429],
  attemptTimeoutMs: 10_000,
  disable: { consecutive: 500, total: 5000 },
  userAgent: 'Leat/0.0.0',
  attributePrefix: 'svc',
  parkAfterMs: 1000,
  parkAfterEvents: 8,
  trialMs: 60_000,
  settleMs: 10,
  settleMax: 16,
  leaseGraceMs: 5000,
  leaseMs: 10_000,
  leaseStopMs: 7000,
  heartbeatMs: 2500,
  tailEventsMax: 100,
  tailBytesMax: 1_000_000,
  pageEvents: 20,
  pageBytes: 1_000_000,
  lagOffsetsMax: 10_000,
  lagMs: 60_000,
  pollMs: 5000,
};

/** A dispatcher on a real store, with a clock and a transport that the test controls. */
export interface DeliveryFixture {
  readonly store: Store;
  readonly clock: ManualClock;
  readonly transport: ScriptedTransport;
  readonly reports: DeliveryReport[];
  readonly dispatcher: Dispatcher;
  readonly tenant: number;
  /** Runs the dispatcher; without it nothing is delivered. */
  start(): Promise<void>;
  /** Stops the dispatcher; resolves when it has ended. */
  stop(): Promise<void>;
  /** Stops the dispatcher and runs a new one. */
  restart(): Promise<void>;
  /** Kills the dispatcher, as a crash does, and runs a new one. */
  crash(): Promise<void>;
  /** Rejects like a command while the store is unavailable. */
  unavailable(): Promise<never>;
  /** Appends events whose posts stay open; returns those posts. */
  publishHanging(...types: string[]): Promise<readonly ScriptedPost[]>;
  /** Appends events of the types; returns their ids. */
  publish(...types: string[]): Promise<string[]>;
  /** Appends events to the log of a tenant, with bodies of about `bytes` if set. */
  publishTo(tenant: number, count: number, type: string, bytes?: number): Promise<void>;
  /** Appends events of the default type of the streams; returns their ids. */
  publishMany(count: number): Promise<string[]>;
  addStream(options?: Partial<Stream> & { types?: string[]; filter?: string }): Promise<Stream>;
  update(
    stream: Stream,
    change: Partial<Stream> & { types?: string[]; filter?: string },
    resume?: 'latest' | 'held',
  ): Promise<Stream>;
  /** Returns the ids of the events that were sent, in the order of the attempts. */
  sent(): string[];
  /** Returns the cursor in the store of a stream that the dispatcher owns. */
  cursor(stream: Stream): Promise<number>;
  reported<K extends DeliveryReport['kind']>(kind: K): Extract<DeliveryReport, { kind: K }>[];
}

interface Running {
  readonly dispatcher: Dispatcher;
  readonly abort: AbortController;
  ended: Promise<void> | undefined;
}

/** Returns the store with other commands about deliveries. */
export function withDeliveries(store: Store, deliveries: Partial<Store['deliveries']>): Store {
  return { ...store, deliveries: { ...store.deliveries, ...deliveries } };
}

export interface FixtureOptions {
  readonly settings?: Partial<DeliverySettings>;
  /** Wraps the store of the dispatcher. */
  readonly through?: (store: Store) => Store;
  /** Wraps the clock of the dispatcher. */
  readonly clock?: (clock: Clock) => Clock;
  readonly respond?: ScriptedTransport['respond'];
}

export async function createDeliveryFixture(
  t: TestContext,
  options: FixtureOptions = {},
): Promise<DeliveryFixture> {
  const clock = createManualClock();
  const store = await openMemoryCopy({
    secretKeys: [new Uint8Array(32)],
    random: randomBytes,
    clock,
    defer: queueMicrotask,
  });
  const { id: tenant } = await addTenant(store, 'main');
  const transport = createScriptedTransport(options.respond);
  const reports: DeliveryReport[] = [];
  const keys = options.through?.(store).webhookKeys ?? store.webhookKeys;
  const keyring = createKeyringOf(keyUse, { keys, watch: store.watch.bind(store), clock });
  t.after(keyring.close);
  const webhookKeys = createWebhookKeys({ keyring, keys, clock });
  let node: Node | undefined;
  const watched: Store = {
    ...store,
    ownership: {
      ...store.ownership,
      join: async (...args) => (node = await store.ownership.join(...args)),
    },
  };
  const make = (): Running => {
    const dispatcher = createDispatcher({
      store: options.through?.(watched) ?? watched,
      transport: createSigningTransport(transport, (error) =>
        reports.push({ kind: 'unexpected', error }),
      ),
      webhookKeys,
      clock: options.clock?.(clock) ?? clock,
      settings: { ...settings, ...options.settings },
      report: (report) => reports.push(report),
    });
    return { dispatcher, abort: new AbortController(), ended: undefined };
  };
  let running = make();
  const start = async (): Promise<void> => {
    running.ended = running.dispatcher.run(running.abort.signal);
    await clock.advance(0);
  };
  const stop = async (): Promise<void> => {
    running.abort.abort();
    await clock.advance(0);
    await running.ended;
  };
  t.after(async () => {
    running.dispatcher.kill();
    await running.ended;
    await store.close();
  });

  const append = async (events: NewEvent[]): Promise<string[]> => {
    await store.log.append(tenant, events);
    await clock.advance(0);
    return events.map((event) => event.id);
  };
  return {
    store,
    clock,
    transport,
    reports,
    get dispatcher() {
      return running.dispatcher;
    },
    tenant,
    start,
    stop,
    restart: async () => {
      await stop();
      running = make();
      await start();
    },
    crash: async () => {
      running.dispatcher.kill();
      await running.ended;
      running = make();
      await start();
    },
    unavailable: () => Promise.reject(new StoreUnavailable('away')),
    publishHanging: async (...types) => {
      transport.respond = () => undefined;
      const before = transport.posts.length;
      await append(types.map((type) => newEvent({ type, time: clock.now() })));
      return transport.posts.slice(before);
    },
    publish: (...types) => append(types.map((type) => newEvent({ type, time: clock.now() }))),
    publishTo: async (to, count, type, bytes = 0) => {
      const time = clock.now();
      const body = JSON.stringify({ data: 'x'.repeat(bytes) });
      await store.log.append(
        to,
        Array.from({ length: count }, () => newEvent({ type, time, ...(bytes > 0 && { body }) })),
      );
      await clock.advance(0);
    },
    publishMany: (count) =>
      append(Array.from({ length: count }, () => newEvent({ time: clock.now() }))),
    addStream: async (stream = {}) => {
      const signingSecrets = [{ secret, createdAt: 0, expiresAt: undefined }];
      const result = await store.streams.create(
        newStream(tenant, clock.now(), { signingSecrets, ...stream }),
        { streamsMax: 100_000 },
      );
      assert.ok('created' in result);
      await clock.advance(0);
      return result.created;
    },
    update: async (stream, change, resume) => {
      const result = await store.streams.update(tenant, stream.id, (before, { head }) => {
        const { types, filter, ...rest } = change;
        const isNew = types !== undefined || filter !== undefined;
        const present = selectionNow(before.subscriptions);
        const selection = { types: types ?? present.types, filter: filter ?? present.filter };
        const subscriptions = isNew && withSelection(before.subscriptions, selection, head);
        return { after: { ...before, ...(subscriptions && { subscriptions }), ...rest }, resume };
      });
      assert.ok('updated' in result);
      await clock.advance(0);
      return result.updated;
    },
    sent: () => transport.posts.map((post) => post.eventId),
    cursor: async (stream) => {
      assert.ok(node, 'the dispatcher has joined');
      const refs = [{ tenant, stream: stream.id }];
      const [owned] = await store.ownership.owned(node, refs, waitRule);
      assert.ok(owned, 'the dispatcher owns the stream');
      return owned.cursor;
    },
    reported: (kind) => reports.filter((report) => report.kind === kind) as never,
  };
}
