import type { Offset } from '../../core/types.ts';
import { dayMs } from '../../core/units.ts';
import { type Days, everyDay, groupByDays } from './day-ranges.ts';
import { numbers, type Queries } from './database.ts';

/** The columns of `deliveries` that show where the body is. */
export interface BodyLocation {
  readonly tenant: number;
  readonly offset: Offset | null;
  readonly event_day: number | null;
  /** The body of a test event, or of one that was pruned before it got a row. */
  readonly body: string | null;
  readonly trace?: string | null;
}

/**
 * Returns the rows with the bodies of their events: their own, a kept one, or that of the log. Only
 * the days of these events are read. A body is missing when the delivery has ended in the meantime.
 */
export async function withBodies<Row extends BodyLocation>(
  db: Queries,
  rows: readonly Row[],
): Promise<Row[]> {
  const inLog = rows.filter((row) => row.body === null && row.offset !== null);
  const found = new Map<Row, Body>();
  for (const group of groupByDays(inLog, dayOfEvent)) {
    for (const { n, ...body } of await bodiesOf(db, group.rows, group.days)) {
      const row = group.rows[n - 1];
      if (row !== undefined) found.set(row, body);
    }
  }
  return rows.map((row) => ({ ...row, ...found.get(row) }));
}

interface Body {
  readonly body: string | null;
  readonly trace: string | null;
}

function dayOfEvent({ event_day: day }: BodyLocation): Days {
  return day === null ? everyDay : { first: day, last: day };
}

async function bodiesOf(
  db: Queries,
  rows: readonly BodyLocation[],
  { first, last }: Days,
): Promise<(Body & { readonly n: number })[]> {
  return db.all`
    select u.n, coalesce(k.body, e.body) as body, coalesce(k.trace, e.trace) as trace
    from unnest(${numbers(rows.map(({ tenant }) => tenant))}::int[],
      ${numbers(rows.map(({ offset }) => offset))}::bigint[])
      with ordinality as u(tenant, "offset", n)
    left join kept_events k on k.tenant = u.tenant and k."offset" = u."offset"
    left join lateral (
      select body, trace from events
      where tenant = u.tenant and "offset" = u."offset"
        and published_at >= ${first * dayMs} and published_at < ${(last + 1) * dayMs}
      limit 1
    ) as e on k.body is null`;
}
