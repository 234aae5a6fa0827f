import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';
import { postgresOnly } from '../directory/dialect.ts';
import type { Range, Stretch } from '../directory/runs.ts';
import type { Queries } from './database.ts';

/** Maximum days of one page: planning for one costs as much as reading some hundred events. */
export const daysMax = 8;

/**
 * Returns the part of a range that spans a few days, from the table `log_days`. A statement on
 * `events` has the days as plain values: the planner opens every partition that they do not exclude.
 */
export async function stretchOf(
  db: Queries,
  tenant: number,
  { after, upTo }: Range,
): Promise<Stretch> {
  const row = await db.get<{ up_to: Offset; from_at: Millis; to_at: Millis }>`
    select up_to, from_at, to_at
    from leat_stretch(${tenant}, ${after}::bigint, ${upTo}::bigint, ${daysMax})`;
  if (row === undefined) throw new Error('A query that returns a row returned none.');
  const inDays = postgresOnly`and published_at >= ${row.from_at} and published_at < ${row.to_at}`;
  return { upTo: row.up_to, inDays };
}

/** Returns when the event at an offset was published; `undefined` when the log does not have it. */
export async function publicationOf(
  db: Queries,
  tenant: number,
  offset: Offset,
): Promise<Millis | undefined> {
  const row = await db.get<{ at: Millis | null }>`
    select leat_published_at(${tenant}, ${offset}::bigint) as at`;
  return row?.at ?? undefined;
}
