import type { DatabaseSync } from 'node:sqlite';
import type { Attempt } from '../../core/types.ts';
import type { Database } from './database.ts';
import {
  attemptOf,
  type AttemptRow,
  eventKeyOf,
  type HistoryEvent,
  outcomeCodes,
  shownMax,
  testKeyOf,
} from '../rows/attempts.ts';

/** Adds one entry to a history: the only statement that an ordinary delivery costs. */
export function addAttempt(
  db: Database,
  streamKey: number,
  event: HistoryEvent,
  attempt: Attempt,
): void {
  const { at, durationMs, outcome, status, error } = attempt;
  db.run`
    insert into attempts (stream_key, event_key, at, duration_ms, outcome, status, error)
    values (${streamKey}, ${eventKeyOf(event)}, ${at}, ${durationMs}, ${outcomeCodes[outcome]},
      ${status}, ${error})`;
}

/** Returns the newest entries of a delivery, oldest first. */
export function historyOf(db: Database, streamKey: number, event: HistoryEvent): Attempt[] {
  const key = eventKeyOf(event);
  const rows = db.all<AttemptRow>`
    select number, at, duration_ms, outcome, status, error from attempts_kept
    where stream_key = ${streamKey} and event_key = ${key}
    union all
    select rowid, at, duration_ms, outcome, status, error from attempts
    where stream_key = ${streamKey} and event_key = ${key}
    order by number desc limit ${shownMax}`;
  return rows.map(attemptOf).toReversed();
}

/** Returns whether the history of an event, of the log or a test, has a success. */
export function wasDelivered(
  db: Database,
  run: { readonly key: number; readonly tenant: number },
  eventId: string,
): boolean {
  const event = db.get<{ offset: number }>`
    select offset from events where tenant = ${run.tenant} and id = ${eventId}`;
  const found = db.get`
    select 1 from attempts
    where stream_key = ${run.key} and event_key = ${event?.offset ?? testKeyOf(eventId)}
      and outcome = ${outcomeCodes.delivered}
    limit 1`;
  return found !== undefined;
}

/** Defines the SQL function for {@link testKeyOf}, which migrations use as well. */
export function defineTestKey(connection: DatabaseSync): void {
  connection.function('leat_test_key', { deterministic: true }, (id) => testKeyOf(String(id)));
}
