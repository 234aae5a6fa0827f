import type { Millis } from './clock.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const defaultMs = 14 * dayMs;
/** Longer windows have days for buckets. */
const hourlyMs = 48 * hourMs;

/** The window of a statistic and its buckets (docs/http-api.md#statistics). */
export interface StatsWindow {
  /** Full hours. */
  readonly from: Millis;
  readonly to: Millis;
  readonly bucketMs: number;
  /** Starts of the buckets that the asked window touches; each is counted whole. */
  readonly buckets: readonly Millis[];
}

/** What was asked for; `from` is not later than `to`. */
export interface AskedWindow {
  readonly from?: Millis | undefined;
  readonly to?: Millis | undefined;
}

/** The window asked for, completed: by default the last 14 days up to the next full hour. */
export function statsWindow(asked: AskedWindow, now: Millis): StatsWindow {
  const nextHour = floor(now, hourMs) + hourMs;
  const askedTo = asked.to ?? nextHour;
  const askedFrom = asked.from ?? floor((asked.to ?? now) - defaultMs, hourMs);
  const from = floor(askedFrom, hourMs);
  const to = floor(askedTo, hourMs);
  const bucketMs = to - from <= hourlyMs ? hourMs : dayMs;
  const buckets: Millis[] = [];
  for (let start = floor(askedFrom, bucketMs); start < askedTo; start += bucketMs) {
    buckets.push(start);
  }
  return { from, to, bucketMs, buckets };
}

/** Counts of hours, summed up by bucket. */
export function bucketSums(
  { buckets, bucketMs }: Pick<StatsWindow, 'buckets' | 'bucketMs'>,
  hours: readonly { readonly hour: Millis; readonly count: number }[],
): number[] {
  const sums = buckets.map(() => 0);
  const [first = 0] = buckets;
  for (const { hour, count } of hours) {
    const index = Math.floor((hour - first) / bucketMs);
    if (sums[index] !== undefined) sums[index] += count;
  }
  return sums;
}

function floor(time: Millis, unitMs: number): Millis {
  return Math.floor(time / unitMs) * unitMs;
}
