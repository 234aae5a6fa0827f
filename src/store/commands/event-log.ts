import type { Millis } from '../../core/clock.ts';
import type { LogEvent, Offset } from '../../core/types.ts';
import type { EventLogStore, FoundEvent, NewestEvents, NewestQuery } from '../port/event-log.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import { deliveredEventOf, type EventColumns, traced } from '../rows/delivered-event.ts';
import type { RowOf } from '../table.ts';
import type { tables } from '../tables.ts';
import { type Command, PageRead, sql, type Statement } from './command.ts';
import { oneOf, perDialect, postgresOnly } from './dialect.ts';
import { createEventDeliveries, type EventDeliveryDeps } from './event-deliveries.ts';
import { createPastPruner } from './past-selections.ts';
import { oldestAfter, type Range, type Stretch, stretchOf } from './runs.ts';
import { createStreamAttempts } from './stream-attempts.ts';

export interface EventLogDeps extends EventDeliveryDeps {}

/** Creates the queries of what became of events. */
export function createEventLogStore(deps: EventLogDeps): EventLogStore {
  const { on } = deps;
  const { lists } = on;
  return {
    newest: (tenant, query) => lists.read(newest(tenant, query)),
    find: (tenant, eventId) =>
      lists.bounded(
        async () =>
          (await lists.read(inLog(tenant, eventId))) ??
          (await lists.read(inDeliveries(tenant, eventId))),
      ),
    offsetsOf: (tenant, eventIds) => lists.read(offsetsOf(tenant, eventIds)),
    deliveries: createEventDeliveries(deps),
    attempts: createStreamAttempts(deps),
    ...createPastPruner(deps),
  };
}

type EventRow = Omit<RowOf<typeof tables.events>, 'tenant' | 'content'>;

/** Offsets that one query scans for events of some types: some milliseconds. */
const scanMax = 2_000;

function* newest(tenant: number, query: NewestQuery): Command<NewestEvents> {
  const { before, types, take, bytesMax } = query;
  const oldest = yield* oldestAfter(tenant, query.after);
  const scanned = types === undefined ? take : scanMax;
  const lowest = Math.max(oldest - 1, before - 1 - scanned);
  if (lowest >= before - 1) return { events: [], scannedTo: before, isEnd: true };
  const { after, inDays } = yield* lastStretch(tenant, { after: lowest, upTo: before - 1 });
  const { rows, hasMore }: BoundedRows<EventRow> = yield* new PageRead<EventRow>({
    take,
    bytesMax,
    columns: ['body'],
    order: '"offset" desc',
    rowsAfter: (read, limit) => sql.all`
      select "offset", id, type, time, published_at, body, trace from events
      where tenant = ${tenant} and "offset" > ${after}
        and "offset" < ${read.at(-1)?.offset ?? before} ${inDays}
        and (${types === undefined} or type ${oneOf(types ?? [])})
      order by "offset" desc limit ${limit}`,
  });
  const scannedTo = hasMore ? (rows.at(-1)?.offset ?? before) : after + 1;
  return { events: rows.map(eventOf), scannedTo, isEnd: scannedTo <= oldest };
}

/** Returns the end of a range, as much of it as one statement may read. */
export function* lastStretch(
  tenant: number,
  { after, upTo }: Range,
): Command<Pick<Range, 'after'> & Pick<Stretch, 'inDays'>> {
  for (let from = after; ;) {
    const stretch = yield* stretchOf(tenant, { after: from, upTo });
    if (stretch.upTo >= upTo) return { after: from, inDays: stretch.inDays };
    from = stretch.upTo;
  }
}

function eventOf(row: EventRow): LogEvent {
  const { offset, id, type, time, published_at: publishedAt, body, trace } = row;
  return { offset, id, type, time, publishedAt, body, ...traced(trace) };
}

/** Which events of a log are visible. */
export interface LogRow {
  readonly head: Offset;
  readonly pruned: Offset;
  readonly oldest_at: Millis;
}

const ends = perDialect({
  sqlite: 'head, 0 as pruned, 0 as oldest_at',
  postgres: 'head, pruned_to as pruned, oldest_at',
});

function* inLog(tenant: number, eventId: string): Command<FoundEvent | undefined> {
  const row = yield* sql.get<EventRow>`
    select e."offset", e.id, e.type, e.time, e.published_at, e.body, e.trace
    from tenants t join events e on e.tenant = t.id and e."offset" <= t.head
      ${postgresOnly`and e."offset" > t.pruned_to and e.published_at >= t.oldest_at`}
    where t.id = ${tenant} and e.id = ${eventId} limit 1`;
  return row && eventOf(row);
}

export function logRow(tenant: number): Statement<LogRow | undefined> {
  return sql.get`select ${ends} from tenants where id = ${tenant}`;
}

function* offsetsOf(
  tenant: number,
  eventIds: readonly string[],
): Command<ReadonlyMap<string, Offset>> {
  const log = yield* logRow(tenant);
  if (log === undefined) return new Map();
  const rows = yield* sql.all<Pick<EventRow, 'id' | 'offset'>>`
    select id, "offset" from events
    where tenant = ${tenant} and id ${oneOf(eventIds)}
      and "offset" > ${log.pruned} and "offset" <= ${log.head}
      ${postgresOnly`and published_at >= ${log.oldest_at}`}`;
  return new Map(rows.map(({ id, offset }) => [id, offset]));
}

/** Reads an event of a delivery, whose body may be in the log, in `kept_events` or in its own row. */
function* inDeliveries(tenant: number, eventId: string): Command<FoundEvent | undefined> {
  const row = yield* sql.get<EventColumns>`
    select d.event_id, d."offset", d.type, d.time, coalesce(d.body,
      (select k.body from kept_events k where k.tenant = d.tenant and k."offset" = d."offset"),
      (select e.body from events e where e.tenant = d.tenant and e."offset" = d."offset")) as body
    from deliveries d where d.tenant = ${tenant} and d.event_id = ${eventId} limit 1`;
  if (row === undefined) return undefined;
  const { id, type, time, body, offset } = deliveredEventOf(row);
  return { id, type, time, body, offset, publishedAt: undefined };
}
