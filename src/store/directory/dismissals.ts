import type { Millis } from '../../core/clock.ts';
import { healthAfterDismissing } from '../../core/health.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { DeliveryState } from '../../core/types.ts';
import type {
  Dismissal,
  DismissalStore,
  NewDismissal,
  StreamDismissal,
} from '../port/dismissals.ts';
import type { FailureGroup, FailureSelection } from '../port/failures.ts';
import type { Hint } from '../port/hints.ts';
import type { StepQuery } from '../port/upkeep.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import { storedCode } from '../rows/failures.ts';
import { splitForDismissal } from '../rules/dismissal.ts';
import { type Command, type Commands, sql, together } from './command.ts';
import { oneOf } from './dialect.ts';
import { selects } from './failure-selection.ts';
import { type FailureReader, type FailureRow, rowColumns } from './failures.ts';
import { horizonOf } from './horizon.ts';
import { noteDismissed } from './past-selections.ts';
import type { Targeted } from './recording.ts';
import type { Runs } from './runs.ts';
import { requireVersion, type VersionDeps } from './versions.ts';

export interface DismissalDeps extends VersionDeps {
  readonly commands: Commands;
  readonly runs: Runs;
  readonly failures: FailureReader;
  readonly hint: (hint: Hint) => void;
}

/** The number of the migration `dismissals`: programs without it cannot read `dismissed` entries. */
const dismissalVersion = 27;

/** Failures that are read, and dismissed, at once: some milliseconds. */
const stepMax = 500;

/** Creates the store of dismissals. */
export function createDismissalStore(deps: DismissalDeps): DismissalStore {
  const { read, transact } = deps.commands;
  return {
    streams: (tenant, among) => read(streamsWithFailures(tenant, among)),
    groups: async (tenant, stream, filter) => {
      const groups = new Map<string, CountedGroup>();
      for await (const rows of matching(deps, tenant, stream, filter)) {
        for (const row of rows) addTo(groups, row);
      }
      return withErrors(deps, [...groups.values()]);
    },
    dismiss: async (tenant, stream, filter) => {
      const all = { dismissed: 0, redelivering: 0, above: 0 };
      for await (const rows of matching(deps, tenant, stream, filter)) {
        const ids = rows.map((row) => row.event_id);
        const isFirst = all.dismissed === 0;
        const step = await transact('durable', () =>
          dismissStep(deps, { tenant, stream, ids, isFirst }),
        );
        if ('refused' in step) return { refused: step.refused };
        all.dismissed += step.dismissed;
        all.redelivering += step.redelivering;
        all.above += step.above;
      }
      if (all.dismissed > 0) deps.hint({ kind: 'stream', tenant, stream });
      return all;
    },
    add: (result) => transact('durable', () => add(deps.runs, result)),
    get: (tenant, id) => read(get(tenant, id)),
    prune: (query) => transact('relaxed', () => prune(query)),
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
  { commands: { read }, failures }: DismissalDeps,
  tenant: number,
  stream: string,
  selection: FailureSelection,
): AsyncGenerator<readonly MatchingRow[], void> {
  const newest = 1 + (await read(newestOf(tenant, stream)));
  const failedTo = Math.min(selection.failedTo ?? Infinity, newest);
  let after = { failed_at: selection.failedFrom ?? 0, event_id: '' };
  for (;;) {
    const present = { ...selection, failedTo };
    const rows = await read(rowsAfter(tenant, stream, present, after, failures));
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
    sample: { eventId: newest.event_id, eventType: newest.type, error: errors[index]?.error },
  }));
}

type Step = Targeted & (StreamDismissal | { readonly refused: 'older_nodes' });

/** Dismisses failures of one stream; the first step that does records the entry of the audit log. */
function* dismissStep(
  deps: DismissalDeps,
  request: {
    readonly tenant: number;
    readonly stream: string;
    readonly ids: readonly string[];
    readonly isFirst: boolean;
  },
): Command<Step> {
  const { runs } = deps;
  const { tenant, stream, ids } = request;
  const [run, now] = yield* together(runs.lock(tenant, stream), runs.now());
  if (run === undefined) return { targets: [], dismissed: 0, redelivering: 0, above: 0 };
  if (!(yield* requireVersion(deps, dismissalVersion))) {
    return { targets: [], refused: 'older_nodes' };
  }
  const open = yield* sql.all<HistoryEvent & { state: DeliveryState }>`
    select event_id as id, "offset", state from deliveries
    where tenant = ${tenant} and stream = ${stream} and event_id ${oneOf(ids)}
      and failed_at is not null`;
  const { dismissed, ...left } = splitForDismissal(open, run.cursor);
  const counts = { dismissed: dismissed.length, ...left };
  if (dismissed.length === 0) return { targets: [], ...counts };
  const entry = { at: now, durationMs: 0, outcome: 'dismissed' } as const;
  yield* together(
    sql.run`
      delete from deliveries
      where tenant = ${tenant} and stream = ${stream} and event_id ${oneOf(dismissed.map(({ id }) => id))}`,
    runs.addEntries(run, dismissed, { ...entry, status: undefined, error: undefined }),
    noteDismissed(tenant, stream, dismissed),
    runs.write({ ...run, health: healthAfterDismissing(run.health, dismissed.length) }),
    // Its owner may hold events back because of them.
    runs.noteChange(run),
  );
  return { targets: request.isFirst ? [stream] : [], ...counts };
}

function* add(runs: Runs, result: NewDismissal): Command<Dismissal> {
  const { tenant, id, dismissed, skipped, createdBy } = result;
  const createdAt = yield* runs.now();
  yield* sql.run`
    insert into dismissals (tenant, id, dismissed, skipped, created_at, created_by)
    values (${tenant}, ${id}, ${dismissed}, ${skipped}, ${createdAt}, ${createdBy})`;
  return { ...result, createdAt };
}

function* get(tenant: number, id: string): Command<Dismissal | undefined> {
  const row = yield* sql.get<Dismissal>`
    select tenant, id, dismissed, skipped, created_at as "createdAt", created_by as "createdBy"
    from dismissals where tenant = ${tenant} and id = ${id}`;
  return row && { ...row };
}

function* prune({ olderThanMs, take }: StepQuery): Command<number> {
  const before = yield* horizonOf(olderThanMs);
  return yield* sql.run`
    delete from dismissals where (tenant, id) in (
      select tenant, id from dismissals
      where created_at < ${before}
      order by created_at limit ${take})`;
}
