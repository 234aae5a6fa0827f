import { dayMs } from '../../core/units.ts';
import { type Command, sql } from '../directory/command.ts';
import { oneOf } from '../directory/dialect.ts';
import type { Removals } from '../directory/tenant-removal.ts';

export const removals: Removals = {
  /** In the order of `lockRuns`, so that two transactions that need several never deadlock. */
  *beforeRuns(tenant, streams) {
    yield* sql.run`
      select 1 from runs where tenant = ${tenant} and stream ${oneOf(streams)}
      order by tenant, stream for no key update`;
  },
  others: [removeLogDays, removeHistory, removeEvents],
};

function* removeLogDays(tenant: number): Command<number> {
  return yield* sql.run`delete from log_days where tenant = ${tenant}`;
}

/** One day after the other: a statement over all partitions would open each of them. */
function* removeHistory(tenant: number, take: number): Command<number> {
  const found = yield* sql.get<{ day: number }>`
    select day from attempts where tenant = ${tenant} limit 1`;
  if (found === undefined) return 0;
  return yield* sql.run`
    delete from attempts where day = ${found.day} and tenant = ${tenant} and ctid = any(array(
      select ctid from attempts where day = ${found.day} and tenant = ${tenant} limit ${take}))`;
}

function* removeEvents(tenant: number, take: number): Command<number> {
  const found = yield* sql.get<{ published_at: number }>`
    select published_at from events where tenant = ${tenant} limit 1`;
  if (found === undefined) return 0;
  const from = found.published_at - (found.published_at % dayMs);
  return yield* sql.run`
    delete from events where tenant = ${tenant}
      and published_at >= ${from} and published_at < ${from + dayMs} and ctid = any(array(
        select ctid from events where tenant = ${tenant}
          and published_at >= ${from} and published_at < ${from + dayMs} limit ${take}))`;
}
