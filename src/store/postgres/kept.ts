import type { Offset } from '../../core/types.ts';
import { dayMs } from './days.ts';
import { numbers, type Queries } from './database.ts';

/** What of a row of `deliveries` says where its body is. */
export interface BodyPlace {
  readonly tenant: number;
  readonly offset: Offset | null;
  readonly first_day: number | null;
  /** Of a test event, and of one that was pruned before it got a row. */
  readonly body: string | null;
  readonly trace?: string | null;
}

/**
 * The rows with the bodies of their events: their own, a kept one, or that of the log. Only the
 * days of these events are read. A body is missing when the delivery has ended meanwhile.
 */
export async function withBodies<Row extends BodyPlace>(
  db: Queries,
  rows: readonly Row[],
): Promise<Row[]> {
  const asked = rows.filter((row) => row.body === null && row.offset !== null);
  if (asked.length === 0) return [...rows];
  const { from, to } = stretchOf(asked);
  const found = await db.all<{ n: number; body: string | null; trace: string | null }>`
    select u.n, coalesce(k.body, e.body) as body, coalesce(k.trace, e.trace) as trace
    from unnest(${numbers(asked.map(({ tenant }) => tenant))}::int[],
      ${numbers(asked.map(({ offset }) => offset))}::bigint[])
      with ordinality as u(tenant, "offset", n)
    left join kept_events k on k.tenant = u.tenant and k."offset" = u."offset"
    left join lateral (
      select body, trace from events
      where tenant = u.tenant and "offset" = u."offset"
        and published_at >= ${from} and published_at < ${to}
      limit 1
    ) as e on k.body is null`;
  const bodies = new Map(found.map(({ n, body, trace }) => [asked[n - 1], { body, trace }]));
  return rows.map((row) => ({ ...row, ...bodies.get(row) }));
}

/** The days on which the events of rows were published; everything where one is not known. */
function stretchOf(rows: readonly BodyPlace[]): { from: number; to: number } {
  const { first, last } = daysOfRows(rows.map((row) => row.first_day));
  return {
    from: first === undefined ? 0 : first * dayMs,
    to: last === undefined ? Number.MAX_SAFE_INTEGER : (last + 1) * dayMs,
  };
}

/** The first and the last of some days; nothing where one of them is not known. */
export function daysOfRows(days: readonly (number | null)[]): {
  readonly first: number | undefined;
  readonly last: number | undefined;
} {
  const known = days.filter((day) => day !== null);
  if (known.length < days.length || known.length === 0)
    return { first: undefined, last: undefined };
  return { first: Math.min(...known), last: Math.max(...known) };
}
