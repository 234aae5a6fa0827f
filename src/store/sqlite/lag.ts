import type { Millis } from '../../core/clock.ts';
import type { LaggingStream, UpkeepStore } from '../port/upkeep.ts';
import { horizonOf, type UpkeepDeps } from './horizon.ts';

/** Tenants per call, which takes about a millisecond. */
const tenantsPerStep = 100;

/** See {@link UpkeepStore.lagging}; includes streams whose lag was reported and is over. */
export function lagging(
  deps: UpkeepDeps,
  { olderThanMs, after }: Parameters<UpkeepStore['lagging']>[0],
): Awaited<ReturnType<UpkeepStore['lagging']>> {
  const { db, clock } = deps;
  const present = horizonOf(deps, 0);
  const before = present - olderThanMs;
  const tenants = db.all<{ id: number }>`
    select id from tenants where id > ${after} order by id limit ${tenantsPerStep}`;
  const last = tenants.at(-1)?.id ?? after;
  const rows = db.all<Omit<LaggingStream, 'lagMs'> & { oldest: Millis | null }>`
    select s.tenant, s.id as stream, s.name, s.status, r.cursor, s.lag_reported as "reportedPercent",
      ${clock.now()} - s.lag_at as "reportedAgoMs",
      iif(e.published_at < ${before}, e.published_at, null) as oldest
    from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
    left join tenants t on t.id = r.tenant
    -- What is above the head is a part of an append, and none of the log.
    left join events e on e.tenant = t.id and e.offset = r.cursor + 1 and e.offset <= t.head
    where s.tenant > ${after} and s.tenant <= ${last}
      and (s.status = 'enabled' or s.disabled_reason = 'lag' and s.lag_reported > 0)
    order by s.tenant, s.id`;
  const streams = rows
    .filter(({ oldest, reportedPercent }) => oldest !== null || reportedPercent > 0)
    .map(({ oldest, ...stream }) => ({
      ...stream,
      lagMs: oldest === null ? 0 : present - oldest,
    }));
  return { streams, next: tenants.length < tenantsPerStep ? undefined : last };
}
