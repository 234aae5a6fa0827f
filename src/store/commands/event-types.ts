import type { Offset } from '../../core/types.ts';
import {
  type EventTypeStore,
  eventTypesMax,
  type ListedType,
  sampleBytesMax,
  type SeenType,
} from '../port/event-types.ts';
import { type Command, type On, sql } from './command.ts';
import { listedRows, oneOfNumbers, postgresOnly } from './dialect.ts';
import { lastStretch, logRow } from './event-log.ts';
import { headOf, oldestAfter } from './runs.ts';

export interface EventTypeDeps extends On {}

/** Creates the store of the types of events. */
export function createEventTypeStore({ on }: EventTypeDeps): EventTypeStore {
  return {
    record: (seen) => on.commands.transact('relaxed', () => record(seen)),
    list: (tenant, query) => on.lists.read(list(tenant, query)),
  };
}

/** In the order of the key: two transactions that write the same rows do not wait for each other. */
function* record(seen: readonly SeenType[]): Command<void> {
  const rows = seen.map(({ tenant, type, offset, at }) => [tenant, type, offset, at]);
  yield* sql.run`
    insert into event_types (tenant, type, last_offset, last_seen_at)
    select c.tenant, c.type, c.last_offset, c.last_seen_at
    from (
      select cast(value ->> 0 as integer) as tenant, value ->> 1 as type,
        cast(value ->> 2 as bigint) as last_offset, cast(value ->> 3 as bigint) as last_seen_at
      from ${listedRows(rows)}) as c
    where exists (select 1 from tenants t where t.id = c.tenant) and (
      exists (select 1 from event_types k where k.tenant = c.tenant and k.type = c.type)
      or (select count(*) from event_types k where k.tenant = c.tenant) < ${eventTypesMax})
    order by c.tenant, c.type
    on conflict (tenant, type) do update set
      last_offset = excluded.last_offset, last_seen_at = excluded.last_seen_at
    where event_types.last_offset < excluded.last_offset`;
}

interface TypeRow {
  readonly type: string;
  readonly offset: Offset;
  readonly at: number;
}

/** Newest events whose types are read from the log, as they may not be recorded yet: some milliseconds. */
const newestMax = 2_000;

function* list(
  tenant: number,
  { after = '', take, isSampled }: Parameters<EventTypeStore['list']>[1],
): Command<ListedType[]> {
  const recorded = yield* sql.all<TypeRow>`
    select type, last_offset as "offset", last_seen_at as at from event_types
    where tenant = ${tenant} and type > ${after} order by type limit ${take}`;
  const newest = yield* typesOfNewest(tenant);
  const rows = new Map(recorded.map((row) => [row.type, row]));
  // The recorded one may be older.
  for (const row of newest) if (row.type > after) rows.set(row.type, row);
  const types = [...rows.values()]
    .toSorted((one, other) => (one.type < other.type ? -1 : 1))
    .slice(0, take);
  const sampled = types.filter(({ type }) => isSampled(type)).map(({ offset }) => offset);
  const bodies = yield* bodiesOf(tenant, sampled);
  return types.map(({ type, offset, at }) => ({ type, at, body: bodies.get(offset) }));
}

function* typesOfNewest(tenant: number): Command<readonly TypeRow[]> {
  const head = yield* headOf(tenant);
  const oldest = yield* oldestAfter(tenant, Math.max(0, head - newestMax));
  if (oldest > head) return [];
  const { after, inDays } = yield* lastStretch(tenant, { after: oldest - 1, upTo: head });
  return yield* sql.all<TypeRow>`
    select type, max("offset") as "offset", max(published_at) as at from events
    where tenant = ${tenant} and "offset" > ${after} and "offset" <= ${head} ${inDays}
    group by type`;
}

function* bodiesOf(
  tenant: number,
  offsets: readonly Offset[],
): Command<ReadonlyMap<Offset, string>> {
  const log = offsets.length === 0 ? undefined : yield* logRow(tenant);
  if (log === undefined) return new Map();
  const rows = yield* sql.all<{ offset: Offset; body: string }>`
    select "offset", body from events
    where tenant = ${tenant} and "offset" ${oneOfNumbers(offsets)} and octet_length(body) <= ${sampleBytesMax}
      and "offset" > ${log.pruned} and "offset" <= ${log.head}
      ${postgresOnly`and published_at >= ${log.oldest_at}`}`;
  return new Map(rows.map(({ offset, body }) => [offset, body]));
}
