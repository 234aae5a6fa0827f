import type { Millis } from '../core/clock.ts';
import type { Backlog } from '../delivery/backlog.ts';

/** The lag of a stream. */
export interface Lag extends Backlog {
  /** Age of the oldest event; `undefined` where it is unknown. */
  readonly seconds: number | undefined;
}

/** The lag of all streams together. */
export interface LagSummary {
  readonly retries: number;
  /** Streams that have not passed all of their log. */
  readonly lagging: number;
  readonly events: number;
  readonly eventsMax: number;
  readonly secondsMax: number;
  /**
   * All streams if they are at most `most`; else at most `most` of those that lag: half of them by
   * time, the others by events, as a quiet tenant has few events and a new backlog has no time.
   */
  readonly streams: Iterable<Lag>;
}

/** Streams between two calls of `yieldToOthers`: less than a millisecond. */
const sliceStreams = 250;

/**
 * Sums up the backlogs of any number of streams, few of which are in memory at a time. Awaits
 * `yieldToOthers` from time to time, so that other work continues.
 */
export async function summarizeLags(
  backlogs: Iterable<Backlog>,
  { now, most, yieldToOthers }: { now: Millis; most: number; yieldToOthers: () => Promise<void> },
): Promise<LagSummary> {
  let [count, retries, lagging, events, eventsMax, secondsMax] = [0, 0, 0, 0, 0, 0];
  const first: Lag[] = [];
  const byEvents = createHighest(most, (lag) => lag.events);
  const bySeconds = createHighest(Math.floor(most / 2), (lag) => lag.seconds ?? 0);
  for (const backlog of backlogs) {
    count += 1;
    if (count % sliceStreams === 0) await yieldToOthers();
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

/** Collects the `most` lags with the highest values, highest first; drops others from time to time. */
function createHighest(
  most: number,
  valueOf: (lag: Lag) => number,
): { add(lag: Lag): void; take(): Lag[] } {
  let highest: Lag[] = [];
  const take = (): Lag[] => {
    highest = highest.toSorted((one, other) => valueOf(other) - valueOf(one)).slice(0, most);
    return highest;
  };
  return {
    add: (lag) => {
      highest.push(lag);
      if (highest.length >= 4 * most + 1000) take();
    },
    take,
  };
}
