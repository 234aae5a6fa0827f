import type { Attempt } from '../../core/types.ts';
import type { Database } from './database.ts';
import {
  attemptOf,
  type AttemptRow,
  type HistoryEvent,
  outcomeCodes,
  shownMax,
} from '../rows/attempts.ts';

/** Adds one entry to a history: the one statement that an ordinary delivery costs. */
export function addAttempt(
  db: Database,
  streamKey: number,
  event: HistoryEvent,
  attempt: Attempt,
): void {
  const { at, durationMs, outcome, status, error } = attempt;
  const testId = typeof event.offset === 'number' ? null : event.id;
  db.run`
    insert into attempts (stream_key, offset, event_id, at, duration_ms, outcome, status, error)
    values (${streamKey}, ${event.offset}, ${testId}, ${at}, ${durationMs}, ${outcomeCodes[outcome]},
      ${status}, ${error})`;
}

/** The newest entries of a delivery, oldest first. */
export function historyOf(db: Database, streamKey: number, event: HistoryEvent): Attempt[] {
  return entries(db, streamKey, event).map(attemptOf).toReversed();
}

/** Newest first. */
function entries(db: Database, streamKey: number, event: HistoryEvent): AttemptRow[] {
  if (typeof event.offset === 'number') {
    return db.all<AttemptRow>`
      select at, duration_ms, outcome, status, error from attempts
      where stream_key = ${streamKey} and offset = ${event.offset}
      order by rowid desc limit ${shownMax}`;
  }
  return db.all<AttemptRow>`
    select at, duration_ms, outcome, status, error from attempts
    where stream_key = ${streamKey} and event_id = ${event.id}
    order by rowid desc limit ${shownMax}`;
}

/** Whether the history of an event, of the log or a test, has a success. */
export function wasDelivered(
  db: Database,
  run: { readonly key: number; readonly tenant: number },
  eventId: string,
): boolean {
  const found =
    db.get`
      select 1 from attempts
      where stream_key = ${run.key} and outcome = ${outcomeCodes.delivered} and offset =
        (select offset from events where tenant = ${run.tenant} and id = ${eventId})
      limit 1` ??
    db.get`
      select 1 from attempts
      where stream_key = ${run.key} and outcome = ${outcomeCodes.delivered} and event_id = ${eventId}
      limit 1`;
  return found !== undefined;
}
