import type { Millis } from '../../core/clock.ts';
import type { HealthLimits } from '../../core/types.ts';
import { failWaiting } from '../directory/disabling.ts';
import type { Outcome } from '../port/settlement.ts';
import {
  applyOutcome,
  type BatchState,
  countEnd,
  type DeliveryRow,
  isEnabled,
  noteFailed,
} from '../rules/settlement.ts';
import { pausedFor } from '../rules/pause.ts';
import { storedCode } from '../rows/failures.ts';
import type { Run } from '../rows/runs.ts';
import { addAttempt } from './attempts.ts';
import type { Database } from './database.ts';
import { historySteps } from './run-steps.ts';
import { run as runCommand } from './commands.ts';

/** Records one outcome: its history, its row, and its effect on the counters. */
export function recordOutcome(
  db: Database,
  state: BatchState,
  outcome: Outcome,
  { limits, now }: { readonly limits: HealthLimits; readonly now: Millis },
): void {
  const { run } = state;
  const hasNoRow = outcome.result === 'delivered' && !outcome.hasRow;
  const before = hasNoRow ? undefined : readRow(db, run, outcome);
  const transition = applyOutcome(outcome, before, !isEnabled(state), now, pausedFor(run, now));
  const { history, row } = transition;
  noteFailed(state, transition, now);
  if (history !== undefined) addAttempt(db, run.key, outcome.event, history);
  if (row === 'removed') removeRow(db, run, outcome);
  else if (row !== 'unchanged') writeRow(db, run, outcome, row);
  if (countEnd(state, transition, limits)) {
    const present = { ...run, health: state.health };
    state.health = runCommand(db, failWaiting(historySteps, present, 'retrying', now));
  }
}

function readRow(
  db: Database,
  { tenant, stream }: Run,
  { event }: Outcome,
): Omit<DeliveryRow, 'dueAt'> | undefined {
  const row = db.get<StoredRow>`
    select kind, state, attempt, failed_at, cycle_at, error_code from deliveries
    where tenant = ${tenant} and stream = ${stream} and event_id = ${event.id}`;
  if (row === undefined) return undefined;
  const { kind, state, attempt, failed_at: failedAt, cycle_at: cycleAt } = row;
  return {
    kind,
    state,
    attempt,
    failedAt: failedAt ?? undefined,
    cycleAt: cycleAt ?? undefined,
    errorCode: storedCode(row.error_code),
  };
}

interface StoredRow extends Pick<DeliveryRow, 'kind' | 'state' | 'attempt'> {
  readonly failed_at: Millis | null;
  readonly cycle_at: Millis | null;
  readonly error_code: string;
}

function removeRow(db: Database, { tenant, stream }: Run, { event }: Outcome): void {
  db.run`
    delete from deliveries
    where tenant = ${tenant} and stream = ${stream} and event_id = ${event.id}`;
}

/**
 * Stores the body only where the log does not have the event: a test, or an event that was pruned
 * while the last attempts of a disabled stream were under way.
 */
function writeRow(
  db: Database,
  { tenant, stream }: Run,
  { event, orderKey }: Outcome,
  { kind, state, attempt, dueAt, failedAt, cycleAt, errorCode }: DeliveryRow,
): void {
  db.run`
    insert into deliveries (tenant, stream, event_id, offset, type, time, kind, state, attempt,
      due_at, failed_at, cycle_at, error_code, order_key, body, trace)
    select ${tenant}, ${stream}, ${event.id}, ${event.offset}, ${event.type},
      ${event.time}, ${kind}, ${state}, ${attempt}, ${dueAt}, ${failedAt}, ${cycleAt},
      ${errorCode ?? ''}, ${orderKey},
      iif(logged, null, ${event.body}), iif(logged, null, ${event.trace})
    from (select exists (
      select 1 from events where tenant = ${tenant} and offset = ${event.offset}) as logged)
    where true
    on conflict do update set state = excluded.state, attempt = excluded.attempt,
      due_at = excluded.due_at, failed_at = excluded.failed_at, cycle_at = excluded.cycle_at,
      error_code = excluded.error_code`;
}
