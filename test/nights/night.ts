import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from '../helpers/cluster.ts';
import { createTempStore, leatProgram, type Running, startLeat } from '../helpers/leat.ts';
import { createQuota } from '../helpers/quota.ts';
import {
  type CountingReceiver,
  createStream,
  pair,
  publishOn,
  slotSettings,
  startCountingReceiver,
  twiceMax,
} from '../helpers/traffic.ts';
import { waitFor } from '../helpers/wait.ts';

/**
 * A night: the whole program under a steady load while it meets one fault after the other. What was
 * acknowledged is compared event by event with the log and with what the receiver has.
 */
export interface Night {
  readonly name: string;
  /** Returns what the machine lacks for it. */
  readonly missing: () => string | false;
  play(options?: PlayOptions): Promise<NightResult>;
}

export interface PlayOptions {
  /** Acknowledged events at the end, at least; 5,000 when absent. */
  readonly events?: number;
  /** Times that each fault is played, as the night says when absent. */
  readonly rounds?: number;
  /** The name of a mutant that is planted in every node. */
  readonly mutant?: string;
}

export interface NightResult {
  readonly faults: number;
  readonly acknowledged: number;
  /** Acknowledged events that the log does not have, or that have not arrived at every stream. */
  readonly lost: number;
  /** Acknowledged events that the fault itself took away, such as those after the backup that is restored. */
  readonly forgiven: number;
  /** Requests for events that had arrived before. */
  readonly twice: number;
  /** From an acknowledgement to the arrival at a stream. */
  readonly medianMs: number;
  readonly longestMs: number;
  readonly tookMs: number;
  /** What contradicts the guarantees or exceeds the bounds of the night. */
  readonly wrong: readonly string[];
}

/** The database of a night, and how a night breaks it. */
export interface NightStore {
  /** Returns the `LEAT_STORE` of a node, 0-indexed. */
  url(node: number): string;
  /** Returns the settings of a node, 0-indexed. */
  settings?(node: number): Readonly<Record<string, string>>;
  /** Returns the ids of all events in the log, and leaves the nodes running. */
  ids(nodes: readonly [NightNode, ...NightNode[]]): Promise<readonly string[]>;
}

export interface NightNode {
  readonly running: Running;
  /** Ends it as Ctrl-C does and starts another one. */
  restart(): Promise<void>;
  /** Kills it as `kill -9` does, does the work, and starts another one. */
  kill(work?: () => Promise<unknown>): Promise<void>;
  /** Ends it as Ctrl-C does, does the work, and starts another one. */
  without<Done>(work: () => Done | Promise<Done>): Promise<Done>;
  freeze(lastsMs: number): Promise<void>;
}

export interface Bed<Store extends NightStore> {
  readonly store: Store;
  readonly nodes: readonly [NightNode, ...NightNode[]];
  readonly receiver: CountingReceiver;
  /** The number of faults of this night. */
  readonly faults: number;
  /** Returns the last node. */
  readonly last: NightNode;
  /** Waits until this many more events are acknowledged. */
  more(events: number): Promise<void>;
  /** Events that are acknowledged during this work may be lost: it takes them away. */
  losing(work: () => Promise<unknown>): Promise<void>;
  /** Reports what is wrong. */
  wrong(what: string): void;
}

export interface NightSpec<Store extends NightStore> {
  readonly name: string;
  /** Opens the database of so many nodes; it ends with the scope. */
  readonly open: (scope: Scope, nodes: number) => Promise<Store>;
  /** 1 when absent. */
  readonly nodes?: number;
  /** Nodes that receive events, the first ones; all when absent. */
  readonly publishedTo?: number;
  readonly missing?: () => string | false;
  /** Events that publishers send in a second; 150 when absent. */
  readonly perSecond?: number;
  /** Each is played in turn while events are published. */
  readonly faults: readonly ((bed: Bed<Store>) => Promise<unknown>)[];
  /** Times that each fault is played; 1 when absent. */
  readonly rounds?: number;
  /** Follows the last fault, and reports what it finds wrong. */
  readonly finish?: (bed: Bed<Store>) => Promise<unknown>;
  /** Bounds of the delays. */
  readonly longestMs: number;
  /** For a night whose faults delay few events: it shows lost hints, which delay many. */
  readonly medianMs?: number;
}

export const streams = ['one', 'two', 'three'];
const eventsMin = 5000;
const faultsMin = 3;
/** Far below what a stream sends with its slots and this receiver, so that what waited is sent within seconds. */
const perSecondDefault = 150;
const tickMs = 50;
/** Of the receiver: at every moment some events are settled and older ones are not. */
const latencyMsMax = 80;
/** What has not arrived after so long without any arrival is lost: longer than a lease and a poll. */
const stallMs = 60_000;
const preload = new URL('../mutants/preload.ts', import.meta.url).href;
const sources = new URL('../../src/main.ts', import.meta.url).pathname;

export function nightOf<Store extends NightStore>(spec: NightSpec<Store>): Night {
  return {
    name: spec.name,
    missing: spec.missing ?? (() => false),
    play: async (options = {}) => {
      const ends: (() => Promise<void>)[] = [];
      try {
        return await play(spec, options, { after: (end) => void ends.push(end) });
      } finally {
        for (const end of ends.toReversed()) await end();
      }
    },
  };
}

async function play<Store extends NightStore>(
  spec: NightSpec<Store>,
  { events = eventsMin, rounds = spec.rounds ?? 1, mutant }: PlayOptions,
  scope: Scope,
): Promise<NightResult> {
  const beganMs = performance.now();
  const receiver = await startCountingReceiver(scope);
  receiver.startRound();
  receiver.latencyMsMax = latencyMsMax;
  const store = await spec.open(scope, spec.nodes ?? 1);
  const load = startLoad(scope, spec.perSecond ?? perSecondDefault);
  const start = (index: number): Promise<NightNode> => {
    const settings = { LEAT_TENANT_DOMAIN: 'localhost:4444', ...slotSettings };
    const own = { ...store.settings?.(index), LEAT_STORE: store.url(index) };
    const isPublishedTo = index < (spec.publishedTo ?? Infinity);
    const started = isPublishedTo ? load.publishAt : () => undefined;
    return startNode(scope, { ...settings, ...own }, mutant, started);
  };
  const nodes: [NightNode, ...NightNode[]] = [await start(0)];
  while (nodes.length < (spec.nodes ?? 1)) nodes.push(await start(nodes.length));
  for (const name of streams) await createStream(nodes[0].running, receiver.url, name);
  load.begin();
  const forgivenMs: (readonly [number, number])[] = [];
  const wrong: string[] = [];
  const faults = Array.from({ length: rounds }, () => spec.faults).flat();
  const bed: Bed<Store> = {
    store,
    faults: faults.length,
    nodes,
    last: nodes.at(-1) ?? nodes[0],
    receiver,
    more: load.more,
    losing: async (work) => {
      const fromMs = performance.now();
      await work();
      forgivenMs.push([fromMs, performance.now()]);
    },
    wrong: (what) => void wrong.push(what),
  };
  if (faults.length < faultsMin) wrong.push(`only ${faults.length} faults`);
  const step = Math.ceil(events / (faults.length + 1));
  await load.more(step);
  for (const fault of faults) {
    await fault(bed);
    await load.more(step);
  }
  await spec.finish?.(bed);
  await load.end();
  const compared = await compare(bed, load.acknowledgedMs, forgivenMs);
  const { longestMs, medianMs = Infinity } = spec;
  const twice = faults.length * streams.length * twiceMax;
  wrong.push(...compared.wrong);
  if (compared.lost > 0) wrong.push(`${compared.lost} acknowledged events are lost`);
  if (compared.twice > twice) wrong.push(`${compared.twice} requests twice, not ${twice}`);
  if (compared.longestMs > longestMs) wrong.push(`longest delay above ${longestMs} ms`);
  if (compared.medianMs > medianMs) wrong.push(`median of the delays above ${medianMs} ms`);
  const tookMs = performance.now() - beganMs;
  return { ...compared, faults: faults.length, tookMs, wrong };
}

/** Publishes steadily at every node that is given to it, and notes when each event was acknowledged. */
function startLoad(scope: Scope, perSecond: number) {
  const acknowledgedMs = new Map<string, number>();
  const acknowledged = { add: (id: string) => acknowledgedMs.set(id, performance.now()) };
  const ending = new AbortController();
  const quota = createQuota();
  const publishing: Promise<void>[] = [];
  let ticks: NodeJS.Timeout | undefined;
  const end = async (): Promise<void> => {
    clearInterval(ticks);
    ending.abort();
    await Promise.all(publishing);
  };
  scope.after(end);
  return {
    acknowledgedMs,
    end,
    /** Until then publishers wait: events from before the streams are not for them. */
    begin: (): void => {
      ticks = setInterval(() => {
        // What publishers could not send during an outage is not sent as a burst afterwards.
        if (quota.left < perSecond) quota.add((perSecond * tickMs) / 1000);
      }, tickMs);
    },
    publishAt: (node: Running): void => {
      const gone = new AbortController();
      node.child.once('exit', () => gone.abort());
      const until = AbortSignal.any([ending.signal, gone.signal]);
      publishing.push(publishOn(node, acknowledged, { quota, until, patient: true }));
    },
    more: async (events: number): Promise<void> => {
      const progress = (): number => acknowledgedMs.size;
      const wanted = progress() + events;
      await waitFor(`${events} more events`, () => progress() >= wanted, { progress });
    },
  };
}

async function startNode(
  scope: Scope,
  settings: Readonly<Record<string, string>>,
  mutant: string | undefined,
  started: (running: Running) => void,
): Promise<NightNode> {
  const folder = await createTempStore();
  const { NODE_OPTIONS: options = '' } = settings;
  const added = { NODE_OPTIONS: `${options} --import=${preload}`, LEAT_MUTANT: mutant ?? '' };
  const start = async (): Promise<Running> => {
    const next = await (mutant === undefined
      ? startLeat(folder, settings, leatProgram)
      : startLeat(folder, { ...settings, ...added }, sources));
    started(next);
    return next;
  };
  let running = await start();
  scope.after(async () => {
    running.child.kill('SIGCONT');
    await running.kill();
    await folder.remove();
  });
  const without: NightNode['without'] = async (work) => {
    await running.stop();
    const done = await work();
    running = await start();
    return done;
  };
  return {
    get running() {
      return running;
    },
    restart: () => without(() => undefined),
    without,
    kill: async (work) => {
      await running.kill();
      await work?.();
      running = await start();
    },
    freeze: async (lastsMs) => {
      running.child.kill('SIGSTOP');
      await sleep(lastsMs);
      running.child.kill('SIGCONT');
    },
  };
}

/** Compares the ledgers of the publishers and the receiver with the log, event by event. */
async function compare(
  { store, nodes, receiver }: Bed<NightStore>,
  acknowledgedMs: ReadonlyMap<string, number>,
  forgivenMs: readonly (readonly [number, number])[],
) {
  const stored = new Set(await store.ids(nodes));
  const isForgiven = (atMs: number): boolean =>
    forgivenMs.some(([fromMs, untilMs]) => atMs >= fromMs && atMs <= untilMs);
  const wrong: string[] = [];
  const { arrivedMs } = receiver;
  const notArrived = (): string[] =>
    [...stored].filter((id) => streams.some((name) => !arrivedMs.has(pair(name, id))));
  await waitFor('every event of the log', () => notArrived().length === 0, {
    progress: () => arrivedMs.size,
    stallMs,
  }).catch((error: unknown) => wrong.push(String(error)));
  const missing = new Set(notArrived());
  if (missing.size > 0) wrong.push(`${missing.size} events of the log have not arrived`);
  const gone = [...acknowledgedMs].filter(([id]) => !stored.has(id));
  const lost = gone.filter(([, atMs]) => !isForgiven(atMs));
  const phantoms = new Set(
    [...arrivedMs.keys()].map((key) => key.slice(key.indexOf(' ') + 1)),
  ).difference(stored);
  if (phantoms.size > 0 && forgivenMs.length === 0) {
    wrong.push(`${phantoms.size} events arrived that the log does not have`);
  }
  const delaysMs = [...acknowledgedMs].flatMap(([id, atMs]) =>
    streams.flatMap((name) => (arrivedMs.get(pair(name, id)) ?? atMs) - atMs),
  );
  const sorted = delaysMs.toSorted((one, other) => one - other);
  return {
    acknowledged: acknowledgedMs.size,
    lost: lost.length + [...acknowledgedMs.keys()].filter((id) => missing.has(id)).length,
    forgiven: gone.length - lost.length,
    twice: receiver.total() - receiver.distinct(),
    medianMs: sorted[sorted.length >> 1] ?? 0,
    longestMs: sorted.at(-1) ?? 0,
    wrong,
  };
}
