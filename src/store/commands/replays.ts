import type { Millis } from '../../core/clock.ts';
import type { Offset, Replay, Subscription } from '../../core/types.ts';
import { dayMs, dayOf } from '../../core/units.ts';
import type { Hint } from '../port/hints.ts';
import type {
  MaterializeRequest,
  MaterializeResult,
  NewReplay,
  ReplayStore,
} from '../port/replays.ts';
import type { Page } from '../port/page.ts';
import type { StepQuery } from '../port/upkeep.ts';
import {
  cellsOfReplay,
  replayOf,
  type ReplayRow,
  type StoredReplay,
  storedReplayOf,
} from '../rows/replays.ts';
import type { Run } from '../rows/runs.ts';
import { mayBeSent, sendingOf } from '../rules/pause.ts';
import {
  acceptedReplay,
  afterRead,
  lostStream,
  type MaterializeState,
  type MaterializeStep,
  nextMaterializeStep,
  sentBefore,
} from '../rules/replay.ts';
import { tables } from '../tables.ts';
import { columnsOf, valuesOf } from './columns.ts';
import { type Command, type On, sql, type Statement, together } from './command.ts';
import { byReplay } from './delivery-indexes.ts';
import { Fragment, oneOf, piece, postgresOnly, verbatim } from './dialect.ts';
import { horizonOf } from './horizon.ts';
import {
  headOf,
  lockRaised,
  lockRun,
  noteChanges,
  oldestAfter,
  storeNow,
  type Stretch,
  stretchOf,
} from './runs.ts';

export interface ReplayDeps extends On {
  readonly hint: (hint: Hint) => void;
}

/** Creates the store of replays. Every change of one locks the run of its stream first. */
export function createReplayStore(deps: ReplayDeps): ReplayStore {
  const { on, hint } = deps;
  const { read, transact } = on.commands;
  return {
    create: async (replay) => {
      const result = await transact('durable', () => create(deps, replay));
      const { tenant, stream } = replay;
      if ('created' in result) hint({ kind: 'stream', tenant, stream });
      return result;
    },
    list: (tenant, stream, page) => on.lists.read(list(tenant, stream, page)),
    get: (tenant, stream, id) => read(get(tenant, stream, id)),
    cancel: async (tenant, stream, id) => {
      const result = await transact('confirmed', () => cancel(tenant, stream, id));
      if (result === 'cancelled') hint({ kind: 'stream', tenant, stream });
      return result !== 'unknown';
    },
    materialize: (request) => on.delivering.transact('settling', () => materialize(request)),
    prune: (query) => transact('relaxed', () => prune(query)),
  };
}

function* create(
  deps: ReplayDeps,
  request: NewReplay,
): Command<Awaited<ReturnType<ReplayStore['create']>>> {
  const { tenant, stream } = request;
  const [run, now, running, head, oldest] = yield* together(
    lockRun(tenant, stream),
    storeNow(),
    runningRow(tenant, stream),
    headOf(tenant),
    oldestAfter(tenant, 0),
  );
  if (run === undefined) return { refused: 'unknown' };
  if (run.status === 'disabled') return { refused: 'disabled' };
  if (running !== undefined) return { refused: 'running' };
  const log = { cursor: run.cursor, prunedTo: oldest - 1, head };
  const replay = acceptedReplay(request, log, now);
  yield* together(
    sql.run`insert into replays ${valuesOf(tables.replays, cellsOfReplay(replay))}`,
    noteChanges([run]),
  );
  return { created: replayOf(replay) };
}

function* get(tenant: number, stream: string, id: string): Command<Replay | undefined> {
  const row = yield* replayRow(tenant, stream, id);
  return row && replayOf(storedReplayOf(row));
}

/** Ids rise with their time of creation. */
function* list(
  tenant: number,
  stream: string,
  { after = '\u007f', take }: Parameters<ReplayStore['list']>[2],
): Command<Page<Replay>> {
  const rows = yield* sql.all<ReplayRow>`
    select ${columns} from replays
    where tenant = ${tenant} and stream = ${stream} and id < ${after}
    order by id desc limit ${take + 1}`;
  const items = rows.slice(0, take).map((row) => replayOf(storedReplayOf(row)));
  return { items, next: rows.length > take ? items.at(-1)?.id : undefined };
}

const columns = columnsOf(tables.replays);

function replayRow(tenant: number, stream: string, id: string): Statement<ReplayRow | undefined> {
  return sql.get`
    select ${columns} from replays where tenant = ${tenant} and stream = ${stream} and id = ${id}`;
}

/** Returns the row of the replay of a stream that is running or paused. */
function runningRow(tenant: number, stream: string): Statement<ReplayRow | undefined> {
  return sql.get`
    select ${columns} from replays where tenant = ${tenant} and stream = ${stream} and status = 'running'`;
}

function* cancel(
  tenant: number,
  stream: string,
  id: string,
): Command<'cancelled' | 'over' | 'unknown'> {
  const [run, replay] = yield* together(lockRun(tenant, stream), replayRow(tenant, stream, id));
  if (replay === undefined || run === undefined) return 'unknown';
  if (replay.status !== 'running') return 'over';
  yield* together(
    sql.run`
      update replays set status = 'cancelled', finished_at = leat_now()
      where tenant = ${tenant} and stream = ${stream} and id = ${id}`,
    sql.run`
      delete from deliveries ${byReplay}
      where tenant = ${tenant} and stream = ${stream} and kind = 'replay' and due_at is not null`,
    noteChanges([run]),
  );
  return 'cancelled';
}

function* materialize(request: MaterializeRequest): Command<MaterializeResult> {
  const { tenant, stream } = request;
  const [{ run, cursor }, now, row] = yield* together(
    lockRaised(request),
    storeNow(),
    runningRow(tenant, stream),
  );
  if (run === undefined || run.owner === null || run.epoch !== request.epoch) return lostStream;
  const nothing: MaterializeResult = { result: 'running', cursor, materialized: 0, more: false };
  if (row?.id !== request.replay) return { ...nothing, result: 'over' };
  const replay = storedReplayOf(row);
  const state = yield* stateOf({ ...run, cursor: Math.max(run.cursor, cursor) }, replay);
  const step = nextMaterializeStep(replay, request, state);
  if (step.step === 'wait') return nothing;
  if (step.step === 'end') {
    yield* write({ ...replay, status: step.status }, now);
    return { ...nothing, result: 'over' };
  }
  if (step.step === 'filter') return { ...nothing, unfiltered: step };
  const { upTo, inDays } = yield* stretchOf(tenant, step);
  const read = { ...step, upTo };
  const offsets = yield* addRows(run, replay, read, { inDays, now });
  const { after, progress } = afterRead(replay, read, offsets, state);
  yield* write(after, now);
  return { ...progress, cursor };
}

/**
 * Events that are retained when the oldest offset is read stay readable until the transaction ends.
 * On PostgreSQL upkeep waits for it before it copies a body that is pruned later for the row that
 * needs it.
 */
function* stateOf(run: Run, replay: StoredReplay): Command<MaterializeState> {
  const { tenant, stream, cursor } = run;
  const [oldest, row] = yield* together(
    oldestAfter(tenant, replay.position),
    sql.get<{ subscriptions: string; waiting: number }>`
      select subscriptions, (
        select count(*) from deliveries
        where tenant = ${tenant} and stream = ${stream} and kind = 'replay' and due_at is not null
      ) as waiting
      from streams where tenant = ${tenant} and id = ${stream}`,
  );
  return {
    cursor,
    sends: mayBeSent('replay', sendingOf(run)),
    subscriptions: JSON.parse(row?.subscriptions ?? '[]') as Subscription[],
    waiting: row?.waiting ?? 0,
    prunedTo: oldest - 1,
  };
}

// PostgreSQL has the events and the history in partitions of days.
const dayColumn = postgresOnly`, event_day`;
const dayOfEvent = postgresOnly`, e.published_at / ${dayMs}`;

/** Returns the offsets of the new rows, in order. */
function* addRows(
  { tenant, stream, key }: Run,
  replay: StoredReplay,
  { after, upTo, types, take, offsets }: Extract<MaterializeStep, { step: 'read' }>,
  { inDays, now }: Pick<Stretch, 'inDays'> & { readonly now: Millis },
): Command<Offset[]> {
  if (types.length === 0 || offsets?.length === 0) return [];
  const rows = yield* sql.all<{ offset: Offset }>`
    insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
      due_at ${dayColumn})
    select e.tenant, ${stream}, e.id, e."offset", e.type, e.time, 'replay', 'retrying', 1, ${now}
      ${dayOfEvent}
    from events e
    where e.tenant = ${tenant} and e."offset" > ${after} and e."offset" <= ${upTo} ${inDays}
      and e.type ${oneOf(types)} ${amongOffsets(offsets)}
      and not exists (
        select 1 from deliveries d
        where d.tenant = e.tenant and d.stream = ${stream} and d.event_id = e.id)
      and (e."offset" <= ${replay.passed} or coalesce(${firstAttempt(replay, key)}, 0) < ${sentBefore(replay)})
    order by e."offset" limit ${take}
    returning "offset"`;
  return rows.map(({ offset }) => offset).toSorted((one, other) => one - other);
}

function amongOffsets(offsets: readonly Offset[] | undefined): Fragment {
  if (offsets === undefined) return verbatim('');
  return new Fragment({
    sqlite: piece`and e."offset" in (select value from json_each(${JSON.stringify(offsets)}))`,
    postgres: piece`and e."offset" = any(${offsets}::bigint[])`,
  });
}

/**
 * When the event was first attempted; null if that was before the day before the replay was accepted, or
 * never: it counts as sent before.
 */
function firstAttempt({ tenant, createdAt }: StoredReplay, key: number): Fragment {
  return new Fragment({
    sqlite: piece`(
      select min(at) from (
        select at from attempts where stream_key = ${key} and event_key = e."offset"
        union all
        select at from attempts_kept where stream_key = ${key} and event_key = e."offset"))`,
    postgres: piece`(
      select min(a.at) from attempts a
      where a.tenant = ${tenant} and a.stream_key = ${key} and a.event_key = e."offset"
        and (a.day = 0 or a.day >= ${dayOf(createdAt) - 1}))`,
  });
}

function write(replay: StoredReplay, now: Millis): Statement<number> {
  const finishedAt = replay.status === 'running' ? undefined : now;
  return sql.run`
    update replays set position = ${replay.position}, matched = ${replay.matched},
      status = ${replay.status}, finished_at = ${finishedAt}
    where tenant = ${replay.tenant} and stream = ${replay.stream} and id = ${replay.id}`;
}

function* prune({ olderThanMs, take }: StepQuery): Command<number> {
  const before = yield* horizonOf(olderThanMs);
  return yield* sql.run`
    delete from replays where (tenant, stream, id) in (
      select tenant, stream, id from replays
      where finished_at < ${before}
      order by finished_at limit ${Math.min(take, pruneMax)})`;
}

/** Maximum replays removed in one step: some milliseconds. */
const pruneMax = 500;
