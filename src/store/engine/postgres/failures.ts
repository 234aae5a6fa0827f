import { MIB } from '../../../core/units.ts';
import { verbatim } from '../../commands/dialect.ts';
import type {
  FailedAttempt,
  FailureReader,
  FailureRow,
  FoundFailure,
} from '../../commands/failures.ts';
import { deliveredEventOf } from '../../rows/delivered-event.ts';
import { type AskedHistory, historiesOf, lastFailures } from './attempts.ts';
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
  const queries = rows.map(queryOf);
  const found = await lastFailures(db, first.tenant, queries);
  return queries.map((one) => found.get(one));
}

/**
 * Bytes of bodies, and as many of histories, that are read at once. A body has up to 256 KiB and a history nearly
 * as much, and PostgreSQL sends a result as a whole.
 */
const pieceBytes = 2 * MIB;

async function failuresOf(
  db: Queries,
  rows: readonly LocatedRow[],
): Promise<(FoundFailure | undefined)[]> {
  const [first] = rows;
  if (first === undefined) return [];
  const queries = rows.map(queryOf);
  const [withBody, histories] = await Promise.all([
    withBodies(db, rows, pieceBytes),
    historiesOf(db, first.tenant, queries, pieceBytes),
  ]);
  const found: (FoundFailure | undefined)[] = [];
  for (const [index, row] of withBody.entries()) {
    const query = queries[index];
    const attempts = query && histories.get(query);
    if (attempts === undefined) break;
    // One without a body was delivered in the meantime, and its event removed.
    found.push(row.body === null ? undefined : { event: deliveredEventOf(row), attempts });
  }
  return found;
}

function queryOf(row: LocatedRow): AskedHistory {
  const event = { id: row.event_id, offset: row.offset };
  return { key: row.key, event, days: { first: row.attempts_from, last: row.attempts_to } };
}
