import type { Failure } from '../../core/types.ts';
import { verbatim } from '../directory/dialect.ts';
import type { FailedAttempt, FailureReader, FailureRow } from '../directory/failures.ts';
import { deliveredEventOf } from '../rows/delivered-event.ts';
import { historiesOf, lastFailures } from './attempts.ts';
import type { Queries } from './database.ts';
import type { Days } from './day-ranges.ts';
import { type BodyLocation, withBodies } from './kept.ts';

interface LocatedRow extends FailureRow, BodyLocation {
  /** Days of its history. */
  readonly attempts_from: number;
  readonly attempts_to: number;
}

/**
 * Reads the bodies and histories of many failures at once, and searches only the days that their
 * rows name. Written apart from SQLite, which has no days.
 */
export function createFailureReader(db: Queries): FailureReader {
  return {
    columns: verbatim(', d.event_day, d.attempts_from, d.attempts_to, d.body'),
    read: (rows: readonly LocatedRow[]) => failuresOf(db, rows),
    lastFailed: (rows: readonly LocatedRow[]) => lastFailedOf(db, rows),
  };
}

async function lastFailedOf(
  db: Queries,
  rows: readonly LocatedRow[],
): Promise<(FailedAttempt | undefined)[]> {
  const [first] = rows;
  if (first === undefined) return [];
  const queries = rows.map((row) => ({
    key: row.key,
    event: { id: row.event_id, offset: row.offset },
    days: daysOf(row),
  }));
  const found = await lastFailures(db, first.tenant, queries);
  return queries.map((one) => found.get(one));
}

async function failuresOf(
  db: Queries,
  rows: readonly LocatedRow[],
): Promise<(Pick<Failure, 'event' | 'attempts'> | undefined)[]> {
  const [first] = rows;
  if (first === undefined) return [];
  const queries = (await withBodies(db, rows)).map((row) =>
    // One without a body was delivered in the meantime, and its event removed.
    row.body === null
      ? undefined
      : { key: row.key, event: deliveredEventOf(row), days: daysOf(row) },
  );
  const open = queries.filter((one) => one !== undefined);
  const histories = await historiesOf(db, first.tenant, open);
  return queries.map((one) => one && { event: one.event, attempts: histories.get(one) ?? [] });
}

function daysOf(row: LocatedRow): Days {
  return { first: row.attempts_from, last: row.attempts_to };
}
