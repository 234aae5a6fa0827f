import type { Millis } from '../../core/clock.ts';
import type { Hint } from '../port/hints.ts';
import type { FailureSelection } from '../port/failures.ts';
import type { Page } from '../port/page.ts';
import type { NewRedelivery, Redelivery, RedeliveryStore } from '../port/redeliveries.ts';
import type { StepQuery } from '../port/upkeep.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import type { Run } from '../rows/runs.ts';
import { type Command, type Commands, sql, type Statement, together } from './command.ts';
import { forUpdate, oneOf } from './dialect.ts';
import { selects } from './failure-selection.ts';
import { entryAt } from './history.ts';
import { horizonOf } from './horizon.ts';
import type { Runs } from './runs.ts';

export interface RedeliveryDeps {
  readonly commands: Commands;
  readonly runs: Runs;
  readonly hint: (hint: Hint) => void;
}

/** Creates the store of redeliveries. Triggers of the engines count the ends of their cycles. */
export function createRedeliveryStore({ commands, runs, hint }: RedeliveryDeps): RedeliveryStore {
  const { read, transact } = commands;
  return {
    create: (request) => transact('durable', () => create(runs, request)),
    step: async (tenant, id) => {
      const stream = await transact('durable', () => step(runs, tenant, id));
      if (stream === undefined) return false;
      hint({ kind: 'stream', tenant, stream });
      return true;
    },
    unfinished: (take) => read(unfinished(take)),
    get: async (tenant, id) => (await read(shown(tenant, { id, take: 1 })))[0],
    list: (tenant, page) => read(list(tenant, page)),
    cancel: (tenant, id) => transact('durable', () => cancel(runs, tenant, id)),
    prune: (query) => transact('relaxed', () => prune(query)),
  };
}

/** Requests of a tenant that have not begun all of their cycles. */
const unfinishedMax = 20;

interface Selected {
  readonly streams: readonly string[] | undefined;
  readonly selection: FailureSelection;
}

function* create(
  runs: Runs,
  { tenant, id, streams, selection, createdBy }: NewRedelivery,
): Command<Awaited<ReturnType<RedeliveryStore['create']>>> {
  const [now, open, newest] = yield* together(
    runs.now(),
    sql.get<{ count: number }>`
      select count(*) as count from redeliveries where tenant = ${tenant} and work <> 'none'`,
    sql.get<{ at: Millis | null }>`
      select max(listed_at) as at from deliveries where tenant = ${tenant} and listed_at is not null`,
  );
  if ((open?.count ?? 0) >= unfinishedMax) return { refused: 'too_many' };
  // The clock may have been set back since the newest failure was opened.
  const last = 1 + Math.max(now, newest?.at ?? 0);
  const failedTo = Math.min(selection.failedTo ?? last, last);
  const selected: Selected = { streams, selection: { ...selection, failedTo } };
  yield* sql.run`
    insert into redeliveries (tenant, id, selection, work, position, created_at, created_by)
    values (${tenant}, ${id}, ${JSON.stringify(selected)}, 'taking', '', ${now}, ${createdBy})`;
  return 'accepted';
}

interface WorkRow {
  readonly selection: string;
  readonly work: 'taking' | 'cancelling' | 'none';
  readonly position: string;
}

/** Does the work of the next stream, and returns that; `undefined` when none is left. */
function* step(runs: Runs, tenant: number, id: string): Command<string | undefined> {
  const row = yield* sql.get<WorkRow>`
    select selection, work, position from redeliveries
    where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  if (row === undefined || row.work === 'none') return undefined;
  const selected = JSON.parse(row.selection) as Selected;
  const next =
    row.work === 'taking'
      ? yield* nextWithFailures(tenant, row.position, selected.streams)
      : yield* nextTaken(tenant, id, row.position);
  if (next === undefined) {
    yield* sql.run`
      update redeliveries set work = 'none' where tenant = ${tenant} and id = ${id}`;
    return undefined;
  }
  const [run, now] = yield* together(runs.lock(tenant, next.stream), runs.now());
  if (run !== undefined && row.work === 'taking') {
    yield* takeFailures(runs, run, { id, now, selection: selected.selection });
  }
  if (run !== undefined && row.work === 'cancelling') yield* giveBack(run, id);
  yield* sql.run`
    update redeliveries set position = ${next.stream} where tenant = ${tenant} and id = ${id}`;
  return next.stream;
}

type Next = Statement<{ readonly stream: string } | undefined>;

function nextWithFailures(
  tenant: number,
  after: string,
  streams: readonly string[] | undefined,
): Next {
  return sql.get`
    select stream from failure_groups
    where tenant = ${tenant} and stream > ${after}
      and (${streams === undefined} or stream ${oneOf(streams ?? [])})
    order by stream limit 1`;
}

function nextTaken(tenant: number, id: string, after: string): Next {
  return sql.get`
    select stream from redelivery_streams
    where tenant = ${tenant} and id = ${id} and stream > ${after} order by stream limit 1`;
}

/** Starts a new cycle for each failure of a stream that matches; those under redelivery are skipped. */
function* takeFailures(
  runs: Runs,
  run: Run,
  {
    id,
    now,
    selection,
  }: { readonly id: string; readonly now: Millis; readonly selection: FailureSelection },
): Command<void> {
  const { tenant, stream } = run;
  const under = yield* sql.get<{ count: number }>`
    select count(*) as count from deliveries d
    where d.tenant = ${tenant} and d.stream = ${stream} and d.failed_at is not null
      and d.state <> 'failed' and ${selects(selection)}`;
  const started = yield* sql.all<HistoryEvent>`
    update deliveries as d set kind = 'redelivery', state = 'retrying', attempt = 1, due_at = ${now},
      cycle_at = ${now}, redelivery = ${id} ${entryAt(now)}
    where d.tenant = ${tenant} and d.stream = ${stream} and d.failed_at is not null
      and d.state = 'failed' and ${selects(selection)}
    returning event_id as id, "offset"`;
  const skipped = under?.count ?? 0;
  const total = started.length + skipped;
  if (total === 0) return;
  yield* sql.run`
    insert into redelivery_streams (tenant, id, stream, total, skipped)
    values (${tenant}, ${id}, ${stream}, ${total}, ${skipped})`;
  if (started.length === 0) return;
  const entry = { at: now, durationMs: 0, outcome: 'redelivered' } as const;
  yield* together(
    runs.noteDue(run),
    runs.addEntries(run, started, { ...entry, status: undefined, error: undefined }),
  );
}

/** Returns deliveries whose cycle has not begun to the failures. */
function giveBack({ tenant, stream }: Run, id: string): Statement<number> {
  return sql.run`
    update deliveries set state = 'failed', due_at = null, redelivery = null
    where tenant = ${tenant} and stream = ${stream} and redelivery = ${id}
      and state = 'retrying' and attempt = 1`;
}

function* unfinished(take: number): Command<{ tenant: number; id: string }[]> {
  const rows = yield* sql.all<{ tenant: number; id: string }>`
    select tenant, id from redeliveries where work <> 'none' order by tenant, id limit ${take}`;
  return rows.map((row) => ({ ...row }));
}

interface ShownRow extends Pick<Redelivery, 'id' | 'total' | 'delivered' | 'failed' | 'skipped'> {
  readonly work: WorkRow['work'];
  readonly created_at: Millis;
  readonly created_by: string;
  readonly cancelled_at: Millis | null;
}

/** Reads requests with their progress, newest first: one by its id, or those before an id. */
function* shown(
  tenant: number,
  query: { readonly id?: string; readonly before?: string | undefined; readonly take: number },
): Command<Redelivery[]> {
  const { id, before = '\u007f', take } = query;
  const rows = yield* sql.all<ShownRow>`
    select r.id, r.work, r.created_at, r.created_by, r.cancelled_at,
      cast(coalesce(sum(s.total), 0) as bigint) as total,
      cast(coalesce(sum(s.delivered), 0) as bigint) as delivered,
      cast(coalesce(sum(s.failed), 0) as bigint) as failed,
      cast(coalesce(sum(s.skipped), 0) as bigint) as skipped
    from (
      select * from redeliveries
      where tenant = ${tenant} and id < ${before} and (${id === undefined} or id = ${id ?? ''})
      order by id desc limit ${take}) as r
    left join redelivery_streams s on s.tenant = r.tenant and s.id = r.id
    group by r.id, r.work, r.created_at, r.created_by, r.cancelled_at
    order by r.id desc`;
  return rows.map(redeliveryOf);
}

function redeliveryOf(row: ShownRow): Redelivery {
  const { id, work, total, delivered, failed, skipped, created_at: createdAt } = row;
  const isOver = work === 'none' && delivered + failed + skipped >= total;
  const running = isOver ? 'done' : 'running';
  const status = row.cancelled_at === null ? running : 'cancelled';
  return { id, status, total, delivered, failed, skipped, createdAt, createdBy: row.created_by };
}

function* list(
  tenant: number,
  { after, take }: Parameters<RedeliveryStore['list']>[1],
): Command<Page<Redelivery>> {
  const rows = yield* shown(tenant, { before: after, take: take + 1 });
  const items = rows.slice(0, take);
  return { items, next: rows.length > take ? items.at(-1)?.id : undefined };
}

function* cancel(
  runs: Runs,
  tenant: number,
  id: string,
): Command<Awaited<ReturnType<RedeliveryStore['cancel']>>> {
  yield* sql.get`
    select 1 from redeliveries where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  const [now, [found]] = [yield* runs.now(), yield* shown(tenant, { id, take: 1 })];
  if (found === undefined) return 'unknown';
  if (found.status !== 'running') return 'over';
  yield* sql.run`
    update redeliveries set work = 'cancelling', position = '', cancelled_at = ${now}
    where tenant = ${tenant} and id = ${id}`;
  return 'cancelled';
}

/** Counts what a stream has left of redeliveries as skipped, before its deliveries are removed. */
export function* leaveRedeliveries(tenant: number, stream: string): Command<void> {
  yield* sql.run`
    update deliveries set redelivery = null
    where tenant = ${tenant} and stream = ${stream} and redelivery is not null`;
  yield* sql.run`
    update redelivery_streams set skipped = total - delivered - failed
    where tenant = ${tenant} and stream = ${stream}`;
}

function* prune({ olderThanMs, take: limit }: StepQuery): Command<number> {
  const before = yield* horizonOf(olderThanMs);
  const old = yield* sql.all<{ tenant: number; id: string }>`
    select tenant, id from redeliveries
    where created_at < ${before} and work = 'none' order by created_at limit ${limit}`;
  for (const { tenant, id } of old) {
    yield* sql.run`delete from redelivery_streams where tenant = ${tenant} and id = ${id}`;
    yield* sql.run`delete from redeliveries where tenant = ${tenant} and id = ${id}`;
  }
  return old.length;
}
