import type { Millis } from '../../core/clock.ts';
import type { HealthLimits } from '../../core/types.ts';
import type { Outcome } from '../port/settlement.ts';
import { countEnd, judge, type RowAfter, type RowBefore, type Score } from '../rules/settlement.ts';
import type { Run } from '../rows/runs.ts';
import { addAttempt } from './attempts.ts';
import type { Database } from './database.ts';
import { failWaiting } from './disabling.ts';

/** One stream while its outcomes are recorded, in memory until all of them are. */
export interface Tally {
  readonly db: Database;
  readonly run: Run;
  readonly limits: HealthLimits;
  readonly now: Millis;
  readonly score: Score;
}

/** Records one outcome: its history, its row, and what it does to the counters. */
export function recordOutcome(tally: Tally, outcome: Outcome): void {
  const { db, run, score } = tally;
  const enabled = run.status === 'enabled' && score.disabledBy === undefined;
  const hasNoRow = outcome.result === 'delivered' && !outcome.hasRow;
  const before = hasNoRow ? undefined : rowOf(tally, outcome);
  const { history, row, ended, replayed } = judge(outcome, before, !enabled, tally.now);
  if (replayed !== undefined) score.replayed[replayed] += 1;
  if (history !== undefined) addAttempt(db, run.key, outcome.event, history);
  if (row === 'gone') removeRow(tally, outcome);
  else if (row !== 'as it was') writeRow(tally, outcome, row);
  if (ended !== undefined && countEnd(score, ended, tally.limits, enabled)) {
    score.health = failWaiting(db, { ...run, health: score.health }, 'retrying', tally.now);
  }
}

function rowOf({ db, run }: Tally, outcome: Outcome): RowBefore | undefined {
  const row = db.get<Omit<RowBefore, 'failedAt'> & { failed_at: Millis | null }>`
    select kind, state, failed_at from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and event_id = ${outcome.event.id}`;
  return row && { kind: row.kind, state: row.state, failedAt: row.failed_at ?? undefined };
}

function removeRow({ db, run }: Tally, outcome: Outcome): void {
  db.run`
    delete from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and event_id = ${outcome.event.id}`;
}

/**
 * The body is kept where the log does not have the event: a test, or one that was pruned while a
 * disabled stream's last attempts were under way.
 */
function writeRow(
  { db, run }: Tally,
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
