import type { Offset } from '../../../core/types.ts';
import { dayMs } from '../../../core/units.ts';
import { type DayGroup, type Days, everyDay, readByDays } from './day-ranges.ts';
import { numbers, type Queries } from './database.ts';

/** The columns of `deliveries` that show where the body is. */
export interface BodyLocation {
  readonly tenant: number;
  readonly offset: Offset | null;
  readonly event_day?: number | null;
  /** The body of a test event, or of one that was pruned before it got a row. */
  readonly body: string | null;
  readonly trace?: string | null;
}

/**
 * Returns the rows with the bodies of their events: their own, a kept one, or that of the log. Only
 * the days of these events are read. A body is missing when the delivery has ended in the meantime.
 *
 * With `bytesMax` only the first rows whose bodies are not larger are returned, one at least.
 */
export async function withBodies<Row extends BodyLocation>(
  db: Queries,
  rows: readonly Row[],
  bytesMax?: number,
): Promise<Row[]> {
  const found = await readByDays<Row, Body>(rows.filter(isInLog), {
    daysOf: dayOfEvent,
    read: (group) => bodiesByRow(db, group, bytesMax),
    bytesOf: ({ body }) => body?.length ?? 0,
    bytesMax: bytesMax ?? Infinity,
  });
  const cut = rows.findIndex((row) => isInLog(row) && !found.has(row));
  const first = cut === -1 ? rows : rows.slice(0, cut);
  return first.map((row) => ({ ...row, ...found.get(row) }));
}

function isInLog({ body, offset }: BodyLocation): boolean {
  return body === null && offset !== null;
}

interface Body {
  readonly body: string | null;
  readonly trace: string | null;
}

function dayOfEvent({ event_day: day }: BodyLocation): Days {
  return day === null || day === undefined ? everyDay : { first: day, last: day };
}

async function bodiesByRow<Row extends BodyLocation>(
  db: Queries,
  group: DayGroup<Row>,
  bytesMax: number | undefined,
): Promise<ReadonlyMap<Row, Body>> {
  const found = new Map<Row, Body>();
  for (const { n, ...body } of await bodiesOf(db, group, bytesMax)) {
    const row = group.rows[n - 1];
    if (row !== undefined) found.set(row, body);
  }
  return found;
}

/** Returns a row for each one whose body, with those before it, is not larger than `bytesMax`, if there is one. */
async function bodiesOf(
  db: Queries,
  { rows, days: { first, last } }: DayGroup<BodyLocation>,
  bytesMax: number | undefined,
): Promise<(Body & { readonly n: number })[]> {
  return db.all`
    select n, body, trace from (
      select n, body, trace,
        sum(coalesce(octet_length(body), 0)) over (order by n) as bytes
      from (
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
        ) as e on k.body is null
      ) as found
    ) as sized
    where ${bytesMax === undefined} or n = 1 or bytes <= ${bytesMax}::bigint`;
}
