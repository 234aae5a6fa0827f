import type { Millis } from '../core/clock.ts';
import type { Backlog } from '../delivery/backlog.ts';

/** How far a stream is behind. */
export interface Lag extends Backlog {
  /** `undefined` where nothing tells. */
  readonly seconds: number | undefined;
}

/** How far the streams are behind, all of them together. */
export interface LagSummary {
  readonly retries: number;
  /** Streams that have not passed all of their log. */
  readonly lagging: number;
  readonly events: number;
  readonly eventsMax: number;
  readonly secondsMax: number;
  /**
   * All streams, as long as they are no more than `most`; else at most so many of those that lag: half
   * of them by time, the others by events, as a quiet tenant has few and the first look knows no time.
   */
  readonly streams: Iterable<Lag>;
}

/** Streams between two breaks: less than a millisecond. */
const sliceStreams = 250;

/**
 * Sums up the backlogs of however many streams, of which it keeps few in memory. Awaits `rest` from
 * time to time, so that other work goes on meanwhile.
 */
export async function summarizeLags(
  backlogs: Iterable<Backlog>,
  { now, most, rest }: { now: Millis; most: number; rest: () => Promise<void> },
): Promise<LagSummary> {
  let [count, retries, lagging, events, eventsMax, secondsMax] = [0, 0, 0, 0, 0, 0];
  const first: Lag[] = [];
  const byEvents = createHighest(most, (lag) => lag.events);
  const bySeconds = createHighest(Math.floor(most / 2), (lag) => lag.seconds ?? 0);
  for (const backlog of backlogs) {
    count += 1;
    if (count % sliceStreams === 0) await rest();
    retries += backlog.retries;
    if (backlog.events === 0 && count > most) continue;
    const lag = { ...backlog, seconds: secondsOf(backlog, now) };
    if (count <= most) first.push(lag);
    if (lag.events === 0) continue;
    lagging += 1;
    events += lag.events;
    eventsMax = Math.max(eventsMax, lag.events);
    secondsMax = Math.max(secondsMax, lag.seconds ?? 0);
    byEvents.add(lag);
    bySeconds.add(lag);
  }
  const chosen = [...new Set([...bySeconds.take(), ...byEvents.take()])].slice(0, most);
  const streams = count <= most ? first : chosen;
  return { retries, lagging, events, eventsMax, secondsMax, streams };
}

function secondsOf({ events, oldestAt }: Backlog, now: Millis): number | undefined {
  if (events === 0) return 0;
  return oldestAt === undefined ? undefined : Math.max(0, now - oldestAt) / 1000;
}

/** Keeps those with the highest values, highest first, at most `most`; the rest goes from time to time. */
function createHighest(
  most: number,
  valueOf: (lag: Lag) => number,
): { add(lag: Lag): void; take(): Lag[] } {
  let kept: Lag[] = [];
  const take = (): Lag[] => {
    kept = kept.toSorted((one, other) => valueOf(other) - valueOf(one)).slice(0, most);
    return kept;
  };
  return {
    add: (lag) => {
      kept.push(lag);
      if (kept.length >= 4 * most + 1000) take();
    },
    take,
  };
}
