import type { Millis } from '../../core/clock.ts';
import type { FailureWorkStore, NewFailureWork, StepResult } from '../port/failure-work.ts';
import type { FailureSelection } from '../port/failures.ts';
import type { Hint } from '../port/hints.ts';
import type { StepQuery } from '../port/upkeep.ts';
import type { Run } from '../rows/runs.ts';
import { progressOfStep } from '../rules/failure-work.ts';
import { type Command, type On, sql, type Statement, together } from './command.ts';
import { Fragment, forUpdate, jsonOf, piece, verbatim } from './dialect.ts';
import {
  type Counted,
  countFailures,
  type CountedStream,
  type FailureKey,
  firstKey,
  openAfter,
  type OpenFailure,
  stepMax,
} from './failure-counts.ts';
import { horizonOf } from './horizon.ts';
import type { Targeted } from './recording.ts';
import { lockRun, storeNow } from './runs.ts';

/** One kind of requests about many failures: its tables, and what it does with failures. */
export interface WorkKind {
  /** The table of requests, and that of their streams. */
  readonly requests: Fragment;
  /** Columns of a new request that are 0, and their values. */
  readonly zeros?: { readonly columns: Fragment; readonly values: Fragment };
  readonly streams: Fragment;
  /** The columns of `streams` that count failures whose end is known, as a sum. */
  readonly ended: Fragment;
  /** The condition on `requests` that it has more work than that of {@link WorkKind.act}. */
  readonly hasMore?: Fragment;
  /** Acts on open failures of a stream, oldest first. */
  act(run: Run, failures: readonly OpenFailure[], step: WorkStep): Command<Acted>;
}

/** The work of a request: `cancelling` undoes what has not begun. */
type Work = 'taking' | 'cancelling';

export interface WorkStep {
  readonly id: string;
  readonly work: Work;
  readonly acceptedAt: Millis;
  readonly now: Millis;
}

interface Acted {
  readonly begun: number;
  readonly skipped: number;
  /** Index of a failure that the step leaves, with those after it, to a later one; -1 for none. */
  readonly waitsFor: number;
}

export interface WorkDeps extends On {
  readonly hint: (hint: Hint) => void;
}

/** Creates the commands that redeliveries and dismissals have in common. */
export function createFailureWork(deps: WorkDeps, kind: WorkKind): FailureWorkStore {
  const { on, hint } = deps;
  const { read, transact } = on.commands;
  return {
    create: async (request) => {
      const counted = await countFailures({ commands: on.commands }, request);
      const result = await transact('durable', () => create(kind, request, counted));
      return 'refused' in result ? result : 'accepted';
    },
    step: async (tenant, id) => {
      const { result, stream } = await transact('durable', () => step(kind, tenant, id));
      if (stream !== undefined) hint({ kind: 'stream', tenant, stream });
      return result;
    },
    unfinished: (take) => read(unfinished(kind, take)),
    prune: (query) => transact('relaxed', () => prune(kind, query)),
  };
}

/** Requests of a tenant that have work left. */
const unfinishedMax = 20;

/** Streams that an entry of the audit log names. */
const targetsMax = 1000;

type Created = Targeted | { readonly refused: 'too_many' };

function* create(
  kind: WorkKind,
  { tenant, id, createdBy }: NewFailureWork,
  { selection, streams, isAtLeast }: Counted,
): Command<Created> {
  const [now, open] = yield* together(
    storeNow(),
    sql.get<{ count: number }>`
      select count(*) as count from ${kind.requests} where tenant = ${tenant} and work <> 'none'`,
  );
  if ((open?.count ?? 0) >= unfinishedMax) return { refused: 'too_many' };
  const work = streams.length > 0 ? 'taking' : 'none';
  const { columns = nothing, values = nothing } = kind.zeros ?? {};
  yield* sql.run`
    insert into ${kind.requests} (tenant, id, selection, work, position, at_least, created_at,
      created_by ${columns})
    values (${tenant}, ${id}, ${JSON.stringify(selection)}, ${work}, '', ${isAtLeast ? 1 : 0}, ${now},
      ${createdBy} ${values})`;
  yield* sql.run`
    insert into ${kind.streams} (tenant, id, stream, total, skipped, unread)
    select ${tenant}, ${id}, c.stream, c.total, 0, c.total from ${listedStreams(streams)} as c`;
  const names = streams.slice(0, targetsMax).map(({ stream }) => stream);
  return { targets: [id, ...names] };
}

const nothing = verbatim('');

/** A table with the streams of a request in the columns `stream` and `total`. */
function listedStreams(streams: readonly CountedStream[]): Fragment {
  const [names, totals] = [streams.map(({ stream }) => stream), streams.map(({ total }) => total)];
  const rows = jsonOf(streams.map(({ stream, total }) => [stream, total]));
  return new Fragment({
    sqlite: piece`(select value ->> 0 as stream, value ->> 1 as total from json_each(${rows}))`,
    postgres: piece`(
      select * from unnest(${names}::text[], ${totals}::bigint[]) as u(stream, total))`,
  });
}

interface WorkRow {
  readonly selection: string;
  readonly work: Work | 'none';
  readonly position: string;
  readonly after_at: Millis;
  readonly after_event: string;
  readonly created_at: Millis;
}

interface Stepped {
  readonly result: StepResult;
  /** A stream whose owner has to learn of the step. */
  readonly stream?: string;
}

/** Does the next work of a request: some failures of one stream. */
function* step(kind: WorkKind, tenant: number, id: string): Command<Stepped> {
  const row = yield* sql.get<WorkRow>`
    select selection, work, position, after_at, after_event, created_at from ${kind.requests}
    where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  if (row === undefined || row.work === 'none') return { result: 'done' };
  const [next, later] = yield* sql.all<{ stream: string }>`
    select stream from ${kind.streams}
    where tenant = ${tenant} and id = ${id} and stream > ${row.position} order by stream limit 2`;
  // Versions before the baseline left the end to a step of its own.
  if (next === undefined) {
    yield* moveTo(kind, { tenant, id }, { work: 'none', position: row.position, after: firstKey });
    return { result: 'done' };
  }
  const { stream } = next;
  // The end belongs to the step that does the last work: a process may crash after it.
  const passed = { work: later === undefined ? 'none' : row.work, position: stream } as const;
  const [run, now] = yield* together(lockRun(tenant, stream), storeNow());
  if (run === undefined) {
    yield* leaveWork(kind, { tenant, stream, id });
    yield* moveTo(kind, { tenant, id }, { ...passed, after: firstKey });
    return { result: later === undefined ? 'done' : 'more' };
  }
  const request = { id, work: row.work, acceptedAt: row.created_at, now };
  const after = { failedAt: row.after_at, id: row.after_event };
  const { acted, read, isEnd } = yield* actOn(kind, run, request, {
    after,
    selection: JSON.parse(row.selection) as FailureSelection,
  });
  yield* addProgress(kind, { tenant, stream, id }, { ...acted, isEnd });
  const reached = { work: row.work, position: row.position, after: read } as const;
  yield* moveTo(kind, { tenant, id }, isEnd ? { ...passed, after: firstKey } : reached);
  if (isEnd && later === undefined) return { result: 'done', stream };
  return { result: acted.waitsFor < 0 ? 'more' : 'waiting', stream };
}

/** Acts on the next failures of a stream; `read` is the last one that it is done with. */
function* actOn(
  kind: WorkKind,
  run: Run,
  work: WorkStep,
  { after, selection }: { readonly after: FailureKey; readonly selection: FailureSelection },
): Command<{ readonly acted: Acted; readonly read: FailureKey; readonly isEnd: boolean }> {
  const found = yield* openAfter(run, after, selection, stepMax + 1);
  const all = found.slice(0, stepMax);
  const failures = all.filter(({ matches }) => matches === 1);
  const acted = yield* kind.act(run, failures, work);
  const waitsFor = failures[acted.waitsFor];
  if (waitsFor !== undefined) {
    const read = all[all.indexOf(waitsFor) - 1] ?? after;
    return { acted, read, isEnd: false };
  }
  const last = all.at(-1);
  const { failedTo = Infinity } = selection;
  const isEnd = last === undefined || found.length === all.length || last.failedAt >= failedTo;
  return { acted, read: last ?? after, isEnd };
}

interface WorkStream {
  readonly tenant: number;
  readonly stream: string;
  readonly id: string;
}

function* addProgress(
  kind: WorkKind,
  { tenant, stream, id }: WorkStream,
  counts: Parameters<typeof progressOfStep>[1],
): Command<void> {
  const before = yield* sql.get<{ unread: number }>`
    select unread from ${kind.streams}
    where tenant = ${tenant} and id = ${id} and stream = ${stream}`;
  const { total, unread, skipped } = progressOfStep(before ?? { unread: 0 }, counts);
  yield* sql.run`
    update ${kind.streams}
    set total = total + ${total}, unread = unread + ${unread}, skipped = skipped + ${skipped}
    where tenant = ${tenant} and id = ${id} and stream = ${stream}`;
}

function moveTo(
  kind: WorkKind,
  { tenant, id }: Omit<WorkStream, 'stream'>,
  { work, position, after }: Pick<WorkRow, 'work' | 'position'> & { readonly after: FailureKey },
): Statement<number> {
  return sql.run`
    update ${kind.requests}
    set work = ${work}, position = ${position}, after_at = ${after.failedAt}, after_event = ${after.id}
    where tenant = ${tenant} and id = ${id}`;
}

/** Counts what a stream that is deleted has left of a request, or of all, as skipped. */
export function leaveWork(
  { streams, ended }: Pick<WorkKind, 'streams' | 'ended'>,
  { tenant, stream, id }: Omit<WorkStream, 'id'> & { readonly id?: string },
): Statement<number> {
  return sql.run`
    update ${streams} set skipped = total - (${ended}), unread = 0
    where tenant = ${tenant} and stream = ${stream} and (${id === undefined} or id = ${id ?? ''})`;
}

function* unfinished(
  { requests, hasMore = verbatim('false') }: WorkKind,
  take: number,
): Command<{ tenant: number; id: string }[]> {
  const rows = yield* sql.all<{ tenant: number; id: string }>`
    select tenant, id from ${requests} where work <> 'none' or ${hasMore}
    order by tenant, id limit ${take}`;
  return rows.map((row) => ({ ...row }));
}

function* prune(
  { requests, streams, hasMore = verbatim('false') }: WorkKind,
  { olderThanMs, take: limit }: StepQuery,
): Command<number> {
  const before = yield* horizonOf(olderThanMs);
  const old = yield* sql.all<{ tenant: number; id: string }>`
    select tenant, id from ${requests}
    where created_at < ${before} and work = 'none' and not (${hasMore}) order by created_at limit ${limit}`;
  // Together: one after the other would be a round trip for each.
  yield* together(
    ...old.flatMap(({ tenant, id }) => [
      sql.run`delete from ${streams} where tenant = ${tenant} and id = ${id}`,
      sql.run`delete from ${requests} where tenant = ${tenant} and id = ${id}`,
    ]),
  );
  return old.length;
}
