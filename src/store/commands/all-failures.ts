import type { Millis } from '../../core/clock.ts';
import { formatListedKey, type ListedKey, parseListedKey } from '../../core/page.ts';
import type { DeliveryKind, DeliveryState, StreamStatus } from '../../core/types.ts';
import type { FailureStore, ListedDelivery, ListQuery } from '../port/failures.ts';
import type { Page } from '../port/page.ts';
import { storedCode } from '../rows/failures.ts';
import { mayBeSent, sendingOf } from '../rules/pause.ts';
import { type Command, type On, sql } from './command.ts';
import { oneOf } from './dialect.ts';
import { createFailureGroups } from './failure-groups.ts';
import { selects } from './failure-selection.ts';
import { type FailureReader, type FailureRow, firstFailures, rowColumns } from './failures.ts';

interface Deps extends On {
  readonly failures: FailureReader;
}

/** Creates the queries of the failures of all streams. */
export function createAllFailures(deps: Deps): FailureStore {
  return {
    list: (tenant, query) => deps.on.lists.bounded(() => list(deps, tenant, query)),
    groups: createFailureGroups(deps),
  };
}

interface ListedRow extends FailureRow {
  readonly listed_at: Millis;
  readonly error_code: string;
  readonly kind: DeliveryKind;
  readonly state: DeliveryState;
  readonly due_at: Millis | null;
  readonly status: StreamStatus;
  readonly paused_at: Millis | null;
}

async function list(
  { on, failures }: Deps,
  tenant: number,
  query: ListQuery,
): Promise<Page<ListedDelivery>> {
  const after = query.after === undefined ? first : parseListedKey(query.after);
  if (after === undefined) return { items: [], next: undefined };
  const { rows, end } = await on.lists.read(listedRows(tenant, query, after, failures));
  const { found, last } = await firstFailures(rows, query, failures);
  const next = last ?? end;
  return {
    items: found.map(({ row, failure }) => listed(row, failure)),
    next: next && formatListedKey(keyOf(next)),
  };
}

function listed(
  row: ListedRow,
  { event, attempts }: Pick<ListedDelivery, 'event' | 'attempts'>,
): ListedDelivery {
  const { stream, failed_at: failedAt, state, kind, due_at: dueAt, status } = row;
  const isSent = mayBeSent(kind, sendingOf({ status, pausedAt: row.paused_at }));
  return {
    stream,
    event,
    attempts,
    code: storedCode(row.error_code),
    failedAt: failedAt ?? undefined,
    nextAttemptAt: state === 'retrying' && isSent ? (dueAt ?? undefined) : undefined,
  };
}

type KeyColumns = Pick<ListedRow, 'listed_at' | 'event_id' | 'stream'>;

function keyOf({ listed_at: at, event_id: eventId, stream }: KeyColumns): ListedKey {
  return { at, eventId, stream };
}

/** Before the first row. */
const first: ListedKey = { at: Number.MAX_SAFE_INTEGER, eventId: '', stream: '' };

interface ListedRows {
  /** At most one more than `take`. */
  readonly rows: readonly ListedRow[];
  /** Where the scan ended, if there is more. */
  readonly end: KeyColumns | undefined;
}

/**
 * Rows that one query reads, wanted or not: some milliseconds. The first are enough for most pages, and to find
 * where the others end takes as long as the rest of a page.
 */
const scans = { first: 500, second: 4500 };

/** Returns the wanted rows of a page and the next one. */
function* listedRows(
  tenant: number,
  query: ListQuery,
  after: ListedKey,
  reader: FailureReader,
): Command<ListedRows> {
  const { rows, end } = yield* scanned(tenant, query, { after, length: scans.first }, reader);
  const take = query.take - rows.length;
  if (end === undefined || take <= 0) return { rows, end };
  const scan = { after: keyOf(end), length: scans.second };
  const others = yield* scanned(tenant, { ...query, take }, scan, reader);
  return { rows: [...rows, ...others.rows], end: others.end };
}

/** Returns the wanted ones of the next `length` rows. */
function* scanned(
  tenant: number,
  query: ListQuery,
  { after, length }: { readonly after: ListedKey; readonly length: number },
  { columns }: FailureReader,
): Command<ListedRows> {
  const { streams, statuses, take, failedFrom = 0, failedTo = Infinity } = query;
  // Rows outside of the times do not count as read.
  const start = after.at < failedTo ? after : { at: failedTo, eventId: '', stream: '' };
  const end = yield* sql.get<KeyColumns>`
    select listed_at, event_id, stream from deliveries
    where tenant = ${tenant} and listed_at is not null
      and (listed_at, event_id, stream) < (${start.at}, ${start.eventId}, ${start.stream})
      and (listed_at, event_id, stream) >= (${failedFrom}, '', '')
    order by listed_at desc, event_id desc, stream desc limit 1 offset ${length - 1}`;
  const last = end ?? { listed_at: failedFrom, event_id: '', stream: '' };
  const rows = yield* sql.all<ListedRow>`
    select ${rowColumns} ${columns}, d.listed_at, d.error_code, d.kind, d.state, d.due_at,
      s.status, s.paused_at
    from deliveries d join streams s on s.tenant = d.tenant and s.id = d.stream
    where d.tenant = ${tenant} and d.listed_at is not null
      and (d.listed_at, d.event_id, d.stream) < (${start.at}, ${start.eventId}, ${start.stream})
      and (d.listed_at, d.event_id, d.stream) >= (${last.listed_at}, ${last.event_id}, ${last.stream})
      and (${statuses.includes('failed')} and d.failed_at is not null
        or ${statuses.includes('retrying')} and d.failed_at is null)
      and (${streams === undefined} or d.stream ${oneOf(streams ?? [])})
      and ${selects(query)}
    order by d.listed_at desc, d.event_id desc, d.stream desc limit ${take + 1}`;
  return { rows, end };
}
