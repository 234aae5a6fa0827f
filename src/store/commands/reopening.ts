import type { Offset, StreamStatus } from '../../core/types.ts';
import { dayMs } from '../../core/units.ts';
import type { Reopened } from '../port/dismissals.ts';
import type { StepResult } from '../port/failure-work.ts';
import type { Run } from '../rows/runs.ts';
import { type Command, engine, sql, together } from './command.ts';
import { forUpdate, oneOf, oneOfNumbers, postgresOnly } from './dialect.ts';
import { endOf } from './history.ts';
import { dayHorizonOf } from './horizon.ts';
import type { Targeted } from './recording.ts';
import { lockRun, noteChanges, oldestAfter } from './runs.ts';

/** A dismissal. */
interface DismissalKey {
  readonly tenant: number;
  readonly id: string;
}

/** Failures of a step: each is looked up in the history. */
const stepMax = 100;

/** Streams that an entry of the audit log names. */
const targetsMax = 1000;

/**
 * Begins to open what a dismissal closed. Nothing changes where an enabled stream would have `below` open
 * failures; `undefined` for an unknown dismissal.
 */
export function* beginReopening(
  { tenant, id }: DismissalKey,
  below: number,
): Command<Targeted | Exclude<Reopened, 'accepted' | 'unknown'> | undefined> {
  const row = yield* sql.get<{ work: string }>`
    select work from dismissals where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  if (row === undefined) return undefined;
  if (row.work !== 'none') return { refused: 'running' };
  const streams = yield* sql.all<{
    stream: string;
    total: number;
    status: StreamStatus | null;
  }>`
    select d.stream, cast(coalesce(max(r.total_failures), 0) + count(*) as bigint) as total,
      max(s.status) as status
    from dismissed_events d
    left join runs r on r.tenant = d.tenant and r.stream = d.stream
    left join streams s on s.tenant = d.tenant and s.id = d.stream
    where d.tenant = ${tenant} and d.dismissal = ${id} group by d.stream order by d.stream`;
  const full = streams.find(({ total, status }) => status === 'enabled' && total >= below);
  if (full !== undefined) return { refused: 'too_many_failures', stream: full.stream };
  yield* sql.run`
    update dismissals set reopen_below = ${below} where tenant = ${tenant} and id = ${id}`;
  return { targets: [id, ...streams.slice(0, targetsMax).map(({ stream }) => stream)] };
}

interface ClosedRow {
  readonly stream: string;
  readonly offset: Offset;
  readonly id: string;
}

interface Stepped {
  readonly result: StepResult;
  /** A stream whose owner has to learn of the step. */
  readonly stream?: string;
}

/** Returns whether failures of a dismissal are being opened again. */
export function* isReopening({ tenant, id }: DismissalKey): Command<boolean> {
  const row = yield* sql.get<{ id: string }>`
    select id from dismissals
    where tenant = ${tenant} and id = ${id} and reopen_below is not null`;
  return row !== undefined;
}

/** More than a step takes. */
const dayEndMs = 60_000;

/** Opens some failures of one stream again. The history stays for `historyMs`. */
export function* stepReopening({ tenant, id }: DismissalKey, historyMs: number): Command<Stepped> {
  const row = yield* sql.get<{ below: number | null }>`
    select reopen_below as below from dismissals
    where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  const below = row?.below ?? undefined;
  // Another caller was faster.
  if (below === undefined) return { result: 'done' };
  const rows = yield* sql.all<ClosedRow>`
    select stream, "offset", event_id as id from dismissed_events
    where tenant = ${tenant} and dismissal = ${id} order by stream, "offset" limit ${stepMax + 1}`;
  const [first] = rows;
  const own = rows.slice(0, stepMax).filter((each) => each.stream === first?.stream);
  // The end belongs to the step that opens the last one: a process may crash after it.
  const isEnd = own.length === rows.length;
  if (isEnd) {
    yield* sql.run`
      update dismissals set reopen_below = null where tenant = ${tenant} and id = ${id}`;
  }
  if (first === undefined) return { result: 'done' };
  const { stream } = first;
  const offsets = own.map(({ offset }) => offset);
  const run = yield* lockRun(tenant, stream);
  // Upkeep may have passed the open failures, and be about to remove the days of these; the day that ends
  // during the step is one of them. What is gone by now is not seen as dismissed below.
  const before = yield* dayHorizonOf(historyMs - dayEndMs);
  if (run !== undefined) yield* engine.keepEntries(run, offsets, before);
  const open = run === undefined ? [] : yield* toOpen(run, own, below);
  if (run !== undefined && open.length > 0) yield* openAgain(run, id, open);
  // What is not opened stays dismissed.
  yield* sql.run`
    update dismissed_events set dismissal = null
    where tenant = ${tenant} and stream = ${stream} and dismissal = ${id}
      and "offset" ${oneOfNumbers(offsets)}`;
  return { result: isEnd ? 'done' : 'more', stream };
}

/**
 * Returns those that are as the dismissal left them, of events that the log still has, as far as an enabled
 * stream may have open failures: a replay may have delivered one, or made it a failure again.
 */
function* toOpen(
  run: Run,
  rows: readonly ClosedRow[],
  below: number,
): Command<readonly ClosedRow[]> {
  const { tenant, stream, health, status } = run;
  const openMax = status === 'enabled' ? below - 1 - health.total : Infinity;
  const [oldest, present] = yield* together(
    oldestAfter(tenant, 0),
    sql.all<{ id: string }>`
      select event_id as id from deliveries
      where tenant = ${tenant} and stream = ${stream} and event_id ${oneOf(rows.map(({ id }) => id))}`,
  );
  const known = new Set(present.map(({ id }) => id));
  const open: ClosedRow[] = [];
  for (const row of rows) {
    if (open.length >= openMax) break;
    if (row.offset < oldest || known.has(row.id)) continue;
    if ((yield* endOf(run, row.id)) === 'dismissed') open.push(row);
  }
  return open;
}

/** Gives failures their rows again. One that was ordered by a key does not hold others back any more. */
function* openAgain(run: Run, id: string, open: readonly ClosedRow[]): Command<void> {
  const { tenant, stream, health } = run;
  const offsets = open.map(({ offset }) => offset);
  const dayColumn = postgresOnly`, event_day`;
  const dayOfEvent = postgresOnly`, (
    select e.published_at / ${dayMs} from events e
    where e.tenant = d.tenant and e."offset" = d."offset" limit 1)`;
  yield* sql.run`
    insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
      failed_at, error_code ${dayColumn})
    select d.tenant, d.stream, d.event_id, d."offset", d.type, d.time, d.kind, 'failed', d.attempt,
      d.failed_at, d.error_code ${dayOfEvent}
    from dismissed_events d
    where d.tenant = ${tenant} and d.stream = ${stream} and d."offset" ${oneOfNumbers(offsets)}`;
  yield* together(
    sql.run`
      delete from dismissed_events
      where tenant = ${tenant} and stream = ${stream} and "offset" ${oneOfNumbers(offsets)}`,
    engine.writeRuns([{ ...run, health: { ...health, total: health.total + open.length } }]),
    noteChanges([run]),
    sql.run`
      update dismissal_streams set reopened = reopened + ${open.length}
      where tenant = ${tenant} and id = ${id} and stream = ${stream}`,
  );
}
