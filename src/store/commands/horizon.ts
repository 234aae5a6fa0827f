import type { Millis } from '../../core/clock.ts';
import { dayMs } from '../../core/units.ts';
import { type Command, sql } from './command.ts';

/**
 * Returns the instant before which things are older than `olderThanMs` (the horizon of a retention). Age is measured from the
 * time of the store, but never from later than the newest event of the store: a clock that is ahead
 * must not make everything old at once.
 */
export function* horizonOf(olderThanMs: number): Command<Millis> {
  const row = yield* sql.get<{ now: Millis; newest: Millis | null }>`
    select leat_now() as now, nullif(max(last_published_at), 0) as newest from tenants`;
  if (row === undefined) throw new Error('A select of an aggregate returned no row.');
  return Math.min(row.now, row.newest ?? Infinity) - olderThanMs;
}

/** Returns the start of the day of that instant: of the history, whole days are removed. */
export function* dayHorizonOf(olderThanMs: number): Command<Millis> {
  const horizon = yield* horizonOf(olderThanMs);
  return horizon - (horizon % dayMs);
}
