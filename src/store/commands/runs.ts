import type { Millis } from '../../core/clock.ts';
import { streamKeyOf } from '../../core/stream-key.ts';
import { firstChangeFrom } from '../../core/subscription.ts';
import type { Offset, StreamRef, Subscription } from '../../core/types.ts';
import { hourMs } from '../../core/units.ts';
import type { CursorRaise } from '../port/ownership.ts';
import { type Run, runOf, type RunRow } from '../rows/runs.ts';
import { type Command, engine, ServerOnly, sql, type Statement, together } from './command.ts';
import { Fragment, piece, postgresOnly, verbatim } from './dialect.ts';

/**
 * Locks the runs of these streams until the transaction ends, and returns their state by {@link
 * streamKeyOf}. Always in the same order, so that two transactions that need several never
 * deadlock.
 */
export function* lockRuns(refs: readonly StreamRef[]): Command<ReadonlyMap<string, Run>> {
  if (refs.length === 0) return new Map();
  const among = amongStreams(refs);
  // Two statements: one that waits for a lock may return data from before the lock.
  const [, rows] = yield* together(
    new ServerOnly(sql.run`
      select 1 from runs where (tenant, stream) in ${among} order by tenant, stream for no key update`),
    sql.all<RunRow>`
      select r.key, r.tenant, r.stream, r.cursor, r.run, r.consecutive_failures, r.total_failures,
        r.owner, r.epoch, r.paused_ms, s.status, s.version, s.paused_at
      from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
      where (r.tenant, r.stream) in ${among}`,
  );
  return new Map(rows.map((row) => [streamKeyOf(row), runOf(row)]));
}

/**
 * Locks the run of a stream until the commit and returns its state; `undefined` when there is no
 * such stream. The first step of every change of a stream.
 */
export function* lockRun(tenant: number, stream: string): Command<Run | undefined> {
  return (yield* lockRuns([{ tenant, stream }])).get(streamKeyOf({ tenant, stream }));
}

/** `(tenant, stream) in ${amongStreams(refs)}`. */
export function amongStreams(refs: readonly StreamRef[]): Fragment {
  const tenants = refs.map(({ tenant }) => tenant);
  const streams = refs.map(({ stream }) => stream);
  const pairs = JSON.stringify(refs.map(({ tenant, stream }) => [tenant, stream]));
  return new Fragment({
    sqlite: piece`(select value ->> 0, value ->> 1 from json_each(${pairs}))`,
    postgres: piece`(select * from unnest(${tenants}::int[], ${streams}::text[]))`,
  });
}

/** `(tenant, stream, epoch) in ${amongClaims(refs)}`. */
export function amongClaims(refs: readonly (StreamRef & Pick<CursorRaise, 'epoch'>)[]): Fragment {
  const tenants = refs.map(({ tenant }) => tenant);
  const streams = refs.map(({ stream }) => stream);
  const epochs = refs.map(({ epoch }) => epoch);
  const rows = JSON.stringify(refs.map(({ tenant, stream, epoch }) => [tenant, stream, epoch]));
  return new Fragment({
    sqlite: piece`(select value ->> 0, value ->> 1, value ->> 2 from json_each(${rows}))`,
    postgres: piece`(
      select * from unnest(${tenants}::int[], ${streams}::text[], ${epochs}::int[]))`,
  });
}

/** Raises cursors of locked runs; see {@link OwnershipStore.raiseCursors}. */
export function* raiseCursors(
  before: ReadonlyMap<string, Run>,
  cursors: readonly CursorRaise[],
): Command<Offset[]> {
  const limits = yield* cursorLimits(before, cursors);
  const raised = cursors.map((request) => {
    const key = streamKeyOf(request);
    const run = before.get(key);
    const isTheirs = run?.epoch === request.epoch && run.run === request.run && run.owner !== null;
    if (run === undefined || !isTheirs) return undefined;
    const cursor = Math.min(request.cursor, limits.get(key) ?? Infinity);
    return cursor > run.cursor ? { ...run, cursor } : run;
  });
  const changed = raised.flatMap((run) =>
    run === undefined || run === before.get(streamKeyOf(run)) ? [] : [run],
  );
  yield* engine.writeRuns(changed);
  return raised.map((run) => run?.cursor ?? 0);
}

/** Locks a run and raises its cursor. Returns the run as it was before, and the cursor afterwards. */
export function* lockRaised(
  raise: CursorRaise,
): Command<{ readonly run: Run | undefined; readonly cursor: Offset }> {
  const before = yield* lockRuns([raise]);
  const [cursor = 0] = yield* raiseCursors(before, [raise]);
  return { run: before.get(streamKeyOf(raise)), cursor };
}

/** Returns how far each node may raise the cursor that works with an earlier version of its stream. */
function* cursorLimits(
  runs: ReadonlyMap<string, Run>,
  cursors: readonly CursorRaise[],
): Command<ReadonlyMap<string, Offset | undefined>> {
  const changed = cursors.filter((ref) => {
    const run = runs.get(streamKeyOf(ref));
    return run !== undefined && run.version !== ref.version;
  });
  if (changed.length === 0) return new Map();
  const rows = yield* sql.all<StreamRef & { readonly subscriptions: string }>`
    select tenant, id as stream, subscriptions from streams where (tenant, id) in ${amongStreams(changed)}`;
  return new Map(
    rows.map((row) => {
      const subscriptions = JSON.parse(row.subscriptions) as Subscription[];
      const key = streamKeyOf(row);
      return [key, firstChangeFrom(subscriptions, runs.get(key)?.cursor ?? 0)];
    }),
  );
}

/** Records that streams were changed: their owners have to read them again. */
export function noteChanges(refs: readonly StreamRef[]): Statement<number> {
  return sql.run`
    update runs set unseen = ${true}
    where owner is not null and (tenant, stream) in ${amongStreams(refs)}`;
}

/**
 * Records that a stream has due rows, for an owner that the hint does not reach; of SQLite the owner is in this
 * process.
 */
export function noteDue(run: StreamRef): ServerOnly<number> {
  return new ServerOnly(noteChanges([run]));
}

/** Returns the time of the store. */
export function* storeNow(): Command<Millis> {
  const row = yield* sql.get<{ now: Millis }>`select leat_now() as now`;
  if (row === undefined) throw new Error('A select of a function returned no row.');
  return row.now;
}

/** Returns the last offset assigned of a log; 0 for an unknown tenant. */
export function* headOf(tenant: number): Command<Offset> {
  const row = yield* sql.get<{ head: Offset }>`select head from tenants where id = ${tenant}`;
  return row?.head ?? 0;
}

/** Returns the oldest retained offset after `after`; one past the head when there is none. */
export function* oldestAfter(tenant: number, after: Offset): Command<Offset> {
  const row = yield* sql.get<{ head: Offset; oldest: Offset | null }>`
    select head, ${oldestIn(tenant, after)} as oldest from tenants where id = ${tenant}`;
  return row?.oldest ?? Math.max(row?.head ?? 0, after) + 1;
}

/** SQLite deletes what it prunes, from the beginning of the log. */
function oldestIn(tenant: number, after: Offset): Fragment {
  return new Fragment({
    sqlite: piece`(select min(offset) from events where tenant = ${tenant} and offset > ${after})`,
    postgres: piece`greatest(pruned_to, ${after}::bigint) + 1`,
  });
}

/** Returns a stretch of a log, or as much of it as one statement may read on its events. */
export function* stretchOf(tenant: number, { after, upTo }: Range): Command<Stretch> {
  const row = yield* new ServerOnly(sql.get<{ up_to: Offset; from_at: Millis; to_at: Millis }>`
    select up_to, from_at, to_at
    from leat_stretch(${tenant}, ${after}::bigint, ${upTo}::bigint, ${daysMax})`);
  if (row === undefined) return { upTo, inDays: verbatim('') };
  const inDays = postgresOnly`and published_at >= ${row.from_at} and published_at < ${row.to_at}`;
  return { upTo: row.up_to, inDays };
}

/** Maximum days of one statement: planning for one costs as much as reading some hundred events. */
export const daysMax = 8;

/** Adds failures of a stream to the counts of the hour. */
export function countFailed(
  { tenant, stream }: StreamRef,
  failed: number,
  now: Millis,
): Statement<number> {
  return sql.run`
    insert into stream_stats as s (tenant, stream, hour, delivered, failed)
    values (${tenant}, ${stream}, ${now - (now % hourMs)}, 0, ${failed})
    on conflict (tenant, stream, hour) do update set failed = s.failed + excluded.failed`;
}

/** A range of a log. */
export interface Range {
  readonly after: Offset;
  readonly upTo: Offset;
}

/** The part of a range of a log that one statement reads; a longer range is read stretch by stretch. */
export interface Stretch {
  /** Its last offset. */
  readonly upTo: Offset;
  /**
   * A further condition on the columns of `events`, true for all of the stretch: PostgreSQL opens
   * every partition that is not excluded.
   */
  readonly inDays: Fragment;
}
