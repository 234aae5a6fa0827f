import { systemClock, systemRandom } from '../src/clock.ts';
import { makeId } from '../src/core/ids.ts';
import type { Store } from '../src/store/port/store.ts';
import type { StreamFacts } from '../src/store/port/streams.ts';
import type { Bench, Figure } from './bench.ts';
import { type Receiver, withReceiver } from './child.ts';
import { addStream, makeEvent, sqlite, withStore } from './leat.ts';
import { startDispatcher } from './outage-dispatcher.ts';
import { nowMs, wait } from './proc.ts';
import { against, figure, ratioFigure } from './report.ts';
import { isPoison } from './requests.ts';
import { alternate, median, pick, quantile, type Rounds, type Sides } from './rounds.ts';

const sides = ['poisoned', 'twin', 'other'] as const;
type Side = (typeof sides)[number];
type OfSides<T> = Readonly<Record<Side, T>>;

const tenant = 1;
/** A day of the benchmark: the receiver is away in its second third. */
const daySeconds = 21;
const thirdSeconds = daySeconds / 3;
/** Of the events of the stream whose receiver refuses some, 50 always fail. */
const events: OfSides<number> = { poisoned: 10_050, twin: 10_050, other: 4200 };
const poison = Array.from({ length: events.poisoned }, (_, seq) => seq).filter(isPoison).length;
/** A cycle lasts a day, as that of `hours` does; trials are as frequent in proportion as the shortest waits. */
const delaysSeconds = [1, 1, 1, 2, 3, 5, 8];
const trialMs = 500;
const pastEvents = 1000;
const replayEverySeconds = 2;
/** After the last event all cycles end within a day of the benchmark. */
const endsWithinSeconds = 120;

/** A stream with a schedule whose receiver is away for a third of the time. */
export const outage: Bench = {
  name: 'outage',
  what:
    `a stream with a schedule of ${daySeconds} s whose receiver is away for ${thirdSeconds} of ${daySeconds} s, with ${poison} ` +
    `events that always fail among ${events.poisoned - poison} others, and replays; against a stream on such a receiver ` +
    'without these, and against another stream of the tenant on a day without the outage',
  run: (progress, { rounds }) =>
    withReceiver(['--seq', '--poison'], (poisoned) =>
      withReceiver(['--seq'], (twin) =>
        withReceiver(['--seq'], async (other) => {
          const receivers = { poisoned, twin, other };
          const play = (hasOutage: boolean) => () => playDay(receivers, hasOutage);
          // With the outage, and without.
          const days = await alternate(rounds, play(true), play(false), progress);
          return [...deliveryFigures(days), ...latencyFigures(days), ...otherFigures(days)];
        }),
      ),
    ),
};

/** When it was, by the monotonic clock of the machine. */
interface Day {
  /** When publishing began, and when the receiver was back. */
  readonly beganMs: number;
  readonly backMs: number;
  /** When each event was published. */
  readonly sentAtMs: OfSides<readonly number[]>;
  /** The first accepted arrival of each event. */
  readonly arrivedAtMs: OfSides<ReadonlyMap<number, number>>;
  /** Streams that are not enabled at the end. */
  readonly disabled: number;
  /** Open failures. */
  readonly failed: number;
  readonly replays: number;
  /** Events of replays that were not sent. */
  readonly replayLost: number;
}

/** Publishes for one day and waits until all cycles have ended. */
async function playDay(receivers: OfSides<Receiver>, hasOutage: boolean): Promise<Day> {
  const tempStore = await sqlite.createTempStore();
  const { poisoned, twin } = receivers;
  const day = await withStore(tempStore, async (store) => {
    const streams = await ofSides((side) =>
      addStream(store, receivers[side].port, {
        name: side,
        types: [typeOf(side)],
        delivery: side === 'other' ? undefined : { retry: { delaysSeconds } },
      }),
    );
    const dispatcher = startDispatcher(store, trialMs);
    const past = Array.from({ length: pastEvents }, () => makeEvent(-1, typeOf('poisoned')));
    await store.log.append(tenant, past);
    await wait(0.5);
    await dispatcher.idle();
    await ofSides((side) => receivers[side].reset());
    const beganMs = nowMs();
    const replays = createReplays(store, streams.poisoned);
    const publishing = publish(store, replays.begin);
    await wait(thirdSeconds);
    if (hasOutage) await Promise.all([poisoned.away(), twin.away()]);
    await wait(thirdSeconds);
    const backMs = nowMs();
    await Promise.all([poisoned.back(), twin.back()]);
    const sentAtMs = await publishing;
    const ended = await endOf(store, streams);
    await dispatcher.end();
    return { beganMs, backMs, sentAtMs, ...ended, ...(await replays.state()) };
  });
  await tempStore.remove();
  return { ...day, arrivedAtMs: await ofSides((side) => firstArrivals(receivers[side])) };
}

async function ofSides<T>(make: (side: Side) => Promise<T>): Promise<OfSides<T>> {
  return { poisoned: await make('poisoned'), twin: await make('twin'), other: await make('other') };
}

const typeOf = (side: Side): string => `order.${side}`;

async function firstArrivals(receiver: Receiver): Promise<ReadonlyMap<number, number>> {
  const { arrivals } = await receiver.report();
  return new Map(arrivals.toReversed());
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
  for (let share = 0; share < 1; await wait(0.001)) {
    const now = nowMs();
    share = Math.min(1, (now - began) / 1000 / daySeconds);
    if (now >= nextMs) {
      nextMs += replayEverySeconds * 1000;
      appending.push(everySome());
    }
    const due = sides.flatMap((side) => {
      const from = sent[side].length;
      const count = Math.floor(share * events[side]) - from;
      sent[side].push(...Array.from({ length: count }, () => now));
      return Array.from({ length: count }, (_, index) => makeEvent(from + index, typeOf(side)));
    });
    if (due.length > 0) appending.push(store.log.append(tenant, due));
  }
  await Promise.all(appending);
  return sent;
}

interface Replays {
  /** Begins one more replay, unless one is running. */
  begin(): Promise<void>;
  /** Returns how many began, and how many of their events were not sent. */
  state(): Promise<Pick<Day, 'replays' | 'replayLost'>>;
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
async function endOf(
  store: Store,
  streams: OfSides<string>,
): Promise<Pick<Day, 'disabled' | 'failed'>> {
  const lateMs = nowMs() + endsWithinSeconds * 1000;
  for (;;) {
    const facts = Object.values(
      await ofSides((side) => store.streams.facts(tenant, streams[side])),
    );
    if (!facts.every(hasEnded) && nowMs() < lateMs) {
      await wait(0.5);
      continue;
    }
    const found = await ofSides((side) => store.streams.get(tenant, streams[side]));
    return {
      disabled: Object.values(found).filter((stream) => stream?.status !== 'enabled').length,
      failed: facts.reduce((sum, of) => sum + (of?.health.total ?? NaN), 0),
    };
  }
}

function hasEnded(facts: StreamFacts | undefined): boolean {
  if (facts === undefined) return true;
  const { waiting, retrying, parked, replay } = facts;
  return waiting.count + retrying + parked === 0 && replay === undefined;
}

/** Everything that can be delivered is, on every day. */
function deliveryFigures({ ours: away, theirs: calm }: Sides<Day>): Figure[] {
  const days = [...away, ...calm];
  const sum = (of: (day: Day) => number): number => days.reduce((all, day) => all + of(day), 0);
  const caughtUp = (side: Side): number[] => away.map((day) => caughtUpSeconds(day, side));
  return [
    figure('lost', 'events', [sum(lostOf)], {
      detail: `in ${days.length} days; ${sum(({ replays }) => replays)} replays of 1,000 events; ${sum(({ failed }) => failed)} failures of ${poison * days.length} events that always fail`,
      most: 0,
    }),
    figure('disabled', 'streams', [sum(({ disabled }) => disabled)], {
      detail: `of ${sides.length * days.length}`,
      most: 0,
    }),
    figure('caught up', 's', caughtUp('poisoned'), {
      detail: `after the receiver is back; ${median(caughtUp('twin')).toFixed(2)} s without events that fail`,
    }),
  ];
}

function lostOf({ arrivedAtMs, replayLost, sentAtMs }: Day): number {
  const missing = (side: Side): number =>
    sentAtMs[side].filter((_, seq) => {
      const isDeliverable = side !== 'poisoned' || !isPoison(seq);
      return isDeliverable && !arrivedAtMs[side].has(seq);
    }).length;
  return replayLost + sides.reduce((all, side) => all + missing(side), 0);
}

/** Returns how long after the return the last event arrived that was published before it. */
function caughtUpSeconds({ arrivedAtMs, backMs, sentAtMs }: Day, side: Side): number {
  const arrivals = sentAtMs[side].flatMap((sent, seq) =>
    sent < backMs ? [arrivedAtMs[side].get(seq) ?? backMs] : [],
  );
  return (arrivals.reduce((last, atMs) => Math.max(last, atMs), backMs) - backMs) / 1000;
}

/** Returns the quantile of the milliseconds from publishing to arrival, of events that are counted. */
function delayOf(
  { arrivedAtMs, sentAtMs }: Day,
  side: Side,
  share: number,
  isCounted: (sentAtMs: number) => boolean,
): number {
  const delays = sentAtMs[side].flatMap((sent, seq) => {
    const arrived = arrivedAtMs[side].get(seq);
    return arrived === undefined || !isCounted(sent) ? [] : [arrived - sent];
  });
  return quantile(delays, share);
}

const shares = [0.5, 0.99];

/** Once both streams have caught up, events that always fail do not hold up others. */
function latencyFigures({ ours: away }: Sides<Day>): Figure[] {
  return shares.map((share) => {
    const at = (side: Side): number[] =>
      away.map((day) => delayOf(day, side, share, (sent) => sent >= caughtUpMs(day)));
    const delays = { ours: at('poisoned'), theirs: at('twin') };
    return delayFigure(`p${share * 100}, receiver up`, delays, { most: 2, goal: 1 });
  });
}

function caughtUpMs(day: Day): number {
  const seconds = Math.max(caughtUpSeconds(day, 'poisoned'), caughtUpSeconds(day, 'twin'));
  return day.backMs + seconds * 1000;
}

/**
 * The other stream, from the start of the outage on. The seconds in which the others catch up are a tenth of
 * that here, but a hundred-thousandth of a day of 24 h: they have a figure of their own, without a limit.
 */
function otherFigures(days: Sides<Day>): Figure[] {
  const isCatchingUp = (day: Day, sent: number): boolean =>
    sent >= day.backMs && sent < caughtUpMs(day);
  const at = (share: number): Rounds =>
    pick(days, (day) =>
      delayOf(day, 'other', share, (sent) => {
        return sent >= day.beganMs + thirdSeconds * 1000 && !isCatchingUp(day, sent);
      }),
    );
  const catchingUp = days.ours.map((day) =>
    delayOf(day, 'other', 0.99, (sent) => isCatchingUp(day, sent)),
  );
  return [
    ...shares.map((share) =>
      delayFigure(`p${share * 100}, other stream`, at(share), { most: 1.02, goal: 1 }),
    ),
    delayFigure('p99, catching up', { ...at(0.99), ours: catchingUp }, {}),
  ];
}

function delayFigure(
  name: string,
  delays: Rounds,
  limit: { readonly most?: number; readonly goal?: number },
): Figure {
  const { theirs } = delays;
  const noise = `${Math.min(...theirs).toFixed(2)} to ${Math.max(...theirs).toFixed(2)} ms`;
  const detail = `${against(delays, 'ms', 2)} (${noise})`;
  return ratioFigure(name, delays, { detail, ...limit });
}
