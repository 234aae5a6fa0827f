import { mapInSlices } from '../../core/slices.ts';
import type { Failure } from '../../core/types.ts';
import { postgresOnly } from '../directory/dialect.ts';
import type { FailureReader, FailureRow } from '../directory/failures.ts';
import { deliveredEventOf } from '../rows/delivered-event.ts';
import { failureBytes } from '../rows/failures.ts';
import { historyOf } from './attempts.ts';
import type { Database } from './database.ts';

/**
 * Reads failures one by one: a search in each table finds the body and the history. Written apart
 * from PostgreSQL, where each search costs a round trip.
 */
export function createFailureReader(db: Database): FailureReader {
  return {
    columns: postgresOnly``,
    read: async (rows) => {
      const found = await mapInSlices(
        rows,
        (row) => failureOf(db, row),
        (_row, failure) => (failure === undefined ? 0 : failureBytes(failure)),
      );
      return found.filter((failure) => failure !== undefined);
    },
  };
}

function failureOf(db: Database, row: FailureRow): Failure | undefined {
  const found = db.get<{ body: string | null }>`
    select coalesce(d.body, k.body, e.body) as body
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${row.tenant} and d.stream = ${row.stream} and d.event_id = ${row.event_id}
      and d.failed_at is not null`;
  if (found === undefined) return undefined;
  const event = deliveredEventOf({ ...row, body: found.body });
  return { event, failedAt: row.failed_at, attempts: historyOf(db, row.key, event) };
}
