import { type Command, sql } from '../../commands/command.ts';
import { oneOf } from '../../commands/dialect.ts';
import type { Removals, Removed } from '../../commands/tenant-removal.ts';

export const removals: Removals = {
  /** Keeps the keys of the streams, by which their history is found. */
  *beforeRuns(tenant, streams) {
    yield* sql.run`
      insert into leaving_runs (key, tenant)
      select key, tenant from runs where tenant = ${tenant} and stream ${oneOf(streams)}`;
  },
  *timed(statement) {
    return { removed: yield* statement };
  },
  others: [removeHistory, removeEvents],
};

function* removeHistory(tenant: number, take: number): Command<Removed> {
  const run = yield* sql.get<{ key: number }>`
    select key from leaving_runs where tenant = ${tenant} limit 1`;
  if (run === undefined) return { removed: 0 };
  const removed =
    (yield* sql.run`
      delete from attempts where rowid in
        (select rowid from attempts where stream_key = ${run.key} limit ${take})`) ||
    (yield* sql.run`
      delete from attempts_kept where number in
        (select number from attempts_kept where stream_key = ${run.key} limit ${take})`);
  return {
    removed: removed || (yield* sql.run`delete from leaving_runs where key = ${run.key}`),
  };
}

function* removeEvents(tenant: number, take: number): Command<Removed> {
  const removed = yield* sql.run`
    delete from events where tenant = ${tenant} and offset in
      (select offset from events where tenant = ${tenant} order by offset limit ${take})`;
  return { removed };
}
