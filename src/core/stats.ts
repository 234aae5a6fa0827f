import type { Millis } from './clock.ts';
import { dayMs, hourMs } from './units.ts';

const defaultMs = 14 * dayMs;
/** Longer windows have daily buckets. */
const hourlyMs = 48 * hourMs;

/** The window of a statistic and its buckets (docs/http-api.md#statistics). */
export interface StatsWindow {
  /** Full hours. */
  readonly from: Millis;
  readonly to: Millis;
  readonly bucketMs: number;
  /** Starts of the buckets that overlap the requested window; each is counted whole. */
  readonly buckets: readonly Millis[];
}

/** The window of a request; `from` is not later than `to`. */
export interface RequestedWindow {
  readonly from?: Millis | undefined;
  readonly to?: Millis | undefined;
}

/** Returns the complete window: by default the last 14 days up to the next full hour. */
export function statsWindow(requested: RequestedWindow, now: Millis): StatsWindow {
  const exactTo = requested.to ?? floor(now, hourMs) + hourMs;
  const exactFrom = requested.from ?? floor((requested.to ?? now) - defaultMs, hourMs);
  const from = floor(exactFrom, hourMs);
  const to = floor(exactTo, hourMs);
  const bucketMs = to - from <= hourlyMs ? hourMs : dayMs;
  const buckets: Millis[] = [];
  for (let start = floor(exactFrom, bucketMs); start < exactTo; start += bucketMs) {
    buckets.push(start);
  }
  return { from, to, bucketMs, buckets };
}

/** Returns the sum of each bucket; drops hours outside the buckets. */
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
