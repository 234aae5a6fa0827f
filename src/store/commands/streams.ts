import type { Millis } from '../../core/clock.ts';
import { filtersMax } from '../../core/filter.ts';
import { storedNames } from '../../core/name.ts';
import { firstSubscription, withoutPassed } from '../../core/subscription.ts';
import type { Health, Offset, Pause, Stream } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { ChangeRefused, StreamDecision, StreamStore } from '../port/streams.ts';
import { reportOnce } from '../rows/broken.ts';
import type { Run } from '../rows/runs.ts';
import { cellsOfStream, isFiltered, streamOf, type StreamRow } from '../rows/streams.ts';
import { type Changed, enabledAfter, type Enabling, noSwitch } from '../rules/enable.ts';
import { resumedAt } from '../rules/pause.ts';
import type { Seal } from '../seal.ts';
import { tables } from '../tables.ts';
import { changesOf, valuesOf } from './columns.ts';
import { type Command, engine, Lock, type On, sql, type Statement, together } from './command.ts';
import { failWaiting } from './disabling.ts';
import { byStream } from './delivery-indexes.ts';
import { forShare, Fragment, oneOf, piece } from './dialect.ts';
import { passedOverBy } from './skipped.ts';
import { hasTooManySelections, keepPast, passedSelections, removePast } from './past-selections.ts';
import { leaveDismissals } from './dismissals.ts';
import { leaveRedeliveries } from './redeliveries.ts';
import type { ReadCache } from './read-cache.ts';
import { headOf, lockRun, noteChanges, oldestAfter, storeNow } from './runs.ts';
import { sealerOf, sealingRow } from './sealing.ts';
import { countSkipped, type SkippedDeps } from './skipped.ts';
import {
  addSkipped,
  countedSkipped,
  createSkippedRanges,
  removeSkipped,
} from './skipped-ranges.ts';
import { createStreamFacts } from './stream-facts.ts';
import { createStreamPages, streamColumns } from './stream-pages.ts';
import { streamsMark } from './stream-list.ts';
import { createStreamStates } from './stream-states.ts';

export interface StreamDeps extends Omit<SkippedDeps, 'commands'>, On {
  readonly readCache: ReadCache;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
  /** Receives each stream of a page that does not open, once. */
  readonly report: (error: unknown) => void;
}

/** Creates the store of streams. The destination and the signing secrets are sealed at rest. */
export function createStreamStore(deps: StreamDeps): StreamStore {
  const { on, seal, hint } = deps;
  const { commands, lists } = on;
  const { read, transact } = commands;
  const report = reportOnce(deps.report);
  return {
    create: async (stream, rules) => {
      const result = await transact('durable', () => create(deps, stream, rules));
      if ('created' in result) hint({ kind: 'stream', tenant: stream.tenant, stream: stream.id });
      return result;
    },
    get: (tenant, id) => read(readStream(tenant, id, (row) => streamOf(seal, row))),
    health: (tenant, id) => read(health(tenant, id)),
    ...createStreamFacts(deps),
    states: createStreamStates(deps),
    mark: (tenant) =>
      lists.bounded(() => streamsMark({ commands: lists, kept: deps.readCache.present }, tenant)),
    ...createStreamPages({ commands: lists, seal, report }),
    ...createSkippedRanges({ on }),
    update: async (tenant, id, decide) => {
      const result = await transact('confirmed', () => update(deps, { tenant, id, decide }));
      if (!('updated' in result)) return result;
      const { updated, held, passedOver } = result;
      if (result.changed) hint({ kind: 'stream', tenant, stream: id });
      if (passedOver === undefined) return { updated, held, skipped: 0 };
      const counted = await countSkipped({ ...deps, commands }, passedOver);
      await transact('relaxed', () => countedSkipped(id, passedOver, counted));
      return { updated, held, skipped: counted.count };
    },
    delete: async (tenant, id) => {
      const deleted = await transact('confirmed', () => remove(tenant, id));
      if (deleted) hint({ kind: 'stream', tenant, stream: id });
      return deleted;
    },
  };
}

/** Returns the current state of the stream, as `open` makes it of its row. */
function* readStream(
  tenant: number,
  id: string,
  open: (row: StreamRow) => Stream | undefined,
): Command<Stream | undefined> {
  const row = yield* streamRow(tenant, id);
  return row && open(row);
}

function streamRow(tenant: number, id: string): Statement<StreamRow | undefined> {
  return sql.get`
    select ${streamColumns} from streams where tenant = ${tenant} and id = ${id}`;
}

function* health(tenant: number, id: string): Command<Health | undefined> {
  const row = yield* sql.get<Health>`
    select consecutive_failures as consecutive, total_failures as total
    from runs where tenant = ${tenant} and stream = ${id}`;
  return row && { ...row };
}

function* create(
  deps: StreamDeps,
  { types, filter, cursor, ...stream }: Parameters<StreamStore['create']>[0],
  rules: Parameters<StreamStore['create']>[1],
): Command<Awaited<ReturnType<StreamStore['create']>>> {
  const { tenant } = stream;
  if (yield* isTaken(stream)) return { refused: 'name_taken' };
  const [counted, sealing] = yield* together(
    sql.get<{ count: number }>`select count(*) as count from streams where tenant = ${tenant}`,
    sealingRow(),
  );
  if ((counted?.count ?? 0) >= rules.streamsMax) return { refused: 'too_many' };
  const refused = filter === undefined ? undefined : yield* filterRefused(tenant);
  if (refused !== undefined) return { refused };
  const created: Stream = {
    ...stream,
    subscriptions: firstSubscription({ types, filter }),
    version: 1,
  };
  const { id } = created;
  const row = cellsOfStream(created, sealerOf(deps.seal, sealing));
  yield* together(
    keepLog(tenant),
    sql.run`insert into streams ${valuesOf(tables.streams, row)}`,
    sql.run`
      insert into runs (tenant, stream, cursor, run, consecutive_failures, total_failures, epoch,
        first_offset)
      select id, ${id}, ${firstCursor(cursor)}, 1, 0, 0, 0, ${firstCursor(cursor)}
      from tenants where id = ${tenant}`,
  );
  return { created };
}

/**
 * Returns why a tenant may not have another stream with a filter; until the commit no other command
 * adds one.
 */
function* filterRefused(tenant: number): Command<'too_many_filters' | undefined> {
  yield* new Lock(`streams ${tenant}`);
  const row = yield* sql.get<{ count: number }>`
    select count(*) as count from streams where tenant = ${tenant} and filtered = 1`;
  return (row?.count ?? 0) >= filtersMax ? 'too_many_filters' : undefined;
}

/** Returns why a stream may not have the selection of a change. */
function* selectionRefused(
  deps: StreamDeps,
  before: Stream,
  wanted: Stream,
): Command<'too_many_filters' | 'too_many_changes' | undefined> {
  const { tenant, id, subscriptions } = wanted;
  if (subscriptions === before.subscriptions) return undefined;
  if (yield* hasTooManySelections(tenant, id, subscriptions)) return 'too_many_changes';
  const isNew = isFiltered(wanted) > isFiltered(before);
  return isNew ? yield* filterRefused(tenant) : undefined;
}

type Sealer = ReturnType<typeof sealerOf>;

/**
 * Returns whether another stream has the name. Until the commit no other command takes a name or
 * creates a stream of the tenant, so that the limit on streams holds as well.
 */
function* isTaken({ tenant, id, name }: Pick<Stream, 'tenant' | 'id' | 'name'>): Command<boolean> {
  yield* new Lock(`streams ${tenant}`);
  const other = yield* sql.get`
    select 1 from streams where tenant = ${tenant} and name ${oneOf(storedNames(name))} and id <> ${id}`;
  return other !== undefined;
}

/** Prevents pruning until the commit: only then the stream counts for what is kept. */
function keepLog(tenant: number): Statement<number> {
  return sql.run`select 1 from tenants where id = ${tenant} ${forShare}`;
}

/** The start of a new stream, in a statement on its tenant: `cursor`, and the head without one. */
function firstCursor(cursor: Offset | undefined): Fragment {
  return new Fragment({
    sqlite: piece`min(head, ifnull(${cursor}, head))`,
    postgres: piece`greatest(least(head, ${cursor}::bigint), pruned_to)`,
  });
}

interface Change<R extends string> {
  readonly tenant: number;
  readonly id: string;
  decide(before: Stream, state: { health: Health; head: Offset }): StreamDecision<R>;
}

function* update<R extends string>(
  deps: StreamDeps,
  { tenant, id, decide }: Change<R>,
): Command<Changed | ChangeRefused<R>> {
  const { seal } = deps;
  const [run, now, row, head, sealing] = yield* together(
    lockRun(tenant, id),
    storeNow(),
    streamRow(tenant, id),
    headOf(tenant),
    sealingRow(),
  );
  if (row === undefined || run === undefined) return { refused: 'unknown' };
  const before = streamOf(seal, row);
  const decision = decide(before, { health: run.health, head });
  if ('refused' in decision) return { refused: decision.refused, health: run.health };
  if (decision.after === before) return { updated: before, changed: false, ...noSwitch };
  const { paused: pause, ...after } = decision.after;
  const paused = pause && pausedAfter(before, pause, now);
  const same = { tenant, id, createdAt: before.createdAt };
  const wanted: Stream = { ...after, ...same, ...(paused && { paused }) };
  if (wanted.name !== before.name && (yield* isTaken(wanted))) return { refused: 'name_taken' };
  const refused = yield* selectionRefused(deps, before, wanted);
  if (refused !== undefined) return { refused };
  const { resume } = decision;
  const present = paused === undefined ? resumedAt(run, now) : run;
  const { runAfter, ...enabling } = yield* switched(present, wanted, { resume, head, now });
  if (runAfter !== run) yield* engine.writeRuns([runAfter]);
  const subscriptions = withoutPassed(wanted.subscriptions, runAfter.cursor);
  const updated = { ...wanted, subscriptions, version: before.version + 1 };
  yield* keepPast(tenant, id, passedSelections(wanted.subscriptions, subscriptions));
  yield* together(writeStream(updated, sealerOf(seal, sealing), now), noteChanges([run]));
  return { updated, changed: true, ...enabling };
}

/** Returns the pause after a change: a new one begins now, by the clock of the store. */
function pausedAfter({ paused: present }: Stream, { reason }: Pause, now: Millis): Pause {
  const at = present?.at ?? now;
  return reason === undefined ? { at } : { at, reason };
}

/** Returns the effect of a change of status on the run, which is the same object without one. */
function* switched(
  run: Run,
  wanted: Stream,
  { resume, head, now }: { resume: 'latest' | 'held' | undefined; head: Offset; now: Millis },
): Command<Enabling & { readonly runAfter: Run }> {
  if (run.status === wanted.status) return { runAfter: run, ...noSwitch };
  if (wanted.status === 'disabled') {
    return {
      runAfter: { ...run, health: yield* failWaiting(run, 'retrying', now) },
      ...noSwitch,
    };
  }
  if (resume !== 'held') {
    const passedOver = yield* passedOverBy(run, wanted.subscriptions, head);
    yield* addSkipped(run.stream, passedOver, now);
    return { runAfter: enabledAfter(run, head), held: undefined, passedOver };
  }
  const { tenant, cursor } = run;
  const [, oldest] = yield* together(keepLog(tenant), oldestAfter(tenant, cursor));
  const held = oldest > cursor + 1 ? 'pruned' : 'complete';
  return { runAfter: enabledAfter(run, cursor), held, passedOver: undefined };
}

function writeStream(stream: Stream, sealer: Sealer, now: Millis): Statement<number> {
  const cells = cellsOfStream(stream, sealer);
  return sql.run`
    update streams set ${changesOf(tables.streams, cells)},
      certificate_reported = case when certificate_expires_at = ${cells.certificate_expires_at}
        then certificate_reported end,
      disabled_reason = case when cast(${stream.status} as text) = 'enabled' then null
        when status = 'enabled' then 'by_hand' else disabled_reason end,
      disabled_since = case when cast(${stream.status} as text) = 'enabled' then null
        when status = 'enabled' then ${now} else disabled_since end,
      disabled_code = case when cast(${stream.status} as text) = 'enabled' then null
        when status = 'enabled' then (
          select last_error_code from runs where tenant = streams.tenant and stream = streams.id)
        else disabled_code end,
      -- A stream that is enabled far behind is warned about before it is disabled for that.
      lag_reported = case when cast(${stream.status} as text) <> status then 0
        else lag_reported end
    where tenant = ${stream.tenant} and id = ${stream.id}`;
}

/**
 * Deliveries are bounded by the limits of disabling; the history is not, so its entries stay, under
 * a key that is never used again, and are removed when they are old.
 */
function* remove(tenant: number, id: string): Command<boolean> {
  if ((yield* lockRun(tenant, id)) === undefined) return false;
  yield* leaveRedeliveries(tenant, id);
  yield* leaveDismissals(tenant, id);
  yield* together(
    sql.run`delete from deliveries ${byStream} where tenant = ${tenant} and stream = ${id}`,
    sql.run`delete from replays where tenant = ${tenant} and stream = ${id}`,
    removeSkipped(tenant, id),
    removePast(tenant, id),
    sql.run`delete from stream_stats where tenant = ${tenant} and stream = ${id}`,
    sql.run`delete from delivery_stats where tenant = ${tenant} and stream = ${id}`,
    sql.run`delete from runs where tenant = ${tenant} and stream = ${id}`,
    sql.run`delete from streams where tenant = ${tenant} and id = ${id}`,
  );
  return true;
}
