import type { Millis } from '../../core/clock.ts';
import { parseFailureKey } from '../../core/page.ts';
import type { Failure } from '../../core/types.ts';
import type { FailureQuery } from '../port/deliveries.ts';
import type { Page } from '../port/page.ts';
import { historyOf } from './attempts.ts';
import type { Database } from './database.ts';
import { deliveredEventOf, type EventColumns } from '../rows/delivered-event.ts';
import { readRun } from './runs.ts';
import { readPieces } from '../rows/bounded.ts';
import { failureBytes, nextKeyOf } from '../rows/failures.ts';

interface FailureRow extends EventColumns {
  readonly failed_at: Millis;
}

/**
 * Returns open failures, newest first. A record keeps its position through redeliveries, so that
 * pages are stable while records come and go. An `after` that no page ever had returns an empty
 * page.
 */
export async function listFailures(
  db: Database,
  tenant: number,
  stream: string,
  query: FailureQuery,
): Promise<Page<Failure>> {
  const run = readRun(db, tenant, stream);
  const after = query.after === undefined ? beforeAll : parseFailureKey(query.after);
  if (run === undefined || after === undefined) return { items: [], next: undefined };
  const types = query.types === undefined ? undefined : JSON.stringify(query.types);
  const rowsFrom = (from: typeof beforeAll, take: number): Iterable<FailureRow> => db.each`
    select d.event_id, d.offset, d.type, d.time, d.failed_at, coalesce(d.body, k.body, e.body) as body
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${tenant} and d.stream = ${stream} and d.failed_at is not null
      and d.failed_at > ${query.failedAfter ?? -Infinity}
      and (d.failed_at, d.event_id) < (${from.failedAt}, ${from.eventId})
      and (${types} is null or d.type in (select value from json_each(${types})))
      and d.time >= ${query.from ?? -Infinity} and d.time < ${query.to ?? Infinity}
    order by d.failed_at desc, d.event_id desc limit ${take}`;
  const found = (read: readonly Failure[], take: number): Iterable<Failure> =>
    failuresOf(db, run.key, rowsFrom(lastOf(read) ?? after, take));
  const { rows, hasMore } = await readPieces(found, query, failureBytes);
  return { items: rows, next: hasMore ? nextKeyOf(rows) : undefined };
}

/** The key before the first page: later than every failure. */
const beforeAll = { failedAt: Infinity, eventId: '' };

function lastOf(read: readonly Failure[]): typeof beforeAll | undefined {
  const last = read.at(-1);
  return last && { failedAt: last.failedAt, eventId: last.event.id };
}

/** One open failure. */
export function failure(
  db: Database,
  tenant: number,
  stream: string,
  eventId: string,
): Failure | undefined {
  const run = readRun(db, tenant, stream);
  const row = db.get<FailureRow>`
    select d.event_id, d.offset, d.type, d.time, d.failed_at, coalesce(d.body, k.body, e.body) as body
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${tenant} and d.stream = ${stream} and d.event_id = ${eventId}
      and d.failed_at is not null`;
  return run && row && failureOf(db, run.key, row);
}

/** The size of a failure depends on its history, which is read along with it. */
function* failuresOf(
  db: Database,
  streamKey: number,
  rows: Iterable<FailureRow>,
): Generator<Failure, void, undefined> {
  for (const row of rows) yield failureOf(db, streamKey, row);
}

function failureOf(db: Database, streamKey: number, row: FailureRow): Failure {
  const event = deliveredEventOf(row);
  return { event, failedAt: row.failed_at, attempts: historyOf(db, streamKey, event) };
}
