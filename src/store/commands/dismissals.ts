import type { Millis } from '../../core/clock.ts';
import { healthAfterDismissing } from '../../core/health.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { Dismissal, DismissalStore } from '../port/dismissals.ts';
import type { FailureGroup, FailureSelection } from '../port/failures.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import { storedCode } from '../rows/failures.ts';
import type { Run } from '../rows/runs.ts';
import { firstToWaitFor, splitForDismissal } from '../rules/dismissal.ts';
import { type Command, engine, sql, type Statement, together } from './command.ts';
import { oneOf, verbatim } from './dialect.ts';
import { stepMax } from './failure-counts.ts';
import { selects } from './failure-selection.ts';
import {
  createFailureWork,
  leaveWork,
  type WorkDeps,
  type WorkKind,
  type WorkStep,
} from './failure-work.ts';
import { type FailureReader, type FailureRow, rowColumns } from './failures.ts';
import { noteDismissed } from './past-selections.ts';
import { beginReopening, isReopening, stepReopening } from './reopening.ts';
import { noteChanges } from './runs.ts';

export interface DismissalDeps extends WorkDeps {
  readonly failures: FailureReader;
}

/** Creates the store of dismissals. */
export function createDismissalStore(deps: DismissalDeps): DismissalStore {
  const { on } = deps;
  const { read, transact } = on.commands;
  const work = createFailureWork(deps, kind);
  return {
    ...work,
    reopen: async (tenant, id, below) => {
      const result = await transact('durable', () => beginReopening({ tenant, id }, below));
      if (result === undefined) return 'unknown';
      return 'refused' in result ? result : 'accepted';
    },
    step: async (tenant, id, historyMs) => {
      const key = { tenant, id };
      if (!(await read(isReopening(key)))) return work.step(tenant, id, historyMs);
      const { result, stream } = await transact('durable', () => stepReopening(key, historyMs));
      if (stream !== undefined) deps.hint({ kind: 'stream', tenant, stream });
      return result;
    },
    streams: (tenant, among) => on.lists.read(streamsWithFailures(tenant, among)),
    groups: (tenant, stream, filter) =>
      on.lists.bounded(async () => {
        const groups = new Map<string, CountedGroup>();
        for await (const rows of matching(deps, tenant, stream, filter)) {
          for (const row of rows) addTo(groups, row);
        }
        return withErrors(deps, [...groups.values()]);
      }),
    get: (tenant, id) => read(get(tenant, id)),
  };
}

function* streamsWithFailures(
  tenant: number,
  among: readonly string[] | undefined,
): Command<string[]> {
  const rows = yield* sql.all<{ stream: string }>`
    select stream from runs
    where tenant = ${tenant} and total_failures > 0
      and (${among === undefined} or stream ${oneOf(among ?? [])})
    order by stream`;
  return rows.map(({ stream }) => stream);
}

/** An open failure that matches. */
type MatchingRow = FailureRow & { readonly error_code: string };

/**
 * Yields the open failures of a stream that match, oldest first, some at a time, and other work runs in
 * between. Those that are opened after the first read are left out.
 */
async function* matching(
  { on: { lists }, failures }: DismissalDeps,
  tenant: number,
  stream: string,
  selection: FailureSelection,
): AsyncGenerator<readonly MatchingRow[], void> {
  const newest = 1 + (await lists.read(newestOf(tenant, stream)));
  const failedTo = Math.min(selection.failedTo ?? Infinity, newest);
  let after = { failed_at: selection.failedFrom ?? 0, event_id: '' };
  for (;;) {
    const present = { ...selection, failedTo };
    const rows = await lists.read(rowsAfter(tenant, stream, present, after, failures));
    const end = rows.at(-1);
    if (end === undefined) return;
    yield rows;
    if (rows.length < stepMax) return;
    after = end;
    // A synchronous engine does not yield by itself.
    await yieldToEventLoop();
  }
}

/** Returns when the newest open failure was opened; the clock may have been set back since. */
function* newestOf(tenant: number, stream: string): Command<Millis> {
  const row = yield* sql.get<{ newest: Millis | null }>`
    select max(failed_at) as newest from deliveries
    where tenant = ${tenant} and stream = ${stream} and failed_at is not null`;
  return row?.newest ?? 0;
}

function* rowsAfter(
  tenant: number,
  stream: string,
  selection: FailureSelection,
  after: Pick<FailureRow, 'failed_at' | 'event_id'>,
  { columns }: FailureReader,
): Command<readonly MatchingRow[]> {
  return yield* sql.all<MatchingRow>`
    select ${rowColumns} ${columns}, d.error_code
    from deliveries d
    where d.tenant = ${tenant} and d.stream = ${stream} and d.failed_at is not null
      and (d.failed_at, d.event_id) > (${after.failed_at}, ${after.event_id})
      and ${selects(selection)}
    order by d.failed_at, d.event_id limit ${stepMax}`;
}

interface CountedGroup {
  readonly count: number;
  readonly firstFailedAt: Millis;
  readonly newest: MatchingRow;
}

function addTo(groups: Map<string, CountedGroup>, row: MatchingRow): void {
  const { count, firstFailedAt } = groups.get(row.error_code) ?? {
    count: 0,
    firstFailedAt: row.failed_at,
  };
  groups.set(row.error_code, { count: count + 1, firstFailedAt, newest: row });
}

async function withErrors(
  { failures }: DismissalDeps,
  groups: readonly CountedGroup[],
): Promise<FailureGroup[]> {
  const errors = await failures.lastFailed(groups.map(({ newest }) => newest));
  return groups.map(({ count, firstFailedAt, newest }, index) => ({
    stream: newest.stream,
    code: storedCode(newest.error_code),
    count,
    firstFailedAt,
    lastFailedAt: newest.failed_at,
    lastAttemptAt: undefined,
    sample: { eventId: newest.event_id, eventType: newest.type, error: errors[index]?.error },
  }));
}

const tables = {
  requests: verbatim('dismissals'),
  streams: verbatim('dismissal_streams'),
  zeros: { columns: verbatim(', dismissed, skipped'), values: verbatim(', 0, 0') },
  ended: verbatim('dismissed'),
  hasMore: verbatim('reopen_below is not null'),
} as const;

const kind: WorkKind = {
  ...tables,
  *act(run, failures, step) {
    const waitsFor = firstToWaitFor(failures, run.cursor, step);
    const ready = waitsFor < 0 ? failures : failures.slice(0, waitsFor);
    const { dismissed, skipped } = splitForDismissal(ready, run.cursor);
    if (dismissed.length > 0) yield* close(run, dismissed, step);
    return { begun: dismissed.length, skipped, waitsFor };
  },
};

/** Closes failures of a stream. */
function* close(
  run: Run,
  dismissed: readonly HistoryEvent[],
  { id, now }: Pick<WorkStep, 'id' | 'now'>,
): Command<void> {
  const { tenant, stream } = run;
  const entry = { at: now, durationMs: 0, outcome: 'dismissed' } as const;
  const ids = dismissed.map((one) => one.id);
  yield* noteDismissed(tenant, stream, { dismissal: id, ids });
  yield* together(
    sql.run`
      delete from deliveries
      where tenant = ${tenant} and stream = ${stream} and event_id ${oneOf(ids)}`,
    engine.addEntries(run, dismissed, { ...entry, status: undefined, error: undefined }),
    engine.writeRuns([{ ...run, health: healthAfterDismissing(run.health, dismissed.length) }]),
    // Its owner may hold events back because of them.
    noteChanges([run]),
    sql.run`
      update dismissal_streams set dismissed = dismissed + ${dismissed.length}
      where tenant = ${tenant} and id = ${id} and stream = ${stream}`,
  );
}

interface ShownRow extends Pick<Dismissal, 'id' | 'total' | 'dismissed' | 'skipped' | 'reopened'> {
  readonly reopen_below: number | null;
  readonly work: 'taking' | 'none';
  readonly at_least: number;
  readonly created_at: Millis;
  readonly created_by: string;
}

/** Reads a request with its progress; the row itself has that of versions before the baseline. */
function* get(tenant: number, id: string): Command<Dismissal | undefined> {
  const row = yield* sql.get<ShownRow>`
    select r.id, r.work, r.reopen_below, r.at_least, r.created_at, r.created_by,
      cast(r.dismissed + r.skipped + coalesce(sum(s.total), 0) as bigint) as total,
      cast(r.dismissed + coalesce(sum(s.dismissed), 0) as bigint) as dismissed,
      cast(r.skipped + coalesce(sum(s.skipped), 0) as bigint) as skipped,
      cast(coalesce(sum(s.reopened), 0) as bigint) as reopened
    from dismissals r
    left join dismissal_streams s on s.tenant = r.tenant and s.id = r.id
    where r.tenant = ${tenant} and r.id = ${id}
    group by r.id, r.work, r.reopen_below, r.at_least, r.created_at, r.created_by, r.dismissed, r.skipped`;
  if (row === undefined) return undefined;
  const { total, dismissed, skipped, reopened } = row;
  const { created_at: createdAt, created_by: createdBy } = row;
  const status = row.work === 'none' && row.reopen_below === null ? 'done' : 'running';
  const isAtLeast = row.at_least === 1 && row.work !== 'none';
  return { id, status, total, dismissed, skipped, reopened, isAtLeast, createdAt, createdBy };
}

/** Counts what a stream has left of dismissals as skipped, before its deliveries are removed. */
export function leaveDismissals(tenant: number, stream: string): Statement<number> {
  return leaveWork(tables, { tenant, stream });
}
