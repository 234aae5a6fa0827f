import type { Millis } from '../../core/clock.ts';
import type { HealthLimits } from '../../core/types.ts';
import type { Outcome } from '../port/settlement.ts';
import {
  countEnd,
  applyOutcome,
  type RowAfter,
  type RowBefore,
  type Counters,
} from '../rules/settlement.ts';
import type { Run } from '../rows/runs.ts';
import { addAttempt } from './attempts.ts';
import type { Database } from './database.ts';
import { failWaiting } from './disabling.ts';

/** One stream while its outcomes are recorded, in memory until all of them are. */
export interface BatchState {
  readonly db: Database;
  readonly run: Run;
  readonly limits: HealthLimits;
  readonly now: Millis;
  readonly counters: Counters;
}

/** Records one outcome: its history, its row, and what it does to the counters. */
export function recordOutcome(batchState: BatchState, outcome: Outcome): void {
  const { db, run, counters } = batchState;
  const enabled = run.status === 'enabled' && counters.disabledBy === undefined;
  const hasNoRow = outcome.result === 'delivered' && !outcome.hasRow;
  const before = hasNoRow ? undefined : rowOf(batchState, outcome);
  const { history, row, ended, replayed } = applyOutcome(outcome, before, !enabled, batchState.now);
  if (replayed !== undefined) counters.replayed[replayed] += 1;
  if (history !== undefined) addAttempt(db, run.key, outcome.event, history);
  if (row === 'gone') removeRow(batchState, outcome);
  else if (row !== 'as it was') writeRow(batchState, outcome, row);
  if (ended !== undefined && countEnd(counters, ended, batchState.limits, enabled)) {
    counters.health = failWaiting(
      db,
      { ...run, health: counters.health },
      'retrying',
      batchState.now,
    );
  }
}

function rowOf({ db, run }: BatchState, outcome: Outcome): RowBefore | undefined {
  const row = db.get<Omit<RowBefore, 'failedAt'> & { failed_at: Millis | null }>`
    select kind, state, failed_at from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and event_id = ${outcome.event.id}`;
  return row && { kind: row.kind, state: row.state, failedAt: row.failed_at ?? undefined };
}

function removeRow({ db, run }: BatchState, outcome: Outcome): void {
  db.run`
    delete from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and event_id = ${outcome.event.id}`;
}

/**
 * The body is kept where the log does not have the event: a test, or one that was pruned while a
 * disabled stream's last attempts were under way.
 */
function writeRow(
  { db, run }: BatchState,
  { event, kind }: Outcome,
  { state, attempt, dueAt, failedAt }: RowAfter,
): void {
  db.run`
    insert into deliveries (tenant, stream, event_id, offset, type, time, kind, state, attempt,
      due_at, failed_at, body, trace)
    select ${run.tenant}, ${run.stream}, ${event.id}, ${event.offset}, ${event.type},
      ${event.time}, ${kind}, ${state}, ${attempt}, ${dueAt}, ${failedAt},
      iif(logged, null, ${event.body}), iif(logged, null, ${event.trace})
    from (select exists (
      select 1 from events where tenant = ${run.tenant} and offset = ${event.offset}) as logged)
    where true
    on conflict do update set state = excluded.state, attempt = excluded.attempt,
      due_at = excluded.due_at, failed_at = excluded.failed_at`;
}
