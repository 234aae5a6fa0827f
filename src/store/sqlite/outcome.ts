import type { Millis } from '../../core/clock.ts';
import { nextHealth, type HealthEvent } from '../../core/health.ts';
import type { DeliveryState, Health, HealthLimits } from '../../core/types.ts';
import type { Outcome } from '../port.ts';
import { addAttempt } from './attempts.ts';
import type { Database } from './database.ts';
import { failWaiting } from './disabling.ts';
import type { Run } from './runs.ts';

/** One stream while its outcomes are recorded, in memory until all of them are. */
export interface Tally {
  readonly db: Database;
  readonly run: Run;
  readonly limits: HealthLimits;
  readonly now: Millis;
  health: Health;
  delivered: number;
  failed: number;
  /** The limit by which these outcomes disabled the stream. */
  disabledBy: 'consecutive' | 'total' | undefined;
}

/** Records one outcome: its history, its row, and what it does to the counters. */
export function recordOutcome(tally: Tally, outcome: Outcome): void {
  if (outcome.result === 'delivered') return recordDelivered(tally, outcome);
  if (outcome.result === 'parked') {
    return keepRow(tally, outcome, 'parked', outcome.attempt, outcome.dueAt);
  }
  addHistory(tally, outcome, 'failed', outcome.error);
  if (outcome.result === 'failed' || isStopped(tally, outcome)) return recordFailed(tally, outcome);
  return keepRow(tally, outcome, 'retrying', outcome.attempt + 1, outcome.dueAt);
}

/** A disabled stream is sent redeliveries only: what else would be retried is over. */
function isStopped({ run, disabledBy }: Tally, outcome: Outcome): boolean {
  const enabled = run.status === 'enabled' && disabledBy === undefined;
  return !enabled && outcome.kind !== 'redelivery';
}

type Ended = Exclude<Outcome, { result: 'parked' }>;

function addHistory(
  { db, run }: Tally,
  outcome: Ended,
  result: 'delivered' | 'failed',
  error: string | undefined,
): void {
  const { at, durationMs, status } = outcome;
  addAttempt(db, run.key, outcome.event, { at, durationMs, outcome: result, status, error });
}

function recordDelivered(tally: Tally, outcome: Extract<Outcome, { result: 'delivered' }>): void {
  addHistory(tally, outcome, 'delivered', undefined);
  tally.delivered += 1;
  const wasOpen = outcome.hasRow && removeRow(tally, outcome);
  count(tally, { ended: 'delivered', wasOpen });
}

/** Answers whether the row was an open failure record. */
function removeRow({ db, run }: Tally, outcome: Outcome): boolean {
  const row = db.get<{ failed_at: Millis | null }>`
    delete from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and event_id = ${outcome.event.id}
    returning failed_at`;
  return typeof row?.failed_at === 'number';
}

function recordFailed(tally: Tally, outcome: Outcome): void {
  const row = rowOf(tally, outcome);
  if (isOver(row, outcome)) return;
  tally.failed += 1;
  writeRow(tally, outcome, { state: 'failed', attempt: outcome.attempt, dueAt: undefined });
  count(tally, { ended: 'failed', wasOpen: typeof row?.failed_at === 'number' });
}

function keepRow(
  tally: Tally,
  outcome: Outcome,
  state: DeliveryState,
  attempt: number,
  dueAt: Millis,
): void {
  if (isOver(rowOf(tally, outcome), outcome)) return;
  writeRow(tally, outcome, { state, attempt, dueAt });
}

interface Row {
  readonly state: DeliveryState;
  readonly failed_at: Millis | null;
}

function rowOf({ db, run }: Tally, outcome: Outcome): Row | undefined {
  return db.get<Row>`
    select state, failed_at from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and event_id = ${outcome.event.id}`;
}

/**
 * An event that was sent twice, because the lease of its row ended before its attempt did, may have
 * been delivered or become a failure by the other attempt: this one then is history only.
 */
function isOver(row: Row | undefined, outcome: Outcome): boolean {
  return row === undefined ? outcome.hasRow : row.state === 'failed';
}

/**
 * The body is kept where the log does not have the event: a test, or one that was pruned while a
 * disabled stream's last attempts were under way.
 */
function writeRow(
  { db, run, now }: Tally,
  { event, kind }: Outcome,
  { state, attempt, dueAt }: { state: DeliveryState; attempt: number; dueAt: Millis | undefined },
): void {
  const failedAt = state === 'failed' || kind === 'redelivery' ? now : undefined;
  db.run`
    insert into deliveries (tenant, stream, event_id, offset, type, time, kind, state, attempt,
      due_at, failed_at, body)
    values (${run.tenant}, ${run.stream}, ${event.id}, ${event.offset}, ${event.type},
      ${event.time}, ${kind}, ${state}, ${attempt}, ${dueAt}, ${failedAt},
      iif(exists (select 1 from events where tenant = ${run.tenant} and offset = ${event.offset}),
        null, ${event.body}))
    on conflict do update set state = excluded.state, attempt = excluded.attempt,
      due_at = excluded.due_at, failed_at = coalesce(failed_at, excluded.failed_at)`;
}

function count(tally: Tally, event: HealthEvent): void {
  const { health, reached } = nextHealth(tally.health, event, tally.limits);
  tally.health = health;
  const enabled = tally.run.status === 'enabled' && tally.disabledBy === undefined;
  if (reached === undefined || !enabled) return;
  tally.disabledBy = reached;
  tally.health = failWaiting(tally.db, { ...tally.run, health }, 'retrying', tally.now);
}
