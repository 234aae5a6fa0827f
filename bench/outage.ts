import type { Bench, Figure } from './bench.ts';
import { endChild, message, startChild, startReceiver, type Receiver } from './child.ts';
import { createTempStore } from './leat.ts';
import { type NodeOptions, type NodeReport, type Side, sides } from './outage-plan.ts';
import { isPoison } from './poison.ts';
import { wait } from './proc.ts';
import { median, quantile, ratios } from './rounds.ts';

/** A day of the benchmark: the receiver is away in its second third. */
const daySeconds = 21;
const thirdSeconds = daySeconds / 3;
/** Of the events of the stream whose receiver refuses some, 50 always fail. */
const events = { poisoned: 10_050, twin: 10_050, other: 4200 } as const;
const poison = Array.from({ length: events.poisoned }, (_, seq) => seq).filter(isPoison).length;
/** A cycle lasts a day, as that of `hours` does; trials are as frequent in proportion as the shortest waits. */
const delaysSeconds = [1, 1, 1, 2, 3, 5, 8];
const trialMs = 500;

/** A stream with a schedule whose receiver is away for a third of the time. */
export const outage: Bench = {
  name: 'outage',
  what:
    `a stream with a schedule of ${daySeconds} s whose receiver is away for ${thirdSeconds} of ${daySeconds} s, with ${poison} ` +
    `events that always fail among ${events.poisoned - poison} others, and replays; against a stream on such a receiver ` +
    'without these, and against another stream of the tenant on a day without the outage',
  run: async (progress, { rounds }) => {
    const receivers: Receivers = {
      poisoned: await startReceiver('--seq', '--poison'),
      twin: await startReceiver('--seq'),
      other: await startReceiver('--seq'),
    };
    const days: Days = { away: [], calm: [] };
    for (let round = 0; round < rounds; round += 1) {
      const order = round % 2 === 0 ? (['away', 'calm'] as const) : (['calm', 'away'] as const);
      for (const kind of order) {
        progress(`round ${round + 1} of ${rounds}, ${kind}`);
        days[kind].push(await play(receivers, kind === 'away'));
      }
    }
    await Promise.all(Object.values(receivers).map((receiver) => receiver.end()));
    return [...deliveryFigures(days), ...latencyFigures(days), ...otherFigures(days)];
  },
};

type Receivers = Readonly<Record<Side, Receiver>>;

interface Day extends NodeReport {
  /** When publishing began, and when the receiver was back, by the monotonic clock of the machine. */
  readonly beganMs: number;
  readonly backMs: number;
  /** The first accepted arrival of each event. */
  readonly arrivedAtMs: Readonly<Record<Side, ReadonlyMap<number, number>>>;
}

/** With an outage, and without. */
interface Days {
  readonly away: Day[];
  readonly calm: Day[];
}

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Publishes for one day and waits until all cycles have ended. */
async function play(receivers: Receivers, hasOutage: boolean): Promise<Day> {
  const tempStore = await createTempStore();
  await Promise.all(Object.values(receivers).map((receiver) => receiver.reset()));
  const { poisoned, twin, other } = receivers;
  const ports = { poisoned: poisoned.port, twin: twin.port, other: other.port };
  const delivery = { retry: { delaysSeconds } };
  const options: NodeOptions = {
    file: tempStore.file,
    ports,
    events,
    seconds: daySeconds,
    delivery,
    trialMs,
  };
  const child = startChild('./outage-node.ts', [JSON.stringify(options)]);
  await message(child);
  const beganMs = nowMs();
  const reported = message<NodeReport>(child);
  await wait(thirdSeconds);
  if (hasOutage) await Promise.all([poisoned.away(), twin.away()]);
  await wait(thirdSeconds);
  const backMs = nowMs();
  await Promise.all([poisoned.back(), twin.back()]);
  const report = await reported;
  await endChild(child);
  await tempStore.remove();
  const arrivedAtMs = {
    poisoned: await arrivalsAt(poisoned),
    twin: await arrivalsAt(twin),
    other: await arrivalsAt(other),
  };
  return { ...report, beganMs, backMs, arrivedAtMs };
}

async function arrivalsAt(receiver: Receiver): Promise<ReadonlyMap<number, number>> {
  const first = new Map<number, number>();
  for (const [seq, atMs] of (await receiver.report()).arrivals) {
    if (!first.has(seq)) first.set(seq, atMs);
  }
  return first;
}

/** Everything that can be delivered is, on every day. */
function deliveryFigures({ away, calm }: Days): Figure[] {
  const days = [...away, ...calm];
  const sum = (of: (day: Day) => number): number => days.reduce((all, day) => all + of(day), 0);
  const must = { kind: 'most', value: 0 } as const;
  const failed = sum(({ failed: open }) => open.poisoned + open.twin + open.other);
  const replayed = sum(({ replays }) => replays);
  return [
    {
      name: 'lost',
      detail: `in ${days.length} days; ${replayed} replays of 1,000 events; ${failed} failures of ${poison * days.length} events that always fail`,
      values: [sum(lostOf)],
      unit: 'events',
      must,
      goal: undefined,
    },
    {
      name: 'disabled',
      detail: `of ${sides.length * days.length}`,
      values: [sum(({ disabled }) => disabled)],
      unit: 'streams',
      must,
      goal: undefined,
    },
    {
      name: 'caught up',
      detail: `after the receiver is back; ${median(away.map((day) => caughtUpSeconds(day, 'twin'))).toFixed(2)} s without events that fail`,
      values: away.map((day) => caughtUpSeconds(day, 'poisoned')),
      unit: 's',
      must: undefined,
      goal: undefined,
    },
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

/** Returns the milliseconds from publishing to arrival of events that were published from then on. */
function delaysOf(
  { arrivedAtMs, sentAtMs }: Day,
  side: Side,
  fromMs: number,
  isCounted: (sentAtMs: number) => boolean = () => true,
): number[] {
  return sentAtMs[side].flatMap((sent, seq) => {
    const arrived = arrivedAtMs[side].get(seq);
    return sent < fromMs || arrived === undefined || !isCounted(sent) ? [] : [arrived - sent];
  });
}

/** Once both streams have caught up, events that always fail do not hold up others. */
function latencyFigures({ away }: Days): Figure[] {
  const at = (share: number, side: Side): number[] =>
    away.map((day) => quantile(delaysOf(day, side, caughtUpMs(day)), share));
  return [0.5, 0.99].map((share) => {
    const [ours, theirs] = [at(share, 'poisoned'), at(share, 'twin')];
    return delayFigure(`p${share * 100}, receiver up`, { ours, theirs }, 2);
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
function otherFigures({ away, calm }: Days): Figure[] {
  const isCatchingUp = (day: Day, sent: number): boolean =>
    sent >= day.backMs && sent < caughtUpMs(day);
  const fromMs = (day: Day): number => day.beganMs + thirdSeconds * 1000;
  const at = (share: number, days: readonly Day[]): number[] =>
    days.map((day) => {
      const isCounted = (sent: number): boolean => !isCatchingUp(day, sent);
      return quantile(delaysOf(day, 'other', fromMs(day), isCounted), share);
    });
  const figures = [0.5, 0.99].map((share) => {
    const [ours, theirs] = [at(share, away), at(share, calm)];
    return delayFigure(`p${share * 100}, other stream`, { ours, theirs }, 1.02);
  });
  const catchingUp = away.map((day) =>
    quantile(
      delaysOf(day, 'other', day.backMs, (sent) => isCatchingUp(day, sent)),
      0.99,
    ),
  );
  const pair = { ours: catchingUp, theirs: at(0.99, calm) };
  return [...figures, delayFigure('p99, catching up', pair, undefined)];
}

function delayFigure(
  name: string,
  { ours, theirs }: { readonly ours: readonly number[]; readonly theirs: readonly number[] },
  most: number | undefined,
): Figure {
  const noise = `${Math.min(...theirs).toFixed(2)} to ${Math.max(...theirs).toFixed(2)} ms`;
  return {
    name,
    detail: `${median(ours).toFixed(2)} against ${median(theirs).toFixed(2)} ms (${noise})`,
    values: ratios({ ours, theirs }),
    unit: '×',
    must: most === undefined ? undefined : { kind: 'most', value: most },
    goal: most === undefined ? undefined : 1,
  };
}
