import type { Millis } from '../../core/clock.ts';
import type { LaggingStream, UpkeepStore } from '../port/upkeep.ts';
import type { Queries } from './database.ts';
import { horizonOf } from './horizon.ts';

/** Tenants per call: each stream that is not at the head costs one search in old days. */
const tenantsPerStep = 100;

/** See {@link UpkeepStore.lagging}; includes streams whose lag was reported and is over. */
export async function lagging(
  db: Queries,
  { olderThanMs, after }: Parameters<UpkeepStore['lagging']>[0],
): ReturnType<UpkeepStore['lagging']> {
  const present = await horizonOf(db, 0);
  const before = present - olderThanMs;
  const tenants = await db.all<{ id: number }>`
    select id from tenants where id > ${after} order by id limit ${tenantsPerStep}`;
  const last = tenants.at(-1)?.id ?? after;
  const rows = await db.all<Omit<LaggingStream, 'lagMs'> & { published_at: Millis | null }>`
    select s.tenant, s.id as stream, s.name, s.status, r.cursor, s.lag_reported as "reportedPercent",
      leat_now() - s.lag_at as "reportedAgoMs", e.published_at
    from streams s
    join tenants t on t.id = s.tenant
    join runs r on r.tenant = s.tenant and r.stream = s.id
    left join lateral leat_stretch(s.tenant, r.cursor, r.cursor + 1, 1) as d
      on r.cursor < t.head and t.oldest_at < ${before}
    cross join lateral (
      select case when d.from_at < ${before} then leat_published_at(s.tenant, r.cursor + 1) end
        as published_at) as e
    where s.tenant > ${after} and s.tenant <= ${last}
      and (s.status = 'enabled' or s.disabled_reason = 'lag' and s.lag_reported > 0)
      and (e.published_at < ${before} or s.lag_reported > 0)
    order by s.tenant, s.id`;
  const streams = rows.map(({ published_at: oldest, ...stream }) => ({
    ...stream,
    lagMs: oldest === null || oldest >= before ? 0 : present - oldest,
  }));
  return { streams, next: tenants.length < tenantsPerStep ? undefined : last };
}
