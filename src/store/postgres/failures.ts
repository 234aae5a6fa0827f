import type { Millis } from '../../core/clock.ts';
import { formatFailureKey, parseFailureKey } from '../../core/page.ts';
import type { Failure, Offset } from '../../core/types.ts';
import { deliveredEventOf, type EventColumns } from '../rows/delivered-event.ts';
import type { FailureQuery } from '../port/deliveries.ts';
import type { Page } from '../port/page.ts';
import { historiesOf } from './attempts.ts';
import type { Queries } from './database.ts';
import { type BodyLocation, withBodies } from './kept.ts';
import { rowBytes } from '../rows/bounded.ts';
import { failureBytes } from '../rows/failures.ts';

interface FailureRow extends EventColumns, BodyLocation {
  readonly failed_at: Millis;
  readonly offset: Offset | null;
  readonly body: string | null;
  readonly trace?: string | null;
  /** Days of its history. */
  readonly attempts_from: number;
  readonly attempts_to: number;
}

/**
 * Returns open failures, newest first. A record keeps its position through redeliveries, so that
 * pages are stable while records come and go. An `after` that no page ever had returns an empty
 * page.
 */
export async function listFailures(
  db: Queries,
  tenant: number,
  stream: string,
  query: FailureQuery,
): Promise<Page<Failure>> {
  const after = query.after === undefined ? beforeAll : parseFailureKey(query.after);
  if (after === undefined) return { items: [], next: undefined };
  const rows = await db.all<FailureRow>`
    select d.tenant, d.event_id, d."offset", d.type, d.time, d.failed_at, d.event_day,
      d.attempts_from, d.attempts_to, d.body
    from deliveries d
    where d.tenant = ${tenant} and d.stream = ${stream} and d.failed_at is not null
      and (${query.failedAfter}::bigint is null or d.failed_at > ${query.failedAfter})
      and (${after.failedAt}::bigint is null
        or (d.failed_at, d.event_id) < (${after.failedAt}::bigint, ${after.eventId}))
      and (${query.types}::text[] is null or d.type = any(${query.types}::text[]))
      and (${query.from}::bigint is null or d.time >= ${query.from})
      and (${query.to}::bigint is null or d.time < ${query.to})
    order by d.failed_at desc, d.event_id desc limit ${query.take + 1}`;
  const read = await readChunks(rows, query, (chunk) => failuresOf(db, tenant, stream, chunk));
  const last = read.rows.at(-1);
  const next = last && formatFailureKey({ failedAt: last.failed_at, eventId: last.event_id });
  return { items: read.failures, next: read.rows.length < rows.length ? next : undefined };
}

/** Failures whose bodies and histories are read at once: 512 KiB each at most. */
const chunkMax = 16;

/**
 * Reads the failures of the first rows, `take` of them or as many as are not larger than
 * `bytesMax`. In chunks, because only the bodies show how large a page is.
 */
async function readChunks(
  rows: readonly FailureRow[],
  { take, bytesMax = Infinity }: FailureQuery,
  failuresOfChunk: (chunk: readonly FailureRow[]) => Promise<Failure[]>,
): Promise<{ rows: readonly FailureRow[]; failures: readonly Failure[] }> {
  const failures: Failure[] = [];
  let bytes = 0;
  for (let first = 0; first < Math.min(take, rows.length); first += chunkMax) {
    const chunk = rows.slice(first, Math.min(first + chunkMax, take));
    for (const one of await failuresOfChunk(chunk)) {
      bytes += failureBytes(one) + rowBytes;
      if (bytes > bytesMax && failures.length > 0) return { rows: upTo(rows, failures), failures };
      failures.push(one);
    }
  }
  return { rows: rows.slice(0, take), failures };
}

/** Returns the rows up to that of the last failure. */
function upTo(rows: readonly FailureRow[], failures: readonly Failure[]): readonly FailureRow[] {
  const id = failures.at(-1)?.event.id;
  return rows.slice(0, rows.findIndex((row) => row.event_id === id) + 1);
}

/** The key before the first page: later than every failure. */
const beforeAll = { failedAt: undefined, eventId: '' };

/** One open failure. */
export async function failure(
  db: Queries,
  tenant: number,
  stream: string,
  eventId: string,
): Promise<Failure | undefined> {
  const rows = await db.all<FailureRow>`
    select d.tenant, d.event_id, d."offset", d.type, d.time, d.failed_at, d.event_day,
      d.attempts_from, d.attempts_to, d.body
    from deliveries d
    where d.tenant = ${tenant} and d.stream = ${stream} and d.event_id = ${eventId}
      and d.failed_at is not null`;
  const [found] = await failuresOf(db, tenant, stream, rows);
  return found;
}

async function failuresOf(
  db: Queries,
  tenant: number,
  stream: string,
  rows: readonly FailureRow[],
): Promise<Failure[]> {
  if (rows.length === 0) return [];
  const run = await db.get<{ tenant: number; key: number }>`
    select tenant, key from runs where tenant = ${tenant} and stream = ${stream}`;
  // Deleted between the two statements.
  if (run === undefined) return [];
  // A failure without a body was delivered in the meantime, and its event removed.
  const open = (await withBodies(db, rows)).filter(({ body }) => body !== null);
  const queries = open.map((row) => ({
    event: deliveredEventOf(row),
    failedAt: row.failed_at,
    days: { first: row.attempts_from, last: row.attempts_to },
  }));
  const histories = await historiesOf(db, run, queries);
  return queries.map((one) => ({
    event: one.event,
    failedAt: one.failedAt,
    attempts: histories.get(one) ?? [],
  }));
}
