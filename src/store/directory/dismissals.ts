import type { Millis } from '../../core/clock.ts';
import { type ErrorCode, errorCodeOf, isOfCodes } from '../../core/error-code.ts';
import { healthAfterDismissing } from '../../core/health.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { DeliveryState } from '../../core/types.ts';
import type {
  Dismissal,
  DismissalFilter,
  DismissalStore,
  FailureGroup,
  NewDismissal,
  StreamDismissal,
} from '../port/dismissals.ts';
import type { Hint } from '../port/hints.ts';
import type { StepQuery } from '../port/upkeep.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import { splitForDismissal } from '../rules/dismissal.ts';
import { type Command, type Commands, sql, together } from './command.ts';
import { oneOf } from './dialect.ts';
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
      const groups = new Map<ErrorCode | undefined, FailureGroup>();
      for await (const failures of matching(deps, tenant, stream, filter, true)) {
        for (const failure of failures) addTo(groups, stream, failure);
      }
      return [...groups.values()];
    },
    dismiss: async (tenant, stream, filter) => {
      const all = { dismissed: 0, redelivering: 0, above: 0 };
      const reads = filter.codes !== undefined;
      for await (const failures of matching(deps, tenant, stream, filter, reads)) {
        const ids = failures.map(({ row }) => row.event_id);
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
interface Matching {
  readonly row: FailureRow;
  /** Of its last failed attempt, if that was read and is known. */
  readonly code: ErrorCode | undefined;
  readonly error: string | undefined;
}

/**
 * Yields the open failures of a stream that match, oldest first, some at a time, and other work runs in
 * between. Those that are opened after the first read are left out.
 */
async function* matching(
  { commands: { read }, failures }: DismissalDeps,
  tenant: number,
  stream: string,
  filter: DismissalFilter,
  readsAttempts: boolean,
): AsyncGenerator<readonly Matching[], void> {
  const before = Math.min(filter.failedTo ?? Infinity, 1 + (await read(newestOf(tenant, stream))));
  let after = { failed_at: filter.failedFrom ?? 0, event_id: '' };
  for (;;) {
    const rows = await read(
      rowsAfter(tenant, stream, { ...filter, failedTo: before }, after, failures),
    );
    const last = readsAttempts ? await failures.lastFailed(rows) : [];
    const found = rows.map((row, index): Matching => {
      const attempt = last[index];
      return { row, code: attempt && errorCodeOf(attempt), error: attempt?.error };
    });
    const { codes } = filter;
    const wanted =
      codes === undefined ? found : found.filter(({ code }) => code && isOfCodes(code, codes));
    if (wanted.length > 0) yield wanted;
    const end = rows.at(-1);
    if (end === undefined || rows.length < stepMax) return;
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
  { types, from, to, eventIds, failedTo }: DismissalFilter,
  after: Pick<FailureRow, 'failed_at' | 'event_id'>,
  { columns }: FailureReader,
): Command<readonly FailureRow[]> {
  return yield* sql.all<FailureRow>`
    select ${rowColumns} ${columns}
    from deliveries d
    where d.tenant = ${tenant} and d.stream = ${stream} and d.failed_at is not null
      and (d.failed_at, d.event_id) > (${after.failed_at}, ${after.event_id})
      and d.failed_at < ${failedTo}
      and (${types === undefined} or d.type ${oneOf(types ?? [])})
      and (${eventIds === undefined} or d.event_id ${oneOf(eventIds ?? [])})
      and d.time >= ${from ?? Number.MIN_SAFE_INTEGER} and d.time < ${to ?? Number.MAX_SAFE_INTEGER}
    order by d.failed_at, d.event_id limit ${stepMax}`;
}

function addTo(
  groups: Map<ErrorCode | undefined, FailureGroup>,
  stream: string,
  { row, code, error }: Matching,
): void {
  const sample = { eventId: row.event_id, eventType: row.type, error };
  const { count, firstFailedAt } = groups.get(code) ?? { count: 0, firstFailedAt: row.failed_at };
  const lastFailedAt = row.failed_at;
  groups.set(code, { stream, code, count: count + 1, firstFailedAt, lastFailedAt, sample });
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
