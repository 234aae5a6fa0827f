import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { Clock } from '../../src/core/clock.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { withTypes } from '../../src/core/subscription.ts';
import type { NewEvent, Stream, Node } from '../../src/core/types.ts';
import { createDispatcher, type Dispatcher } from '../../src/delivery/dispatcher.ts';
import type { DeliveryReport } from '../../src/delivery/report.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';
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

/** A dispatcher at work on a real store, with a clock and a transport that the test moves. */
export interface DeliveryScene {
  readonly store: Store;
  readonly clock: ManualClock;
  readonly transport: ScriptedTransport;
  readonly reports: DeliveryReport[];
  readonly dispatcher: Dispatcher;
  readonly tenant: number;
  /** Begins to work; without it nothing is delivered. */
  start(): Promise<void>;
  /** Ends in an orderly way; answers once it has. */
  stop(): Promise<void>;
  /** Ends in an orderly way, and lets a new dispatcher begin. */
  restart(): Promise<void>;
  /** Ends as a crash does, and lets a new dispatcher begin. */
  crash(): Promise<void>;
  /** What a command of a store that is away answers. */
  unavailable(): Promise<never>;
  /** Appends events whose posts stay open; answers those posts. */
  publishHanging(...types: string[]): Promise<readonly ScriptedPost[]>;
  /** Appends events of the types; answers their ids. */
  publish(...types: string[]): Promise<string[]>;
  /** Appends events to the log of a tenant, with bodies of some `bytes` where that is given. */
  publishTo(tenant: number, count: number, type: string, bytes?: number): Promise<void>;
  /** Appends a number of events of the type that streams want unless told otherwise. */
  publishMany(count: number): Promise<string[]>;
  addStream(given?: Partial<Stream> & { types?: string[] }): Promise<Stream>;
  update(
    stream: Stream,
    change: Partial<Stream> & { types?: string[] },
    resume?: 'latest' | 'held',
  ): Promise<Stream>;
  /** Ids of the events that were sent, in the order of the attempts. */
  sent(): string[];
  /** The cursor that the store has, of a stream that the dispatcher owns. */
  cursor(stream: Stream): Promise<number>;
  reported<K extends DeliveryReport['kind']>(kind: K): Extract<DeliveryReport, { kind: K }>[];
}

interface Running {
  readonly dispatcher: Dispatcher;
  readonly abort: AbortController;
  ended: Promise<void> | undefined;
}

export interface SceneGiven {
  readonly settings?: Partial<DeliverySettings>;
  /** What the dispatcher sees of the store. */
  readonly through?: (store: Store) => Store;
  /** What the dispatcher sees of the clock. */
  readonly clock?: (clock: Clock) => Clock;
  readonly respond?: ScriptedTransport['respond'];
}

export async function createDeliveryScene(
  t: TestContext,
  given: SceneGiven = {},
): Promise<DeliveryScene> {
  const clock = createManualClock();
  const store = await openStore({
    location: { engine: 'sqlite', path: ':memory:' },
    secretKey: new Uint8Array(32),
    random: randomBytes,
    clock,
    defer: queueMicrotask,
  });
  const { id: tenant } = await addTenant(store, 'main');
  const transport = createScriptedTransport(given.respond);
  const reports: DeliveryReport[] = [];
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
      store: given.through?.(watched) ?? watched,
      transport,
      clock: given.clock?.(clock) ?? clock,
      settings: { ...settings, ...given.settings },
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
      const answer = await store.streams.create(
        newStream(tenant, clock.now(), { signingSecrets, ...stream }),
        { streamsMax: 100_000 },
      );
      assert.ok('created' in answer);
      await clock.advance(0);
      return answer.created;
    },
    update: async (stream, change, resume) => {
      const answer = await store.streams.update(tenant, stream.id, (before, { head }) => {
        const { types, ...rest } = change;
        const subscriptions = types && withTypes(before.subscriptions, types, head);
        return { after: { ...before, ...(subscriptions && { subscriptions }), ...rest }, resume };
      });
      assert.ok('updated' in answer);
      await clock.advance(0);
      return answer.updated;
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
