import type { DatabaseSync } from 'node:sqlite';
import type { Millis } from '../../../core/clock.ts';
import type { Attempt } from '../../../core/types.ts';
import type { Database } from './database.ts';
import {
  attemptOf,
  type AttemptRow,
  eventKeyOf,
  type HistoryEvent,
  outcomeCodes,
  shownMax,
  testKeyOf,
} from '../../rows/attempts.ts';
import type { Run } from '../../rows/runs.ts';

/**
 * Adds one entry to a history: the only statement that an ordinary delivery costs. Histories are
 * written apart from PostgreSQL, where they are partitions of days and have a column for the tenant.
 */
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

/** Adds the same entry to several histories of a stream: there may be thousands. */
export function addEntries(
  db: Database,
  streamKey: number,
  events: readonly HistoryEvent[],
  { at, durationMs, outcome, status, error }: Attempt,
): void {
  db.run`
    insert into attempts (stream_key, event_key, at, duration_ms, outcome, status, error)
    select ${streamKey}, value, ${at}, ${durationMs}, ${outcomeCodes[outcome]}, ${status}, ${error}
    from json_each(${JSON.stringify(events.map(eventKeyOf))})`;
}

/**
 * Kept entries are older than all others of their event, so their numbers are below every rowid of
 * `attempts` and rise from here. They cannot be those rowids: an empty table assigns them again.
 */
const keptFrom = -(2 ** 52);

/** Moves entries of a delivery from before an instant to where no removal of days finds them. */
export function keepAttempts(
  db: Database,
  { key }: Pick<Run, 'key'>,
  eventKey: number,
  before: Millis,
): void {
  const kept = db.run`
    insert into attempts_kept (number, stream_key, event_key, at, duration_ms, outcome, status,
      error)
    select coalesce((select max(number) from attempts_kept), ${keptFrom})
      + row_number() over (order by rowid),
      stream_key, event_key, at, duration_ms, outcome, status, error
    from attempts where stream_key = ${key} and event_key = ${eventKey} and at < ${before}`;
  if (kept === 0) return;
  db.run`
    delete from attempts where stream_key = ${key} and event_key = ${eventKey} and at < ${before}`;
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

/** Defines the SQL function for {@link testKeyOf}, which migrations use as well. */
export function defineTestKey(connection: DatabaseSync): void {
  connection.function('leat_test_key', { deterministic: true }, (id) => testKeyOf(String(id)));
}
