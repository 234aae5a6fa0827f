import { hourMs } from '../../core/units.ts';
import type { UpkeepStore } from '../port/upkeep.ts';
import type { Database, Queries } from './database.ts';
import { makeDaysAhead } from './partitions.ts';
import { createEventDayDropper } from './event-days.ts';
import { type Command, sql } from '../directory/command.ts';
import type { Directory } from '../directory/directory.ts';
import { horizonOf } from '../directory/horizon.ts';
import { createBodyWalk, createWalk, type WalkedPage } from '../directory/kept.ts';
import { run } from './commands.ts';
import type { StoreIdentity } from './identity.ts';
import { type DayDeps, lockMs, unlessInUse } from './old-days.ts';

/** Tenants whose events are older than the retention by less than this are left to a later call. */
const slackMs = hourMs;

/**
 * Keeps a database within its retention. The state of its steps is in memory of this process.
 * Written apart from SQLite because one of many nodes leads, and old days are removed as a whole.
 */
export function createUpkeepStore(deps: DayDeps): Omit<UpkeepStore, keyof Directory['upkeep']> {
  const { db, identity } = deps;
  return {
    lead: (leader, leaseMs) => lead(db, leader, leaseMs),
    resign: async (leader) => {
      await db.run`
        update upkeep set lease_until = clock_timestamp() where leader = ${leader}`;
    },
    prepare: async () => {
      await unlessInUse(() => makeDaysAhead(db, lockMs));
    },
    tenantsToPrune: (query) => tenantsToPrune(db, query),
    dropEvents: createEventDayDropper(deps),
    releaseKept: createKeptReleaser(db, identity),
    shrink: () => Promise.resolve(0),
    noteLag: async ({ tenant, stream, reportedPercent }, percent) => {
      await db.run`
        update streams set lag_reported = ${percent}, lag_at = leat_now()
        where tenant = ${tenant} and id = ${stream} and lag_reported = ${reportedPercent}`;
    },
  };
}

async function lead(db: Database, leader: string, leaseMs: number): Promise<boolean> {
  const taken = await db.run`
    insert into upkeep as u (id, leader, lease_until)
    values (1, ${leader}, clock_timestamp() + ${leaseMs} * interval '1 ms')
    on conflict (id) do update
      set leader = excluded.leader, lease_until = excluded.lease_until
      where u.leader = excluded.leader or u.lease_until <= clock_timestamp()`;
  return taken > 0;
}

/**
 * By `oldest_at`, which {@link LogStore.prune} updates, and so with one read per tenant. Pruning a
 * busy tenant every minute would free nothing, because days are removed as a whole: see {@link
 * slackMs}.
 */
async function tenantsToPrune(
  db: Queries,
  { olderThanMs, after, take }: Parameters<UpkeepStore['tenantsToPrune']>[0],
): ReturnType<UpkeepStore['tenantsToPrune']> {
  const before = (await run(db, horizonOf(olderThanMs))) - Math.min(slackMs, olderThanMs / 24);
  const rows = await db.all<{ id: number }>`
    select id from tenants
    where id > ${after} and head > pruned_to and oldest_at < ${Math.floor(before)}
    order by id limit ${take}`;
  const tenants = rows.map(({ id }) => id);
  return { tenants, next: rows.length < take ? undefined : tenants.at(-1) };
}

/**
 * A step checks some kept bodies and the kept history of one stream: a settlement then has nothing
 * to count, and settlements of streams that need the same event do not wait for each other.
 */
function createKeptReleaser(db: Database, identity: StoreIdentity): UpkeepStore['releaseKept'] {
  const bodies = createBodyWalk();
  const history = createWalk({ tenant: -1, key: -1 }, releaseHistory);
  // A body that no delivery needed in another store may be needed in this one.
  const nextBodies = (take: number): Promise<number> =>
    identity.transact(db, 'relaxed', (tx) => run(tx, bodies.next(take)));
  return async ({ take }) => {
    const checked = bodies.isOver() ? 0 : await nextBodies(take);
    const all = checked + (await run(db, history.next(take)));
    if (!bodies.isOver() || !history.isOver()) return all;
    bodies.restart();
    history.restart();
    return 0;
  };
}

interface HistoryKey {
  readonly tenant: number;
  readonly key: number;
}

function* releaseHistory(after: HistoryKey): Command<WalkedPage<HistoryKey>> {
  const next = yield* sql.get<HistoryKey>`
    select tenant, stream_key as key from attempts
    where day = 0 and (tenant, stream_key) > (${after.tenant}::int, ${after.key}::bigint)
    order by tenant, stream_key limit 1`;
  if (next === undefined) return { checked: 0, last: undefined };
  yield* sql.run`
    delete from attempts a
    where a.day = 0 and a.tenant = ${next.tenant} and a.stream_key = ${next.key}
      and a.event_key not in (
        select coalesce(d."offset", leat_test_key(d.event_id))
        from deliveries d join runs r on r.tenant = d.tenant and r.stream = d.stream
        where r.tenant = ${next.tenant} and r.key = ${next.key})`;
  return { checked: 1, last: next };
}
