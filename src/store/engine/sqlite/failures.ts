import { mapInSlices } from '../../../core/slices.ts';
import { KIB } from '../../../core/units.ts';
import { postgresOnly } from '../../commands/dialect.ts';
import type {
  FailedAttempt,
  FailureReader,
  FailureRow,
  FoundFailure,
} from '../../commands/failures.ts';
import { type AttemptRow, eventKeyOf, outcomeCodes } from '../../rows/attempts.ts';
import { rowBytes } from '../../rows/bounded.ts';
import { deliveredEventOf } from '../../rows/delivered-event.ts';
import { failureBytes } from '../../rows/failures.ts';
import { historyOf } from './attempts.ts';
import type { Database } from './database.ts';

/**
 * Reads failures one by one: a search in each table finds the body and the history. Written apart
 * from PostgreSQL, where each search costs a round trip.
 */
export function createFailureReader(db: Database): FailureReader {
  return {
    columns: postgresOnly``,
    read: (rows) => Promise.resolve(failuresOf(db, rows)),
    lastFailed: (rows) =>
      mapInSlices(
        rows,
        (row) => lastFailedOf(db, row),
        () => searchSize,
      ),
  };
}

/** What a search counts in a slice, so that one has a few hundred. */
const searchSize = 512;

function lastFailedOf(db: Database, row: FailureRow): FailedAttempt | undefined {
  const key = eventKeyOf({ id: row.event_id, offset: row.offset });
  const found =
    db.get<AttemptRow>`
      select status, error from attempts
      where stream_key = ${row.key} and event_key = ${key} and outcome = ${outcomeCodes.failed}
      order by rowid desc limit 1` ??
    db.get<AttemptRow>`
      select status, error from attempts_kept
      where stream_key = ${row.key} and event_key = ${key} and outcome = ${outcomeCodes.failed}
      order by number desc limit 1`;
  return found && { status: found.status ?? undefined, error: found.error ?? undefined };
}

/** Bytes that are read without yielding to the event loop: a millisecond or two. */
const pieceBytes = 64 * KIB;

function failuresOf(db: Database, rows: readonly FailureRow[]): (FoundFailure | undefined)[] {
  const found: (FoundFailure | undefined)[] = [];
  let bytes = 0;
  for (const row of rows) {
    if (bytes >= pieceBytes) break;
    const failure = failureOf(db, row);
    found.push(failure);
    bytes += rowBytes + (failure === undefined ? 0 : failureBytes(failure));
  }
  return found;
}

function failureOf(db: Database, row: FailureRow): FoundFailure | undefined {
  const found = db.get<{ body: string | null }>`
    select coalesce(d.body, k.body, e.body) as body
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${row.tenant} and d.stream = ${row.stream} and d.event_id = ${row.event_id}`;
  if (found === undefined) return undefined;
  const event = deliveredEventOf({ ...row, body: found.body });
  return { event, attempts: historyOf(db, row.key, event) };
}
