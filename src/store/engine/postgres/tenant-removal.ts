import { dayMs } from '../../../core/units.ts';
import { type Command, sql, type Statement, together } from '../../commands/command.ts';
import { oneOf } from '../../commands/dialect.ts';
import type { Removals, Removed } from '../../commands/tenant-removal.ts';

export const removals: Removals = {
  /** In the order of `lockRuns`, so that two transactions that need several never deadlock. */
  *beforeRuns(tenant, streams) {
    yield* sql.run`
      select 1 from runs where tenant = ${tenant} and stream ${oneOf(streams)}
      order by tenant, stream for no key update`;
  },
  /** All three are sent together: the time is that of the server alone. */
  *timed(statement) {
    const [began, removed, ended] = yield* together(serverMs(), statement, serverMs());
    return { removed, tookMs: (ended?.ms ?? 0) - (began?.ms ?? 0) };
  },
  others: [removeLogDays, removeHistory, removeEvents],
};

const serverMs = (): Statement<{ ms: number } | undefined> =>
  sql.get<{ ms: number }>`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`;

function removeLogDays(tenant: number): Command<Removed> {
  return removals.timed(sql.run`delete from log_days where tenant = ${tenant}`);
}

// One day after the other: a statement over all partitions would open each of them. A day is searched
// for once, and its rows in the order of an index after those that are removed already: to pass over them
// again takes longer with each step.

interface LastRemoved {
  readonly removed: number;
  readonly tookMs: number;
}

function* removeHistory(
  tenant: number,
  take: number,
  [after, stream = 0, event = Number.MIN_SAFE_INTEGER]: readonly number[],
): Command<Removed> {
  const day = after ?? (yield* historyDay(tenant));
  if (day === undefined) return { removed: 0 };
  const last = yield* sql.get<LastRemoved & { stream: number; event: number }>`
    with gone as (
      delete from attempts where day = ${day} and tenant = ${tenant} and ctid = any(array(
        select ctid from attempts where day = ${day} and tenant = ${tenant}
          and (stream_key, event_key) >= (${stream}::bigint, ${event}::bigint)
        order by stream_key, event_key limit ${take}))
      returning stream_key, event_key)
    select count(*) over ()::int as removed, stream_key as stream, event_key as event,
      extract(epoch from clock_timestamp() - statement_timestamp())::float8 * 1000 as "tookMs"
    from gone order by stream_key desc, event_key desc limit 1`;
  if (last !== undefined) return { ...last, after: [day, last.stream, last.event] };
  // The day is over; there may be another one.
  return after === undefined ? { removed: 0 } : yield* removeHistory(tenant, take, []);
}

function* historyDay(tenant: number): Command<number | undefined> {
  const found = yield* sql.get<{ day: number }>`
    select day from attempts where tenant = ${tenant} limit 1`;
  return found?.day;
}

function* removeEvents(
  tenant: number,
  take: number,
  [after, offset = 0]: readonly number[],
): Command<Removed> {
  const from = after ?? (yield* eventsFrom(tenant));
  if (from === undefined) return { removed: 0 };
  const last = yield* sql.get<LastRemoved & { last: number | null }>`
    with gone as (
      delete from events where tenant = ${tenant}
        and published_at >= ${from} and published_at < ${from + dayMs} and ctid = any(array(
          select ctid from events where tenant = ${tenant} and "offset" > ${offset}
            and published_at >= ${from} and published_at < ${from + dayMs}
          order by "offset" limit ${take}))
      returning "offset")
    select count(*)::int as removed, max("offset") as last,
      extract(epoch from clock_timestamp() - statement_timestamp())::float8 * 1000 as "tookMs"
    from gone`;
  if (last !== undefined && last.last !== null) return { ...last, after: [from, last.last] };
  return after === undefined ? { removed: 0 } : yield* removeEvents(tenant, take, []);
}

/** Returns when the day of some event began. */
function* eventsFrom(tenant: number): Command<number | undefined> {
  const found = yield* sql.get<{ published_at: number }>`
    select published_at from events where tenant = ${tenant} limit 1`;
  return found === undefined ? undefined : found.published_at - (found.published_at % dayMs);
}
