import { streamKeyOf } from '../../core/stream-key.ts';
import type { Millis } from '../../core/clock.ts';
import type { Offset, Subscription, StreamRef } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
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
import { numbers, type Database, type Queries } from './database.ts';
import { dayMs, dayOf } from './partitions.ts';
import { horizonOf } from './horizon.ts';
import type { StoreIdentity } from './identity.ts';
import { daysMax, type Stretch, stretchOf } from './log-days.ts';
import { tipOf } from './log.ts';
import { lockRun, lockRuns, noteChanges, raiseCursors, type Run } from './runs.ts';
import type { BatchState } from '../rules/settlement.ts';
import { storeNow } from './time.ts';

/**
 * Creates the store of replays. Every change of one locks the run of its stream first. Written
 * apart from SQLite because its commands depend on runs and on the log, which are.
 */
export function createReplayStore(deps: {
  readonly db: Database;
  readonly identity: StoreIdentity;
  readonly hint: (hint: Hint) => void;
}): ReplayStore {
  const { db, identity, hint } = deps;
  return {
    create: async (replay) => {
      const result = await db.transact('durable', (tx) => create(tx, replay));
      const { tenant, stream } = replay;
      if ('created' in result) hint({ kind: 'stream', tenant, stream });
      return result;
    },
    get: async (tenant, stream, id) => {
      const stored = await readReplay(db, tenant, stream, id);
      return stored && replayOf(stored);
    },
    cancel: async (tenant, stream, id) => {
      const result = await db.transact('confirmed', (tx) => cancel(tx, { tenant, stream }, id));
      if (result === 'cancelled') hint({ kind: 'stream', tenant, stream });
      return result !== 'unknown';
    },
    materialize: (request) => identity.transact(db, 'durable', (tx) => materialize(tx, request)),
    prune: (query) => prune(db, query),
  };
}

async function create(tx: Queries, request: NewReplay): ReturnType<ReplayStore['create']> {
  const { tenant, stream } = request;
  const [run, now] = await Promise.all([lockRun(tx, tenant, stream), storeNow(tx)]);
  if (run === undefined) return { refused: 'unknown' };
  if (run.status === 'disabled') return { refused: 'disabled' };
  if ((await runningReplay(tx, run)) !== undefined) return { refused: 'running' };
  const tip = await tipOf(tx, tenant);
  const replay = acceptedReplay(request, { cursor: run.cursor, ...tip }, now);
  await Promise.all([
    tx.run`
      insert into replays (tenant, stream, id, from_offset, position, to_offset, passed,
        event_types, matched, sent, failed, status, created_at, finished_at)
      values (${tenant}, ${stream}, ${replay.id}, ${replay.from}, ${replay.position}, ${replay.to},
        ${replay.passed}, ${replay.types && JSON.stringify(replay.types)}, 0, 0, 0,
        ${replay.status}, ${now}, ${replay.finishedAt})`,
    noteChanges(tx, [run]),
  ]);
  return { created: replayOf(replay) };
}

async function readReplay(
  db: Queries,
  tenant: number,
  stream: string,
  id: string,
): Promise<StoredReplay | undefined> {
  const row = await db.get<ReplayRow>`
    select tenant, stream, id, from_offset, position, to_offset, passed, event_types, matched, sent,
      failed, status, created_at, finished_at
    from replays where tenant = ${tenant} and stream = ${stream} and id = ${id}`;
  return row && storedReplayOf(row);
}

/** Returns the replay of a stream that is running or paused. */
async function runningReplay(
  db: Queries,
  { tenant, stream }: StreamRef,
): Promise<StoredReplay | undefined> {
  const row = await db.get<ReplayRow>`
    select tenant, stream, id, from_offset, position, to_offset, passed, event_types, matched, sent,
      failed, status, created_at, finished_at
    from replays where tenant = ${tenant} and stream = ${stream} and status = 'running'`;
  return row && storedReplayOf(row);
}

async function cancel(
  tx: Queries,
  { tenant, stream }: StreamRef,
  id: string,
): Promise<'cancelled' | 'over' | 'unknown'> {
  const run = await lockRun(tx, tenant, stream);
  const replay = await readReplay(tx, tenant, stream, id);
  if (replay === undefined || run === undefined) return 'unknown';
  if (replay.status !== 'running') return 'over';
  await Promise.all([
    tx.run`
      update replays set status = 'cancelled', finished_at = leat_now()
      where tenant = ${tenant} and stream = ${stream} and id = ${id}`,
    tx.run`
      delete from deliveries
      where tenant = ${tenant} and stream = ${stream} and kind = 'replay' and due_at is not null`,
    noteChanges(tx, [run]),
  ]);
  return 'cancelled';
}

async function materialize(tx: Queries, request: MaterializeRequest): Promise<MaterializeResult> {
  const [runs, now] = await Promise.all([lockRuns(tx, [request]), storeNow(tx)]);
  const run = runs.get(streamKeyOf(request));
  if (run === undefined || run.owner === null || run.epoch !== request.epoch) return lostStream;
  const [raised = 0] = await raiseCursors(tx, runs, [request]);
  const nothing: MaterializeResult = {
    result: 'running',
    cursor: raised,
    materialized: 0,
    more: false,
  };
  const replay = await runningReplay(tx, run);
  if (replay?.id !== request.replay) return { ...nothing, result: 'over' };
  const state = await stateOf(tx, { ...run, cursor: Math.max(run.cursor, raised) });
  const step = nextMaterializeStep(replay, request, state);
  if (step.step === 'wait') return nothing;
  if (step.step === 'end') {
    await write(tx, { ...replay, status: step.status }, now);
    return { ...nothing, result: 'over' };
  }
  const stretch = await stretchOf(tx, run.tenant, step, daysMax);
  const read = { ...step, upTo: stretch.upTo };
  const offsets = await addRows(tx, run, replay, { ...read, ...stretch }, now);
  const { after, progress } = afterRead(replay, read, offsets, state);
  await write(tx, after, now);
  return { ...progress, cursor: raised };
}

/**
 * Events that are not pruned when the tip is read stay readable until the transaction ends, and
 * upkeep waits for this transaction before it copies a body that is pruned later for the row that
 * needs it.
 */
async function stateOf(tx: Queries, run: Run): Promise<MaterializeState> {
  const { tenant, stream, cursor } = run;
  const [tip, rows] = await Promise.all([
    tipOf(tx, tenant),
    tx.get<{ waiting: number }>`
      select count(*) as waiting from deliveries
      where tenant = ${tenant} and stream = ${stream} and kind = 'replay' and due_at is not null`,
  ]);
  return {
    cursor,
    enabled: run.status === 'enabled',
    subscriptions: JSON.parse(run.subscriptions) as Subscription[],
    waiting: rows?.waiting ?? 0,
    prunedTo: tip.prunedTo,
  };
}

/**
 * Returns the offsets of the new rows, in order. The history is read from the day before the replay
 * was accepted: an event whose first attempt is older counts as sent before.
 */
async function addRows(
  tx: Queries,
  run: Run,
  replay: StoredReplay,
  { after, upTo, from, to, types, take }: Extract<MaterializeStep, { step: 'read' }> & Stretch,
  now: Millis,
): Promise<Offset[]> {
  if (types.length === 0) return [];
  const rows = await tx.all<{ offset: Offset }>`
    insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
      due_at, event_day)
    select e.tenant, ${run.stream}, e.id, e."offset", e.type, e.time, 'replay', 'retrying', 1,
      ${now}, e.published_at / ${dayMs}
    from events e
    where e.tenant = ${run.tenant} and e."offset" > ${after} and e."offset" <= ${upTo}
      and e.published_at >= ${from} and e.published_at < ${to}
      and e.type = any(${types}::text[])
      and not exists (
        select 1 from deliveries d
        where d.tenant = e.tenant and d.stream = ${run.stream} and d.event_id = e.id)
      and (e."offset" <= ${replay.passed} or coalesce((
        select min(a.at) from attempts a
        where a.tenant = e.tenant and a.stream_key = ${run.key} and a.event_key = e."offset"
          and a.day >= ${dayOf(replay.createdAt) - 1}),
        0) < ${sentBefore(replay)})
    order by e."offset" limit ${take}
    returning "offset"`;
  return rows.map(({ offset }) => offset).toSorted((one, other) => one - other);
}

async function write(tx: Queries, replay: StoredReplay, now: Millis): Promise<void> {
  const finishedAt = replay.status === 'running' ? undefined : now;
  await tx.run`
    update replays set position = ${replay.position}, matched = ${replay.matched},
      status = ${replay.status}, finished_at = ${finishedAt}
    where tenant = ${replay.tenant} and stream = ${replay.stream} and id = ${replay.id}`;
}

/** Adds the counts of a batch of outcomes to the progress of replays. */
export async function addProgress(tx: Queries, streams: readonly BatchState[]): Promise<void> {
  const ended = streams.filter(({ replayed }) => replayed.sent + replayed.failed > 0);
  if (ended.length === 0) return;
  await tx.run`
    update replays p set sent = p.sent + u.sent, failed = p.failed + u.failed
    from unnest(${numbers(ended.map(({ run }) => run.tenant))}::int[],
      ${ended.map(({ run }) => run.stream)}::text[],
      ${numbers(ended.map(({ replayed }) => replayed.sent))}::bigint[],
      ${numbers(ended.map(({ replayed }) => replayed.failed))}::bigint[])
      as u(tenant, stream, sent, failed)
    where p.tenant = u.tenant and p.stream = u.stream and p.status = 'running'`;
}

async function prune(db: Queries, query: Parameters<ReplayStore['prune']>[0]): Promise<number> {
  const before = await horizonOf(db, query.olderThanMs);
  return db.run`
    delete from replays where (tenant, stream, id) in (
      select tenant, stream, id from replays
      where finished_at < ${before}
      order by finished_at limit ${query.take})`;
}
