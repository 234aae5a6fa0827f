import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';
import { type Command, sql } from '../directory/command.ts';
import { run } from './commands.ts';
import type { Queries } from './database.ts';

/**
 * The days of a stretch of the log, from the table `log_days`. A statement on `events` has them as
 * plain values: the planner opens every partition that they do not exclude.
 */
export interface Stretch {
  /** Its last offset. */
  readonly upTo: Offset;
  /** Its events were published at or after this… */
  readonly from: Millis;
  /** …and before this. */
  readonly to: Millis;
}

/** Maximum days of one page: planning for one costs as much as reading some hundred events. */
export const daysMax = 8;
/** More than there are. */
const everyDay = 1_000_000;

/**
 * Returns the stretch from one offset to another, or the part of it that spans at most this many
 * days.
 */
export function* stretch(
  tenant: number,
  { after, upTo }: { readonly after: Offset; readonly upTo: Offset },
  days = everyDay,
): Command<Stretch> {
  const row = yield* sql.get<{ up_to: Offset; from_at: Millis; to_at: Millis }>`
    select up_to, from_at, to_at
    from leat_stretch(${tenant}, ${after}::bigint, ${upTo}::bigint, ${days})`;
  if (row === undefined) throw new Error('A query that returns a row returned none.');
  return { upTo: row.up_to, from: row.from_at, to: row.to_at };
}

/** Does the same outside of a command. */
export function stretchOf(db: Queries, ...of: Parameters<typeof stretch>): Promise<Stretch> {
  return run(db, stretch(...of));
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
