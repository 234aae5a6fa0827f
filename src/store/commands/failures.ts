import type { Millis } from '../../core/clock.ts';
import { formatFailureKey, parseFailureKey } from '../../core/page.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { Attempt, Failure } from '../../core/types.ts';
import type { DeliveryStore, FailureQuery, NewFailureQuery } from '../port/deliveries.ts';
import { rowBytes } from '../rows/bounded.ts';
import type { EventColumns } from '../rows/delivered-event.ts';
import { failureBytes } from '../rows/failures.ts';
import { type Command, type On, sql } from './command.ts';
import { type Fragment, oneOf, verbatim } from './dialect.ts';

export interface FailureDeps extends On {
  readonly failures: FailureReader;
}

/** Reads the bodies and the histories of failures in the way of an engine. */
export interface FailureReader {
  /** More columns of `deliveries d` that it needs. */
  readonly columns: Fragment;
  /**
   * Returns event and history of the first rows of one tenant, in order: of one row at least, and of as many
   * as the engine reads at once. `undefined` stands for one that was delivered in the meantime.
   */
  read(rows: readonly FailureRow[]): Promise<(FoundFailure | undefined)[]>;
  /**
   * Returns the last failed attempt of each row of one tenant, in order; `undefined` where the history has
   * none.
   */
  lastFailed(rows: readonly FailureRow[]): Promise<(FailedAttempt | undefined)[]>;
}

/** What the row of a failure does not have. */
export type FoundFailure = Pick<Failure, 'event' | 'attempts'>;

/** A failed attempt, as far as its error code depends on it. */
export type FailedAttempt = Pick<Attempt, 'status' | 'error'>;

/** A row of an open failure, or of a delivery that waits for a retry, without its body. */
export interface FailureRow extends Omit<EventColumns, 'body' | 'trace'> {
  readonly tenant: number;
  readonly stream: string;
  /** The key of its stream in the history. */
  readonly key: number;
  readonly failed_at: Millis;
  readonly attempt: number;
}

/** Creates the reads of open failures. */
export function createFailureStore({
  on: { lists },
  failures,
}: FailureDeps): Pick<DeliveryStore, 'listFailures' | 'newFailures' | 'failure'> {
  return {
    listFailures: (tenant, stream, query) =>
      lists.bounded(async () => {
        const rows = await lists.read(rowsOf(tenant, stream, query, failures));
        const { found, last } = await firstFailures(rows, query, failures);
        return {
          items: found.map(({ row, failure }) => ({ ...failure, failedAt: row.failed_at })),
          next: last && keyOf(last),
        };
      }),
    newFailures: (tenant, stream, query) =>
      lists.bounded(async () => {
        const rows = await lists.read(rowsOf(tenant, stream, query, failures));
        const found = rows.slice(0, query.take);
        const attempts = await failures.lastFailed(found);
        const last = rows.length > query.take ? found.at(-1) : undefined;
        return {
          items: found.map((row, index) => ({
            eventId: row.event_id,
            eventType: row.type,
            failedAt: row.failed_at,
            attempts: row.attempt,
            status: attempts[index]?.status,
            error: attempts[index]?.error,
          })),
          next: last && keyOf(last),
        };
      }),
    failure: (tenant, stream, eventId) =>
      lists.bounded(async () => {
        const rows = await lists.read(rowOf(tenant, stream, eventId, failures));
        const [row] = rows;
        const [found] = await failures.read(rows);
        return row && found && { ...found, failedAt: row.failed_at };
      }),
  };
}

function keyOf({ failed_at: failedAt, event_id: eventId }: FailureRow): string {
  return formatFailureKey({ failedAt, eventId });
}

/**
 * Returns the rows of a page and the next one, newest first. A record keeps its position through
 * redeliveries, so that pages are stable while records come and go. An `after` that no page ever
 * had returns no rows.
 */
function* rowsOf(
  tenant: number,
  stream: string,
  query: FailureQuery & Partial<NewFailureQuery>,
  { columns }: FailureReader,
): Command<readonly FailureRow[]> {
  const after = query.after === undefined ? beforeAll : parseFailureKey(query.after);
  if (after === undefined) return [];
  const { types, from = Number.MIN_SAFE_INTEGER, to = Number.MAX_SAFE_INTEGER } = query;
  return yield* sql.all<FailureRow>`
    select ${rowColumns} ${columns}
    from deliveries d
    where d.tenant = ${tenant} and d.stream = ${stream} and d.failed_at is not null
      and d.failed_at > ${query.failedAfter ?? -1}
      and (d.failed_at, d.event_id) < (${after.failedAt}, ${after.eventId})
      and (${types === undefined} or d.type ${oneOf(types ?? [])})
      and d.time >= ${from} and d.time < ${to}
    order by d.failed_at desc, d.event_id desc limit ${query.take + 1}`;
}

/** The columns of a {@link FailureRow}. */
export const rowColumns = verbatim(`
  d.tenant, d.stream, d.event_id, d."offset", d.type, d.time, d.failed_at, d.attempt,
  (select r.key from runs r where r.tenant = d.tenant and r.stream = d.stream) as key`);

/** The key before the first page: later than every failure. */
const beforeAll = { failedAt: Number.MAX_SAFE_INTEGER, eventId: '' };

function* rowOf(
  tenant: number,
  stream: string,
  eventId: string,
  { columns }: FailureReader,
): Command<readonly FailureRow[]> {
  return yield* sql.all<FailureRow>`
    select ${rowColumns} ${columns}
    from deliveries d
    where d.tenant = ${tenant} and d.stream = ${stream} and d.event_id = ${eventId}
      and d.failed_at is not null`;
}

/** The first rows of a page, without those that were delivered in the meantime. */
interface FirstFailures<Row> {
  readonly found: readonly { readonly row: Row; readonly failure: FoundFailure }[];
  /** The last row of the page, if rows follow it. */
  readonly last: Row | undefined;
}

/**
 * Reads the failures of the first rows, `take` of them or as many as are not larger than `bytesMax`, one at
 * least. Only their bodies and histories show how large they are, so that some more may be read than are returned.
 */
export async function firstFailures<Row extends FailureRow>(
  rows: readonly Row[],
  { take, bytesMax = Infinity }: Pick<FailureQuery, 'take' | 'bytesMax'>,
  { read }: FailureReader,
): Promise<FirstFailures<Row>> {
  const found: { row: Row; failure: FoundFailure }[] = [];
  const end = Math.min(take, rows.length);
  let bytes = 0;
  let last: Row | undefined;
  for (let from = 0; from < end;) {
    // A synchronous engine does not yield by itself.
    if (from > 0) await yieldToEventLoop();
    const part = rows.slice(from, Math.min(from + rowsAtOnce, end));
    const failures = await read(part);
    if (failures.length === 0) throw new Error('A reader of failures read nothing.');
    for (const [index, row] of part.slice(0, failures.length).entries()) {
      const failure = failures[index];
      if (failure !== undefined) {
        bytes += failureBytes(failure) + rowBytes;
        if (bytes > bytesMax && found.length > 0) return { found, last };
        found.push({ row, failure });
      }
      last = row;
    }
    from += failures.length;
  }
  return { found, last: rows.length > take ? last : undefined };
}

/** A page of the API has fewer. Of more rows with large bodies most would be searched several times. */
const rowsAtOnce = 128;
