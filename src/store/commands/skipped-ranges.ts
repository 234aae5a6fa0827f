import type { Millis } from '../../core/clock.ts';
import type { Page } from '../port/page.ts';
import type { SkippedRange, StreamStore } from '../port/streams.ts';
import type { PassedOver } from '../rules/enable.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { columnsOf } from './columns.ts';
import { type Command, sql, type Statement, type On } from './command.ts';
import type { CountedSkipped } from './skipped.ts';

/** Creates the queries of skipped ranges. */
export function createSkippedRanges({ on }: On): Pick<StreamStore, 'skipped'> {
  return { skipped: (tenant, id, page) => on.lists.read(list(tenant, id, page)) };
}

/** Adds what enabling a stream passes over, if there is anything; its events are counted later. */
export function* addSkipped(
  stream: string,
  { tenant, from, upTo }: PassedOver,
  now: Millis,
): Command<void> {
  if (from > upTo) return;
  const log = yield* sql.get<{ last: Millis }>`
    select last_published_at as last from tenants where id = ${tenant}`;
  // The log may be ahead of a clock that was set back: no event of the range is later than this.
  const at = Math.max(now, log?.last ?? 0);
  yield* sql.run`
    insert into skipped_ranges (tenant, stream, from_offset, to_offset, skipped_at)
    values (${tenant}, ${stream}, ${from - 1}, ${upTo}, ${at})
    -- A log that was restored may have the range already.
    on conflict do nothing`;
}

/** Records the number of events of a range; removes a range without any. */
export function* countedSkipped(
  stream: string,
  { tenant, from }: PassedOver,
  { count, atLeast }: CountedSkipped,
): Command<void> {
  const isEmpty = count === 0 && !atLeast;
  yield* isEmpty
    ? sql.run`
        delete from skipped_ranges
        where tenant = ${tenant} and stream = ${stream} and from_offset = ${from - 1}`
    : sql.run`
        update skipped_ranges set events = ${count}, at_least = ${atLeast ? 1 : 0}
        where tenant = ${tenant} and stream = ${stream} and from_offset = ${from - 1}`;
}

/** Removes the ranges of a stream. */
export function removeSkipped(tenant: number, stream: string): Statement<number> {
  return sql.run`delete from skipped_ranges where tenant = ${tenant} and stream = ${stream}`;
}

function* list(
  tenant: number,
  stream: string,
  { after, take }: Parameters<StreamStore['skipped']>[2],
): Command<Page<SkippedRange>> {
  const before = after === undefined ? Number.MAX_SAFE_INTEGER : Number(after);
  const rows = yield* sql.all<RowOf<typeof tables.skipped_ranges>>`
    select ${columnsOf(tables.skipped_ranges)} from skipped_ranges
    where tenant = ${tenant} and stream = ${stream} and from_offset < ${before}
    order by from_offset desc limit ${take + 1}`;
  const items = rows.slice(0, take).map((row) => ({
    from: row.from_offset,
    to: row.to_offset,
    events: row.events ?? 0,
    // A range that was never counted: the process ended before.
    atLeast: row.events === null || row.at_least === 1,
    at: row.skipped_at,
  }));
  return { items, next: rows.length > take ? String(items.at(-1)?.from) : undefined };
}
