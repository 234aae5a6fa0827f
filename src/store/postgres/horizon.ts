import type { Millis } from '../../core/clock.ts';
import type { Queries } from './database.ts';

/**
 * Returns the instant before which things are older than `olderThanMs`. Age is measured from the
 * time of the store, but never from later than the newest event of the store: a clock that is ahead
 * must not make everything old at once.
 */
export async function horizonOf(db: Queries, olderThanMs: number): Promise<Millis> {
  const row = await db.get<{ at: Millis }>`
    select least(leat_now(),
      (select nullif(max(last_published_at), 0) from tenants)) as at`;
  if (row === undefined) throw new Error('A select without a table returned no row.');
  return row.at - olderThanMs;
}
