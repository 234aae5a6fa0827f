import type { Millis } from './clock.ts';
import { Histogram } from './histogram.ts';
import type { Slices } from './slices.ts';
import type { RequestedWindow } from './stats.ts';
import { dayMs, hourMs, minuteMs } from './units.ts';

/** The lengths of time that deliveries are counted by. */
export type StatsUnit = 'minute' | 'hour' | 'day';

export const unitMs: Readonly<Record<StatsUnit, number>> = {
  minute: minuteMs,
  hour: hourMs,
  day: dayMs,
};

/** How long minutes, hours and days are kept, which is also the longest window of each. */
export const keptMs: Readonly<Record<StatsUnit, number>> = {
  minute: dayMs,
  hour: 90 * dayMs,
  day: 400 * dayMs,
};

/** The window of a request that names no start. */
const defaultMs: Readonly<Record<StatsUnit, number>> = {
  minute: hourMs,
  hour: dayMs,
  day: 30 * dayMs,
};

/** What happened within some time: to one stream, or in a whole tenant. */
export interface DeliveryCounts {
  /** Events accepted; of a tenant only. */
  readonly published: number;
  /** Deliveries that succeeded. */
  readonly delivered: number;
  /** Deliveries that became failures. */
  readonly failed: number;
  /** Attempts that failed and are followed by another one. */
  readonly retried: number;
}

/** The same as it is stored, with histograms as text (see histogram.ts). */
export interface StoredCounts extends DeliveryCounts {
  /** From acceptance to success, of first deliveries. */
  readonly latency: string;
  /** Of attempts. */
  readonly duration: string;
}

/** Adds up counts. */
export class CountsSum {
  published = 0;
  delivered = 0;
  failed = 0;
  retried = 0;
  readonly latency = new Histogram();
  readonly duration = new Histogram();

  add(counts: StoredCounts): void {
    this.published += counts.published;
    this.delivered += counts.delivered;
    this.failed += counts.failed;
    this.retried += counts.retried;
    this.latency.merge(counts.latency);
    this.duration.merge(counts.duration);
  }

  stored(): StoredCounts {
    const { published, delivered, failed, retried, latency, duration } = this;
    const histograms = { latency: latency.encode(), duration: duration.encode() };
    return { published, delivered, failed, retried, ...histograms };
  }
}

/** A window of whole units: `from` inclusive, `to` exclusive. */
export interface UnitWindow {
  readonly unit: StatsUnit;
  readonly from: Millis;
  readonly to: Millis;
}

/** Returns the window of whole units that the requested one touches; by default it ends now. */
export function unitWindow(unit: StatsUnit, requested: RequestedWindow, now: Millis): UnitWindow {
  const exactTo = requested.to ?? now + 1;
  const exactFrom = requested.from ?? exactTo - defaultMs[unit];
  return { unit, from: startOf(unit, exactFrom), to: startOf(unit, exactTo - 1) + unitMs[unit] };
}

/** Returns whether a window has more units than are kept. */
export function isTooLong({ unit, from, to }: UnitWindow): boolean {
  return to - from > keptMs[unit] + unitMs[unit];
}

/** Returns the start of the unit that an instant is in. */
export function startOf(unit: StatsUnit, at: Millis): Millis {
  return Math.floor(at / unitMs[unit]) * unitMs[unit];
}

/** Rows that are added up in one slice: some milliseconds. */
const rowsPerSlice = 128;

/** Returns the sum of each unit of a window, by its start; counts of shorter units are added up. */
export function* unitSums(
  { unit, from, to }: UnitWindow,
  rows: readonly (StoredCounts & { readonly at: Millis })[],
): Slices<Map<Millis, CountsSum>> {
  const sums = new Map<Millis, CountsSum>();
  for (let at = from; at < to; at += unitMs[unit]) sums.set(at, new CountsSum());
  for (const [index, row] of rows.entries()) {
    sums.get(startOf(unit, row.at))?.add(row);
    if ((index + 1) % rowsPerSlice === 0) yield;
  }
  return sums;
}
