import type { Failure } from '../../core/types.ts';
import { verbatim } from '../directory/dialect.ts';
import type { FailedAttempt, FailureReader, FailureRow } from '../directory/failures.ts';
import { deliveredEventOf } from '../rows/delivered-event.ts';
import { historiesOf, lastFailures } from './attempts.ts';
import type { Queries } from './database.ts';
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
    event: { id: row.event_id, offset: row.offset },
    days: { first: row.attempts_from, last: row.attempts_to },
  }));
  const found = await lastFailures(db, first, queries);
  return queries.map((one) => found.get(one));
}

async function failuresOf(db: Queries, rows: readonly LocatedRow[]): Promise<Failure[]> {
  const [first] = rows;
  if (first === undefined) return [];
  // A failure without a body was delivered in the meantime, and its event removed.
  const open = (await withBodies(db, rows)).filter(({ body }) => body !== null);
  const queries = open.map((row) => ({
    event: deliveredEventOf(row),
    failedAt: row.failed_at,
    days: { first: row.attempts_from, last: row.attempts_to },
  }));
  const histories = await historiesOf(db, first, queries);
  return queries.map((one) => ({
    event: one.event,
    failedAt: one.failedAt,
    attempts: histories.get(one) ?? [],
  }));
}
