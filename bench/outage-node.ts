/**
 * A dispatcher on a store of its own, with a shorter interval between trials than the program has, for
 * the benchmark `outage`. It publishes too. Messages over IPC: `{ kind: 'started' }` when publishing
 * begins, at the end a {@link NodeReport}.
 */
import { systemClock, systemRandom } from '../src/clock.ts';
import { limits } from '../src/config.ts';
import { makeId } from '../src/core/ids.ts';
import { createDispatcher } from '../src/delivery/dispatcher.ts';
import { createEgressRule } from '../src/delivery/http/egress.ts';
import { createInspector } from '../src/delivery/http/inspector.ts';
import { createNameLookups } from '../src/delivery/http/name-lookups.ts';
import { createResolver } from '../src/delivery/http/resolver.ts';
import { createTransport } from '../src/delivery/http/transport.ts';
import { createSigningTransport } from '../src/delivery/signing-transport.ts';
import type { Store } from '../src/store/port/store.ts';
import type { StreamFacts } from '../src/store/port/streams.ts';
import { noKeys } from '../test/helpers/transport.ts';
import { addStream, makeEvent, withStore } from './leat.ts';
import { type NodeOptions, type NodeReport, type Side, sides } from './outage-plan.ts';

const tenant = 1;
const pastEvents = 1000;
const replayEverySeconds = 2;
/** After the last event all cycles end within a day of the benchmark. */
const endsWithinSeconds = 120;
const typeOf = (side: Side): string => `order.${side}`;
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const options = JSON.parse(process.argv[2] ?? '') as NodeOptions;
const { file } = options;
process.on('disconnect', () => process.exit(0));
await withStore(
  { file, folder: '', location: { engine: 'sqlite', path: file }, settings: {}, remove: noop },
  run,
);
process.exit(0);

async function noop(): Promise<void> {}

async function run(store: Store): Promise<void> {
  const streams = await addStreams(store);
  const dispatcher = startDispatcher(store);
  const past = Array.from({ length: pastEvents }, () => makeEvent(-1, typeOf('poisoned')));
  await store.log.append(tenant, past);
  await sleep(500);
  await dispatcher.idle();
  process.send?.({ kind: 'started' });
  const replays = createReplays(store, streams.poisoned);
  const sentAtMs = await publish(store, replays.begin);
  const report = await reportOf(store, streams, replays);
  await new Promise((resolve) => process.send?.({ ...report, sentAtMs }, resolve));
  dispatcher.kill();
}

async function addStreams(store: Store): Promise<Record<Side, string>> {
  const add = (side: Side): Promise<string> =>
    addStream(store, options.ports[side], {
      name: side,
      types: [typeOf(side)],
      delivery: side === 'other' ? undefined : options.delivery,
    });
  return { poisoned: await add('poisoned'), twin: await add('twin'), other: await add('other') };
}

function startDispatcher(store: Store): ReturnType<typeof createDispatcher> {
  const clock = systemClock;
  const { resolve } = createResolver({ clock, ...limits.resolver });
  const transport = createTransport({
    clock,
    egress: createEgressRule({ allow: ['127.0.0.0/8'] }),
    names: createNameLookups({ clock, resolve, limits: limits.names }),
    inspector: createInspector({ clock, settings: limits.inspector }),
    timeoutMs: 10_000,
    connectionMs: 60_000,
    ...limits.response,
  });
  const dispatcher = createDispatcher({
    store,
    transport: createSigningTransport(transport, (error) => {
      throw error;
    }),
    webhookKeys: noKeys,
    clock,
    settings: {
      ...limits.delivery,
      trialMs: options.trialMs,
      // The defaults of the program.
      streamConcurrency: 64,
      concurrency: 1024,
      inflightBytesMax: 268_435_456,
      retryDelaysMs: [1000, 2000, 4000],
      retry4xx: [408, 429],
      attemptTimeoutMs: 10_000,
      disable: { consecutive: 500, total: 5000 },
      userAgent: 'Leat/0.1.0',
      attributePrefix: 'svc',
    },
    report: () => undefined,
  });
  void dispatcher.run(new AbortController().signal);
  return dispatcher;
}

/** Publishes the events of all streams evenly; calls `everySome` every two seconds meanwhile. */
async function publish(
  store: Store,
  everySome: () => Promise<void>,
): Promise<Record<Side, number[]>> {
  const sent: Record<Side, number[]> = { poisoned: [], twin: [], other: [] };
  const began = nowMs();
  let nextMs = began;
  const appending: Promise<unknown>[] = [];
  for (let share = 0; share < 1; await sleep(1)) {
    const now = nowMs();
    share = Math.min(1, (now - began) / 1000 / options.seconds);
    if (now >= nextMs) {
      nextMs += replayEverySeconds * 1000;
      appending.push(everySome());
    }
    const events = sides.flatMap((side) => {
      const from = sent[side].length;
      const due = Math.floor(share * options.events[side]) - from;
      sent[side].push(...Array.from({ length: due }, () => now));
      return Array.from({ length: due }, (_, index) => makeEvent(from + index, typeOf(side)));
    });
    if (events.length > 0) appending.push(store.log.append(tenant, events));
  }
  await Promise.all(appending);
  return sent;
}

interface Replays {
  /** Begins one more replay, unless one is running. */
  begin(): Promise<void>;
  /** Returns how many began, and how many of their events were not sent. */
  state(): Promise<{ readonly replays: number; readonly replayLost: number }>;
}

function createReplays(store: Store, stream: string): Replays {
  const ids: string[] = [];
  return {
    begin: async () => {
      const id = makeId('rpl_', systemClock.now(), systemRandom);
      const range = { from: 0, to: pastEvents, types: undefined };
      const begun = await store.replays.create({ tenant, stream, id, ...range });
      if ('created' in begun) ids.push(id);
    },
    state: async () => {
      const found = await Promise.all(ids.map((id) => store.replays.get(tenant, stream, id)));
      const sent = found.reduce((sum, replay) => sum + (replay?.sent ?? 0), 0);
      return { replays: ids.length, replayLost: ids.length * pastEvents - sent };
    },
  };
}

/** Waits until every cycle and every replay has ended, but not for long. */
async function reportOf(
  store: Store,
  streams: Record<Side, string>,
  replays: Replays,
): Promise<Omit<NodeReport, 'sentAtMs'>> {
  const lateMs = nowMs() + endsWithinSeconds * 1000;
  for (;;) {
    const facts = {
      poisoned: await store.streams.facts(tenant, streams.poisoned),
      twin: await store.streams.facts(tenant, streams.twin),
      other: await store.streams.facts(tenant, streams.other),
    };
    const isOver = Object.values(facts).every(hasEnded);
    if (!isOver && nowMs() < lateMs) {
      await sleep(500);
      continue;
    }
    const found = await Promise.all(sides.map((side) => store.streams.get(tenant, streams[side])));
    const openOf = (side: Side): number => facts[side]?.health.total ?? NaN;
    return {
      disabled: found.filter((stream) => stream?.status !== 'enabled').length,
      failed: { poisoned: openOf('poisoned'), twin: openOf('twin'), other: openOf('other') },
      ...(await replays.state()),
    };
  }
}

function hasEnded(facts: StreamFacts | undefined): boolean {
  if (facts === undefined) return true;
  const { waiting, retrying, parked, replay } = facts;
  return waiting.count + retrying + parked === 0 && replay === undefined;
}
