import type { Millis } from '../../core/clock.ts';

/**
 * The clock that stored instants go by: of the server on PostgreSQL, of this process on SQLite, there
 * guarded against steps. See docs/adr/0019-time-is-the-stores.md.
 */
export interface StoreTime {
  /** What the time is for the store. On PostgreSQL as of the last heartbeat, carried on since. */
  now(): Millis;
  /** By how much the wall clock of this process is ahead of it, as measured last; negative behind. */
  skewMs(): number;
  /** How often the two began to differ by more than {@link skewMaxMs}. */
  readonly skews: number;
}

/** A wall clock that differs from the store's by more is wrong, and so is one that steps by more. */
export const skewMaxMs = 60_000;

/** Whether the wall clock of this process is as good as right. */
export function isSkewed(skewMs: number): boolean {
  return Math.abs(skewMs) > skewMaxMs;
}

/**
 * How long a row may wait by the rules. One that is due later was written while the store's clock
 * was ahead: it is due now.
 */
export interface WaitRule {
  readonly longestWaitMs: number;
}

/** Until a row is due, by {@link WaitRule}. 0 when it is due now. */
export function dueInMs(dueAt: Millis, now: Millis, { longestWaitMs }: WaitRule): number {
  const waitMs = dueAt - now;
  return waitMs > longestWaitMs ? 0 : Math.max(0, waitMs);
}
