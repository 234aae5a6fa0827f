import type { Millis } from '../../../core/clock.ts';
import type { DeliveredEvent, HealthLimits } from '../../../core/types.ts';
import { failWaiting } from '../../commands/disabling.ts';
import type { Outcome } from '../../port/settlement.ts';
import {
  applyOutcome,
  type BatchState,
  countEnd,
  type DeliveryRow,
  isEnabled,
  noteAttempt,
  type Transition,
} from '../../rules/settlement.ts';
import { pausedFor } from '../../rules/pause.ts';
import { storedCode } from '../../rows/failures.ts';
import type { Run } from '../../rows/runs.ts';
import { addAttempt } from './attempts.ts';
import type { Database } from './database.ts';
import { run as runCommand } from './commands.ts';

/** What an outcome depends on besides its stream. */
export interface OutcomeRules {
  readonly limits: HealthLimits;
  readonly now: Millis;
  /** Returns whether the log has the event. */
  readonly isLogged: (event: DeliveredEvent) => boolean;
}

/** Records one outcome: its history, its row, and its effect on the counters. */
export function recordOutcome(
  db: Database,
  state: BatchState,
  outcome: Outcome,
  rules: OutcomeRules,
): void {
  const { limits, now } = rules;
  const { run } = state;
  const transition = writeTransition(db, state, outcome, rules);
  noteAttempt(state, outcome, transition, now);
  const { history } = transition;
  if (history !== undefined) addAttempt(db, run.key, outcome.event, history);
  if (countEnd(state, outcome, transition, limits)) {
    const present = { ...run, health: state.health };
    state.health = runCommand(db, failWaiting(present, 'retrying', now));
  }
}

/**
 * Writes the row of an outcome. Most failures have none yet: they are inserted without a search for it,
 * and only where that finds one, the outcome is applied to it.
 */
function writeTransition(
  db: Database,
  state: BatchState,
  outcome: Outcome,
  rules: OutcomeRules,
): Transition {
  const { now } = rules;
  const { run } = state;
  const apply = (row: Omit<DeliveryRow, 'dueAt'> | undefined): Transition =>
    applyOutcome(outcome, row, !isEnabled(state), now, pausedFor(run, now));
  if (!outcome.hasRow) {
    const transition = apply(undefined);
    const { row } = transition;
    if (row === 'unchanged' || row === 'removed') return transition;
    if (addRow(db, run, outcome, row, rules)) return transition;
  }
  const before = readRow(db, run, outcome);
  const transition = apply(before);
  const { row } = transition;
  if (row === 'removed') removeRow(db, run, outcome);
  else if (row !== 'unchanged') {
    if (before === undefined) addRow(db, run, outcome, row, rules);
    else changeRow(db, run, outcome, row);
  }
  return transition;
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
 * Adds a row, and returns false if the event has one. Stores the body only where the log does not have
 * the event: a test, or an event that was pruned while the last attempts of a disabled stream were under
 * way.
 *
 * With `or fail` and without functions, as those of the triggers: otherwise SQLite copies each page that
 * the statement changes, which costs more than the rest of it. The transaction is rolled back anyway. With
 * `values`: the result of a `select` would be written to a table in memory first, because of the triggers.
 */
function addRow(
  db: Database,
  { tenant, stream }: Run,
  { event, orderKey }: Outcome,
  { kind, state, attempt, dueAt, failedAt, cycleAt, errorCode }: DeliveryRow,
  { isLogged }: OutcomeRules,
): boolean {
  const { body, trace } = isLogged(event) ? noContent : event;
  const added = db.run`
    insert or fail into deliveries (tenant, stream, event_id, offset, type, time, kind, state, attempt,
      due_at, failed_at, cycle_at, error_code, order_key, body, trace)
    values (${tenant}, ${stream}, ${event.id}, ${event.offset}, ${event.type},
      ${event.time}, ${kind}, ${state}, ${attempt}, ${dueAt}, ${failedAt}, ${cycleAt},
      ${errorCode ?? ''}, ${orderKey}, ${body}, ${trace})
    on conflict do nothing`;
  return added === 1;
}

const noContent = { body: undefined, trace: undefined };

/** Changes a row in the way of {@link addRow}. */
function changeRow(
  db: Database,
  { tenant, stream }: Run,
  { event }: Outcome,
  { state, attempt, dueAt, failedAt, cycleAt, errorCode }: DeliveryRow,
): void {
  db.run`
    update or fail deliveries set state = ${state}, attempt = ${attempt}, due_at = ${dueAt},
      failed_at = ${failedAt}, cycle_at = ${cycleAt}, error_code = ${errorCode ?? ''}
    where tenant = ${tenant} and stream = ${stream} and event_id = ${event.id}`;
}
