import type { Millis } from './clock.ts';

export const KIB = 1024;
export const MIB = 1024 * KIB;

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** Returns the day (UTC) of an instant, in whole days since the epoch. */
export function dayOf(at: Millis): number {
  return Math.floor(at / dayMs);
}
