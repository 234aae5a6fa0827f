import { type RemovalStep, tenantTableRemovals } from '../rules/tenant-removal.ts';
import type { Database, Queries } from './database.ts';
import { dayMs } from './partitions.ts';
import { lockRuns } from './runs.ts';

/**
 * Minimum time between the first step and the last: by then every node has read that the tenant is
 * gone, even if a hint did not reach it, and nothing is added any more.
 */
const knownMs = 7_000;

/** Removes at most `take` rows of a tenant that is being removed, in a transaction of their own. */
export async function removeStep(db: Database, tenant: number, take: number): Promise<RemovalStep> {
  if ((await db.get`select 1 from leaving_tenants where id = ${tenant}`) === undefined) {
    return { removed: 0, isDone: true, streams: [] };
  }
  const streams = await db.transact('relaxed', (tx) => removeStreams(tx, tenant, take));
  if (streams.length > 0) return { removed: 2 * streams.length, isDone: false, streams };
  for (const remove of removals) {
    const removed = await db.transact('relaxed', (tx) => remove(tx, tenant, take));
    if (removed > 0) return { removed, isDone: false, streams };
  }
  const removed = await db.run`
    delete from leaving_tenants where id = ${tenant}
      and begun_at < clock_timestamp() - ${knownMs} * interval '1 millisecond'`;
  const left = await db.get`select 1 from leaving_tenants where id = ${tenant}`;
  return { removed, isDone: left === undefined, streams };
}

/** Streams are removed first: an owner that finds its stream gone sends nothing more. */
async function removeStreams(tx: Queries, tenant: number, take: number): Promise<string[]> {
  const rows = await tx.all<{ id: string }>`
    select id from streams where tenant = ${tenant} order by id limit ${take}`;
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return ids;
  await lockRuns(
    tx,
    ids.map((stream) => ({ tenant, stream })),
  );
  await tx.run`delete from runs where tenant = ${tenant} and stream = any(${ids}::text[])`;
  await tx.run`delete from streams where tenant = ${tenant} and id = any(${ids}::text[])`;
  return ids;
}

type Remove = (tx: Queries, tenant: number, take: number) => Promise<number>;

/** Every other table with rows of tenants. */
const removals: readonly Remove[] = [
  ...tenantTableRemovals,
  (tx, tenant) => tx.run`delete from alert_states where tenant = ${tenant}`,
  (tx, tenant) => tx.run`delete from log_days where tenant = ${tenant}`,
  removeHistory,
  removeEvents,
];

/** One day after the other: a statement over all partitions would open each of them. */
async function removeHistory(tx: Queries, tenant: number, take: number): Promise<number> {
  const found = await tx.get<{ day: number }>`
    select day from attempts where tenant = ${tenant} limit 1`;
  if (found === undefined) return 0;
  return tx.run`
    delete from attempts where day = ${found.day} and tenant = ${tenant} and ctid = any(array(
      select ctid from attempts where day = ${found.day} and tenant = ${tenant} limit ${take}))`;
}

async function removeEvents(tx: Queries, tenant: number, take: number): Promise<number> {
  const found = await tx.get<{ published_at: number }>`
    select published_at from events where tenant = ${tenant} limit 1`;
  if (found === undefined) return 0;
  const from = found.published_at - (found.published_at % dayMs);
  return tx.run`
    delete from events where tenant = ${tenant}
      and published_at >= ${from} and published_at < ${from + dayMs} and ctid = any(array(
        select ctid from events where tenant = ${tenant}
          and published_at >= ${from} and published_at < ${from + dayMs} limit ${take}))`;
}
