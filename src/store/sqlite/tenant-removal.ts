import { type RemovalStep, tenantTableRemovals } from '../rules/tenant-removal.ts';
import type { Database } from './database.ts';

/**
 * Removes at most `take` rows of a tenant that is being removed, within the caller's transaction.
 */
export function removeStep(db: Database, tenant: number, take: number): RemovalStep {
  if (db.get`select 1 from leaving_tenants where id = ${tenant}` === undefined) {
    return { removed: 0, isDone: true, streams: [] };
  }
  const streams = removeStreams(db, tenant, take);
  if (streams.length > 0) return { removed: 2 * streams.length, isDone: false, streams };
  for (const remove of removals) {
    const removed = remove(db, tenant, take);
    if (removed > 0) return { removed, isDone: false, streams };
  }
  const removed = db.run`delete from leaving_tenants where id = ${tenant}`;
  return { removed, isDone: true, streams };
}

/** Streams are removed first: an owner that finds its stream gone sends nothing more. */
function removeStreams(db: Database, tenant: number, take: number): string[] {
  const rows = db.all<{ id: string }>`
    select id from streams where tenant = ${tenant} order by id limit ${take}`;
  for (const { id } of rows) {
    db.run`
      insert into leaving_runs (key, tenant)
      select key, tenant from runs where tenant = ${tenant} and stream = ${id}`;
    db.run`delete from runs where tenant = ${tenant} and stream = ${id}`;
    db.run`delete from streams where tenant = ${tenant} and id = ${id}`;
  }
  return rows.map(({ id }) => id);
}

type Remove = (db: Database, tenant: number, take: number) => number;

/** Every other table with rows of tenants. */
const removals: readonly Remove[] = [
  ...tenantTableRemovals,
  (db, tenant) => db.run`delete from alert_states where tenant = ${tenant}`,
  removeHistory,
  (db, tenant, take) => db.run`
    delete from events where tenant = ${tenant} and offset in
      (select offset from events where tenant = ${tenant} order by offset limit ${take})`,
];

/** The history refers to a stream only by its key. */
function removeHistory(db: Database, tenant: number, take: number): number {
  const run = db.get<{ key: number }>`
    select key from leaving_runs where tenant = ${tenant} limit 1`;
  if (run === undefined) return 0;
  const removed =
    db.run`
      delete from attempts where rowid in
        (select rowid from attempts where stream_key = ${run.key} limit ${take})` ||
    db.run`
      delete from attempts_kept where number in
        (select number from attempts_kept where stream_key = ${run.key} limit ${take})`;
  return removed || db.run`delete from leaving_runs where key = ${run.key}`;
}
