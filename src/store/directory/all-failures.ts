import type { Millis } from '../../core/clock.ts';
import { formatListedKey, type ListedKey, parseListedKey } from '../../core/page.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { DeliveryKind, DeliveryState, StreamStatus } from '../../core/types.ts';
import type { FailureStore, ListedDelivery, ListQuery } from '../port/failures.ts';
import type { Page } from '../port/page.ts';
import { rowBytes } from '../rows/bounded.ts';
import { failureBytes, storedCode } from '../rows/failures.ts';
import { type Command, type Commands, sql } from './command.ts';
import { oneOf } from './dialect.ts';
import { createFailureGroups } from './failure-groups.ts';
import { selects } from './failure-selection.ts';
import { type FailureReader, type FailureRow, rowColumns } from './failures.ts';
import type { Runs } from './runs.ts';

interface Deps {
  readonly commands: Commands;
  readonly failures: FailureReader;
  readonly runs: Pick<Runs, 'now'>;
}

/** Creates the queries of the failures of all streams. */
export function createAllFailures(deps: Deps): FailureStore {
  return {
    list: (tenant, query) => list(deps, tenant, query),
    groups: createFailureGroups(deps),
  };
}

/** Rows that one query reads, wanted or not: some milliseconds. */
const scanMax = 5000;

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
  { commands, failures }: Deps,
  tenant: number,
  query: ListQuery,
): Promise<Page<ListedDelivery>> {
  const after = query.after === undefined ? first : parseListedKey(query.after);
  if (after === undefined) return { items: [], next: undefined };
  const { take, bytesMax } = query;
  const { rows, end } = await commands.read(listedRows(tenant, query, after, failures));
  const items: ListedDelivery[] = [];
  let bytes = 0;
  let last: ListedRow | undefined;
  for (let from = 0; from < Math.min(take, rows.length); from += chunkMax) {
    // A synchronous engine does not yield by itself.
    if (from > 0) await yieldToEventLoop();
    const chunk = rows.slice(from, Math.min(from + chunkMax, take));
    const found = await failures.read(chunk);
    for (const [index, row] of chunk.entries()) {
      const failure = found[index];
      if (failure !== undefined) {
        bytes += failureBytes(failure) + rowBytes;
        if (bytes > bytesMax && last !== undefined) return { items, next: keyOf(last) };
        items.push(listed(row, failure));
      }
      last = row;
    }
  }
  const next = rows.length > take ? rows[take - 1] : end;
  return { items, next: next && keyOf(next) };
}

/** Deliveries whose bodies and histories are read at once: 512 KiB each at most. */
const chunkMax = 16;

function listed(
  row: ListedRow,
  { event, attempts }: Pick<ListedDelivery, 'event' | 'attempts'>,
): ListedDelivery {
  const { stream, failed_at: failedAt, state, kind, due_at: dueAt, status } = row;
  const isSent = kind === 'redelivery' || (status === 'enabled' && row.paused_at === null);
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

function keyOf({ listed_at: at, event_id: eventId, stream }: KeyColumns): string {
  return formatListedKey({ at, eventId, stream });
}

/** Before the first row. */
const first: ListedKey = { at: Number.MAX_SAFE_INTEGER, eventId: '', stream: '' };

/** Returns the wanted rows of a page and the next one; and where the scan ended, if there is more. */
function* listedRows(
  tenant: number,
  query: ListQuery,
  after: ListedKey,
  { columns }: FailureReader,
): Command<{ readonly rows: readonly ListedRow[]; readonly end: KeyColumns | undefined }> {
  const { streams, statuses, take, failedFrom = 0, failedTo = Infinity } = query;
  // Rows outside of the times do not count as read.
  const start = after.at < failedTo ? after : { at: failedTo, eventId: '', stream: '' };
  const end = yield* sql.get<KeyColumns>`
    select listed_at, event_id, stream from deliveries
    where tenant = ${tenant} and listed_at is not null
      and (listed_at, event_id, stream) < (${start.at}, ${start.eventId}, ${start.stream})
      and (listed_at, event_id, stream) >= (${failedFrom}, '', '')
    order by listed_at desc, event_id desc, stream desc limit 1 offset ${scanMax - 1}`;
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
