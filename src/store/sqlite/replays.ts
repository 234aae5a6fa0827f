import type { Millis } from '../../core/clock.ts';
import type { Offset, Replay, Subscription } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { StoreTime } from '../port/time.ts';
import type {
  MaterializeResult,
  MaterializeRequest,
  NewReplay,
  ReplayStore,
} from '../port/replays.ts';
import {
  acceptedReplay,
  afterRead,
  type MaterializeState,
  type MaterializeStep,
  lostStream,
  nextMaterializeStep,
  sentBefore,
} from '../rules/replay.ts';
import { replayOf, type ReplayRow, type StoredReplay, storedReplayOf } from '../rows/replays.ts';
import type { Run } from '../rows/runs.ts';
import type { Database } from './database.ts';
import { horizonOf, type UpkeepDeps } from './horizon.ts';
import { headOf } from './append.ts';
import { oldestAfter } from './log.ts';
import { noteChange, raiseCursor, readRun } from './runs.ts';

/**
 * Creates the store of replays. Written apart from PostgreSQL because its commands depend on runs
 * and on the log, which are.
 */
export function createReplayStore(
  deps: UpkeepDeps & { readonly hint: (hint: Hint) => void; readonly time: StoreTime },
): ReplayStore {
  const { db, hint, time } = deps;
  return {
    create: async (replay) => {
      const result = db.transact('durable', () => create(db, replay, time.now()));
      const { tenant, stream } = replay;
      if ('created' in result) hint({ kind: 'stream', tenant, stream });
      return result;
    },
    get: async (tenant, stream, id) => {
      const stored = readReplay(db, tenant, stream, id);
      return stored && replayOf(stored);
    },
    cancel: async (tenant, stream, id) => {
      const result = db.transact('durable', () => cancel(db, tenant, stream, id, time.now()));
      if (result === 'cancelled') hint({ kind: 'stream', tenant, stream });
      return result !== 'unknown';
    },
    materialize: async (request) =>
      db.transact('relaxed', () => materialize(db, request, time.now())),
    prune: async (query) => db.transact('relaxed', () => prune(deps, query)),
  };
}

function create(
  db: Database,
  request: NewReplay,
  now: Millis,
): Awaited<ReturnType<ReplayStore['create']>> {
  const { tenant, stream } = request;
  const run = readRun(db, tenant, stream);
  if (run === undefined) return { refused: 'unknown' };
  if (run.status === 'disabled') return { refused: 'disabled' };
  if (runningReplay(db, run) !== undefined) return { refused: 'running' };
  const log = { prunedTo: oldestAfter(db, tenant, 0) - 1, head: headOf(db, tenant) };
  const replay = acceptedReplay(request, { cursor: run.cursor, ...log }, now);
  db.run`
    insert into replays (tenant, stream, id, from_offset, position, to_offset, passed, event_types,
      matched, sent, failed, status, created_at, finished_at)
    values (${tenant}, ${stream}, ${replay.id}, ${replay.from}, ${replay.position}, ${replay.to},
      ${replay.passed}, ${replay.types && JSON.stringify(replay.types)}, 0, 0, 0, ${replay.status},
      ${now}, ${replay.finishedAt})`;
  noteChange(db, run);
  return { created: replayOf(replay) };
}

function readReplay(
  db: Database,
  tenant: number,
  stream: string,
  id: string,
): StoredReplay | undefined {
  const row = db.get<ReplayRow>`
    select tenant, stream, id, from_offset, position, to_offset, passed, event_types, matched, sent,
      failed, status, created_at, finished_at
    from replays where tenant = ${tenant} and stream = ${stream} and id = ${id}`;
  return row && storedReplayOf(row);
}

/** Returns the replay of a stream that is running or paused. */
export function runningReplay(
  db: Database,
  { tenant, stream }: Pick<Run, 'tenant' | 'stream'>,
): StoredReplay | undefined {
  const row = db.get<ReplayRow>`
    select tenant, stream, id, from_offset, position, to_offset, passed, event_types, matched, sent,
      failed, status, created_at, finished_at
    from replays where tenant = ${tenant} and stream = ${stream} and status = 'running'`;
  return row && storedReplayOf(row);
}

function cancel(
  db: Database,
  tenant: number,
  stream: string,
  id: string,
  now: Millis,
): 'cancelled' | 'over' | 'unknown' {
  const replay = readReplay(db, tenant, stream, id);
  const run = readRun(db, tenant, stream);
  if (replay === undefined || run === undefined) return 'unknown';
  if (replay.status !== 'running') return 'over';
  db.run`
    update replays set status = 'cancelled', finished_at = ${now}
    where tenant = ${tenant} and stream = ${stream} and id = ${id}`;
  db.run`
    delete from deliveries
    where tenant = ${tenant} and stream = ${stream} and kind = 'replay' and due_at is not null`;
  noteChange(db, run);
  return 'cancelled';
}

function materialize(db: Database, request: MaterializeRequest, now: Millis): MaterializeResult {
  const { tenant, stream } = request;
  const run = readRun(db, tenant, stream);
  if (run === undefined || run.owner === null || run.epoch !== request.epoch) return lostStream;
  const raised = raiseCursor(db, request);
  const nothing: MaterializeResult = {
    result: 'running',
    cursor: raised,
    materialized: 0,
    more: false,
  };
  const replay = runningReplay(db, run);
  if (replay?.id !== request.replay) return { ...nothing, result: 'over' };
  const state = stateOf(db, { ...run, cursor: Math.max(run.cursor, raised) }, replay);
  const step = nextMaterializeStep(replay, request, state);
  if (step.step === 'wait') return nothing;
  if (step.step === 'end') {
    write(db, { ...replay, status: step.status }, now);
    return { ...nothing, result: 'over' };
  }
  const { after, progress } = afterRead(replay, step, addRows(db, run, replay, step, now), state);
  write(db, after, now);
  return { ...progress, cursor: raised };
}

function stateOf(db: Database, run: Run, replay: StoredReplay): MaterializeState {
  const { tenant, stream, cursor } = run;
  const wanted = db.get<{ subscriptions: string }>`
    select subscriptions from streams where tenant = ${tenant} and id = ${stream}`;
  const rows = db.get<{ waiting: number }>`
    select count(*) as waiting from deliveries
    where tenant = ${tenant} and stream = ${stream} and kind = 'replay' and due_at is not null`;
  return {
    cursor,
    enabled: run.status === 'enabled',
    subscriptions: JSON.parse(wanted?.subscriptions ?? '[]') as Subscription[],
    waiting: rows?.waiting ?? 0,
    prunedTo: oldestAfter(db, tenant, replay.position) - 1,
  };
}

/** Returns the offsets of the new rows, in order. */
function addRows(
  db: Database,
  run: Run,
  replay: StoredReplay,
  { after, upTo, types, take }: Extract<MaterializeStep, { step: 'read' }>,
  now: Millis,
): Offset[] {
  if (types.length === 0) return [];
  const rows = db.all<{ offset: Offset }>`
    insert into deliveries (tenant, stream, event_id, offset, type, time, kind, state, attempt,
      due_at)
    select e.tenant, ${run.stream}, e.id, e.offset, e.type, e.time, 'replay', 'retrying', 1, ${now}
    from events e
    where e.tenant = ${run.tenant} and e.offset > ${after} and e.offset <= ${upTo}
      and e.type in (select value from json_each(${JSON.stringify(types)}))
      and not exists (
        select 1 from deliveries d
        where d.tenant = e.tenant and d.stream = ${run.stream} and d.event_id = e.id)
      and (e.offset <= ${replay.passed} or coalesce((
        select min(a.at) from attempts a where a.stream_key = ${run.key} and a.event_key = e.offset),
        0) < ${sentBefore(replay)})
    order by e.offset limit ${take}
    returning offset`;
  return rows.map(({ offset }) => offset).toSorted((one, other) => one - other);
}

function write(db: Database, replay: StoredReplay, now: Millis): void {
  const finishedAt = replay.status === 'running' ? undefined : now;
  db.run`
    update replays set position = ${replay.position}, matched = ${replay.matched},
      status = ${replay.status}, finished_at = ${finishedAt}
    where tenant = ${replay.tenant} and stream = ${replay.stream} and id = ${replay.id}`;
}

/** Adds the counts of a batch of outcomes to the progress of the stream's replay. */
export function addProgress(
  db: Database,
  { tenant, stream }: Pick<Run, 'tenant' | 'stream'>,
  { sent, failed }: Pick<Replay, 'sent' | 'failed'>,
): void {
  if (sent + failed === 0) return;
  db.run`
    update replays set sent = sent + ${sent}, failed = failed + ${failed}
    where tenant = ${tenant} and stream = ${stream} and status = 'running'`;
}

function prune(deps: UpkeepDeps, query: Parameters<ReplayStore['prune']>[0]): number {
  const before = horizonOf(deps, query.olderThanMs);
  return deps.db.run`
    delete from replays where (tenant, stream, id) in (
      select tenant, stream, id from replays
      where finished_at < ${before}
      order by finished_at limit ${Math.min(query.take, pruneMax)})`;
}

/** Maximum replays removed in one step: some milliseconds. */
const pruneMax = 500;
