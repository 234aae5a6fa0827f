import { formatTime } from '../core/date.ts';
import { isEventId, keyedEventId } from '../core/ids.ts';
import { formatOffset, formatPosition } from '../core/offset.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import { dayMs } from '../core/units.ts';
import type { LogEvent, Offset } from '../core/types.ts';
import { positionAt } from '../pull/start-position.ts';
import {
  attempts,
  attemptsQuery,
  eventLog,
  type EventLogQuery,
  eventLogQuery,
  eventLogText,
  eventParams,
  eventQuery,
  tracedEvent,
} from '../schemas/event-log.ts';
import { compile, eventType, streamId, streamParams } from '../schemas/schema.ts';
import type { FoundEvent } from '../store/port/event-log.ts';
import type { Store } from '../store/port/store.ts';
import { showStreamAttempt, showEventDelivery } from './event-deliveries.ts';
import { filterOfText } from './filter.ts';
import { FilterRun } from './filter-run.ts';
import { windowOf } from './formats.ts';
import { formatViolation } from './http/violation.ts';
import { badQuery, tooManySearches } from './http/problem.ts';
import { JsonText } from './http/sliced-json.ts';
import { noEvent, orNotFound, streamOf } from './not-found.ts';
import { type Call, type Operation, operation } from './operation.ts';
import { nextOf, pageOf } from './page.ts';
import type { ApiSettings } from './settings.ts';

export interface EventLogDeps {
  readonly store: Pick<Store, 'streams' | 'log' | 'eventLog'>;
  readonly settings: Pick<ApiSettings, 'limits' | 'attemptRetentionDays'>;
}

const shared = { tag: 'Events', lifecycle: 'Early Access', extension: true } as const;

/** Creates the operations of what became of events (docs/http-api.md#event-log). */
export function eventLogOperations(deps: EventLogDeps): Operation[] {
  return [listEvents(deps), readEvent(deps), listAttempts(deps)];
}

function listEvents(deps: EventLogDeps): Operation {
  /** Tenants with a search by filter under way. */
  const searching = new Set<number>();
  return operation({
    ...shared,
    operationId: 'listEvents',
    method: 'GET',
    path: '/event-log',
    summary: 'List events of the log, newest first',
    description:
      'With `filter` a request reads at most 10,000 events, with `event_types` alone 20,000. It may return fewer than `take`, or none, with `next`. One search with `filter` of a tenant runs at a time on each node.',
    scopes: ['read:events'],
    query: eventLogQuery,
    isList: true,
    success: 200,
    response: eventLog,
    handle: async (call) => {
      const { tenant, query, isGone } = call;
      const { filter } = query;
      const search = await searchOf(deps, call);
      if (filter === undefined) return listFound(deps, tenant.id, search);
      const filterRun = new FilterRun(filterOfText(filter, 'filter', eventLogText.filter), isGone);
      if (searching.has(tenant.id)) throw tooManySearches();
      searching.add(tenant.id);
      try {
        return await listFound(deps, tenant.id, search, filterRun);
      } finally {
        searching.delete(tenant.id);
      }
    },
  });
}

/** What a request searches for. */
interface Search {
  /** The events before this offset… */
  readonly before: Offset;
  /** …and after this one. */
  readonly after: Offset;
  readonly types: readonly string[] | undefined;
  readonly take: number;
  readonly bytesMax: number;
}

async function searchOf(
  { store: { log }, settings }: EventLogDeps,
  { tenant, query }: Call<unknown, EventLogQuery>,
): Promise<Search> {
  const { after: from, take, bytesMax } = pageOf(query, settings.limits, isOffset);
  const window = windowOf(query, badQuery);
  const types = query.event_types?.split(',');
  const invalid = types?.find((type) => !isEventType(type));
  if (invalid !== undefined) {
    const reason = formatViolation('event-type', invalid);
    throw badQuery(reason, 'event_types', eventLogText.event_types);
  }
  const ends = [(await log.head(tenant.id)) + 1];
  if (window.to !== undefined) ends.push(await log.firstSince(tenant.id, window.to));
  if (from !== undefined) ends.push(Number(from));
  const first = window.from === undefined ? 1 : await log.firstSince(tenant.id, window.from);
  return { before: Math.min(...ends), after: first - 1, types, take, bytesMax };
}

const isEventType = compile(eventType);

function isOffset(key: string): boolean {
  return /^\d{1,15}$/.test(key);
}

/** Events that one request reads, at most, to filter them; and those that it reads only the types of. */
const readMax = { filtered: 10_000, typed: 20_000 } as const;
/** Bytes of their bodies. */
const readBytesMax = 64 * 1024 * 1024;
/** Events and bytes that are read before other work has a turn. */
const step = { take: 32, bytesMax: 64 * 1024 } as const;

interface Found {
  readonly events: readonly LogEvent[];
  /** Every matching event from here on was found. */
  readonly scannedTo: Offset;
  readonly isEnd: boolean;
}

async function listFound(
  deps: EventLogDeps,
  tenant: number,
  search: Search,
  filterRun?: FilterRun,
): Promise<{ body: object }> {
  const { events, scannedTo, isEnd } = await find(deps, tenant, search, filterRun);
  const position = await positionAt(deps.store.log, tenant, Math.min(scannedTo, search.before));
  return {
    body: {
      events: events.map(
        ({ id, offset, publishedAt, body }) =>
          new JsonText(
            `{"event":${body},"offset":"${formatOffset(offset, id)}","accepted_at":"${formatTime(publishedAt)}"}`,
          ),
      ),
      ...nextOf(isEnd ? undefined : String(scannedTo)),
      scanned_to: formatPosition(position),
    },
  };
}

/** Reads events back from an offset until there are enough of them, or the request has read enough. */
async function find(
  { store: { eventLog: reads } }: EventLogDeps,
  tenant: number,
  { before, after, types, take, bytesMax }: Search,
  filterRun: FilterRun | undefined,
): Promise<Found> {
  const events: LogEvent[] = [];
  const lowest = before - (filterRun === undefined ? readMax.typed : readMax.filtered);
  let [left, leftBytes, at] = [bytesMax, readBytesMax, before];
  for (;;) {
    const wanted = filterRun === undefined ? { take: take - events.length, bytesMax: left } : step;
    const page = await reads.newest(tenant, { before: at, after, types, ...wanted });
    for (const event of page.events) {
      leftBytes -= event.body.length;
      if (filterRun !== undefined && !(await filterRun.matchesBody(event.body))) continue;
      left -= Buffer.byteLength(event.body);
      if (left < 0 && events.length > 0) {
        return { events, scannedTo: event.offset + 1, isEnd: false };
      }
      events.push(event);
      if (events.length === take) {
        const isLast =
          page.isEnd && event === page.events.at(-1) && page.scannedTo === event.offset;
        return { events, scannedTo: event.offset, isEnd: isLast };
      }
    }
    at = page.scannedTo;
    const isOver = at <= lowest || leftBytes <= 0 || filterRun?.isOver === true;
    if (page.isEnd || isOver) return { events, scannedTo: at, isEnd: page.isEnd };
    await yieldToEventLoop();
  }
}

function readEvent({ store, settings }: EventLogDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readEvent',
    method: 'GET',
    path: '/event-log/:event_id',
    summary: 'Read an event and what became of it',
    description:
      'At each event stream that was or is subscribed to its type, or that has a trace of it. An idempotency key is accepted in place of the id.',
    scopes: ['read:events'],
    params: eventParams,
    query: eventQuery,
    success: 200,
    response: tracedEvent,
    errors: [404],
    handle: async ({ tenant, params, query, now }) => {
      const { after, take } = pageOf({ take: 100, ...query }, settings.limits, isStreamId);
      const id = idOf(params.event_id);
      const event = orNotFound(await store.eventLog.find(tenant.id, id), noEvent, params.event_id);
      const page = await store.eventLog.deliveries(tenant.id, event, { after, take });
      const { publishedAt = 0 } = event;
      const isRecent = publishedAt >= now - settings.attemptRetentionDays * dayMs;
      const rest = {
        ...placeOf(event),
        counts: page.counts,
        deliveries: page.items.map((item) => showEventDelivery(item, isRecent)),
        ...nextOf(page.next),
      };
      return { json: `{"event":${event.body},${JSON.stringify(rest).slice(1)}` };
    },
  });
}

const isStreamId = compile(streamId);

/** Returns the id of an event by its id or its idempotency key. */
function idOf(sent: string): string {
  return isEventId(sent) ? sent : keyedEventId([sent]);
}

function placeOf({ id, offset, publishedAt }: FoundEvent): object {
  return {
    ...(offset === undefined ? {} : { offset: formatOffset(offset, id) }),
    ...(publishedAt === undefined ? {} : { accepted_at: formatTime(publishedAt) }),
  };
}

function listAttempts({ store, settings }: EventLogDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listEventStreamAttempts',
    method: 'GET',
    path: '/event-streams/:id/attempts',
    summary: 'List attempts of an event stream, successes included',
    description:
      'As far as they are stored: the attempts of the newest events first. Attempts of test events are not listed.',
    tag: 'Deliveries',
    scopes: ['read:event_deliveries'],
    params: streamParams,
    query: attemptsQuery,
    isList: true,
    success: 200,
    response: attempts,
    errors: [404],
    handle: async ({ tenant, params, query }) => {
      const page = pageOf(query, settings.limits, isEntryKey);
      await streamOf(store, tenant.id, params.id);
      const { items, next } = await store.eventLog.attempts(tenant.id, params.id, page);
      return { body: { attempts: items.map(showStreamAttempt), ...nextOf(next) } };
    },
  });
}

function isEntryKey(key: string): boolean {
  return /^\d{1,15}\.-?\d{1,16}$/.test(key);
}
