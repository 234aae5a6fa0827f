import type { Millis } from '../../core/clock.ts';
import { longestDelayMs } from '../../core/retry-schedule.ts';
import type { Stream } from '../../core/types.ts';

/**
 * The clock of stored instants: of the server on PostgreSQL, and of this process on SQLite, there
 * guarded against steps. See docs/adr/0019-time-is-the-stores.md.
 */
export interface StoreTime {
  /**
   * Returns the time of the store. On PostgreSQL it is read at each heartbeat and extrapolated
   * between.
   */
  now(): Millis;
  /**
   * Returns how far the wall clock of this process is ahead of it, as last measured; negative when
   * late.
   */
  skewMs(): number;
  /** How often the two began to differ by more than {@link skewMaxMs}. */
  readonly skews: number;
}

/**
 * A wall clock that differs from the store's by more is wrong, and so is one that steps by more.
 */
export const skewMaxMs = 60_000;

/** Returns whether the wall clock of this process is wrong. */
export function isSkewed(skewMs: number): boolean {
  return Math.abs(skewMs) > skewMaxMs;
}

/**
 * How long a row may wait by the rules. One that is due later was written while the store's clock
 * was ahead, and is due now.
 */
export interface WaitRule {
  readonly longestWaitMs: number;
}

/** Returns the rule for the rows of a stream, whose retries may wait longer than those of others. */
export function waitRuleOf({ delivery }: Pick<Stream, 'delivery'>, rule: WaitRule): WaitRule {
  const longestMs = longestDelayMs(delivery);
  if (longestMs === 0) return rule;
  return { longestWaitMs: Math.max(rule.longestWaitMs, longestMs + skewMaxMs) };
}

/** Returns the time until a row is due, by {@link WaitRule}; 0 when it is due now. */
export function dueInMs(dueAt: Millis, now: Millis, { longestWaitMs }: WaitRule): number {
  const waitMs = dueAt - now;
  return waitMs > longestWaitMs ? 0 : Math.max(0, waitMs);
}
