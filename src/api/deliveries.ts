import { deliveryBody } from '../core/envelope.ts';
import { formatTime } from '../core/date.ts';
import { mapInSlices } from '../core/slices.ts';
import { formatCursor, parseFailureKey } from '../core/page.ts';
import type { Attempt, Failure } from '../core/types.ts';
import { compile, emptyBody, eventType, streamParams } from '../schemas/schema.ts';
import {
  deliveries,
  deliveriesQuery,
  delivery,
  deliveryParams,
  redelivery,
  retryNow,
  type DeliveriesQuery,
} from '../schemas/deliveries.ts';
import type { FailureFilter } from '../store/port/deliveries.ts';
import type { Store } from '../store/port/store.ts';
import { windowOf } from './formats.ts';
import { enumViolation, formatViolation } from './http/violation.ts';
import { noEvent, orNotFound, streamOf } from './not-found.ts';
import { type OperationResponse, type Call, type Operation, operation } from './operation.ts';
import { nextOf, pageOf } from './page.ts';
import { badBody, badQuery, conflict } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import { JsonText } from './http/sliced-json.ts';

export interface DeliveryDeps {
  readonly store: Pick<Store, 'streams' | 'deliveries' | 'recording'>;
  readonly settings: Pick<ApiSettings, 'attributePrefix' | 'plainHttp' | 'retry' | 'limits'>;
}

const shared = { tag: 'Deliveries', lifecycle: 'Generally Available' } as const;

/** Creates the operations of failures and redelivery (docs/http-api.md#failures-and-redelivery). */
export function deliveryOperations(deps: DeliveryDeps): Operation[] {
  return [
    listFailures(deps),
    readFailure(deps),
    redeliverOne(deps),
    redeliverMany(deps),
    retryWaiting(deps),
  ];
}

function listFailures({ store, settings }: DeliveryDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listEventDeliveries',
    method: 'GET',
    path: '/event-streams/:id/deliveries',
    summary: 'List failures, newest first',
    description:
      'Without `take` and `from`: a bare array of at most 100, with a `Link` header if there are more. At most 8 MiB.',
    scopes: ['read:event_streams', 'read:event_deliveries'],
    params: streamParams,
    query: deliveriesQuery,
    isList: true,
    success: 200,
    response: deliveries,
    errors: [404],
    handle: async (call) => {
      const { tenant, params, query } = call;
      const isBare = query.take === undefined && query.from === undefined;
      const { failuresListedMax: pageItems } = settings.limits;
      const limits = isBare ? { ...settings.limits, pageItems } : settings.limits;
      const request = { ...pageOf(query, limits, isFailureKey), ...filterOf(query) };
      await streamOf(store, tenant.id, params.id);
      const page = await store.deliveries.listFailures(tenant.id, params.id, request);
      const items = await mapInSlices(
        page.items,
        (failure) => new JsonText(showFailure(failure, params.id, settings.attributePrefix)),
        ({ event }) => event.body.length,
      );
      if (!isBare) return { body: { deliveries: items, ...nextOf(page.next) } };
      return { body: items, headers: linkTo(call, page.next, settings) };
    },
  });
}

function readFailure({ store, settings }: DeliveryDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readEventDelivery',
    method: 'GET',
    path: '/event-streams/:id/deliveries/:event_id',
    summary: 'Read one failure',
    scopes: ['read:event_deliveries'],
    params: deliveryParams,
    success: 200,
    response: delivery,
    errors: [404],
    handle: async ({ tenant, params }) => {
      const { id, event_id: eventId } = params;
      await streamOf(store, tenant.id, id);
      const found = await store.deliveries.failure(tenant.id, id, eventId);
      return {
        json: showFailure(orNotFound(found, noEvent, eventId), id, settings.attributePrefix),
      };
    },
  });
}

function redeliverOne({ store, settings }: DeliveryDeps): Operation {
  return operation({
    ...shared,
    operationId: 'redeliverEvent',
    method: 'POST',
    path: '/event-streams/:id/redeliver/:event_id',
    summary: 'Redeliver one failure',
    scopes: ['update:event_deliveries'],
    params: deliveryParams,
    body: { schema: emptyBody, required: false },
    success: 202,
    response: emptyBody,
    errors: [404, 409],
    handle: async ({ tenant, params, entry }) => {
      const { id, event_id: eventId } = params;
      const recording = store.recording(entry(id, eventId));
      const allHaveSchedule = settings.retry !== undefined;
      const { deliveries: recorded } = recording;
      const result = await recorded.redeliver(tenant.id, id, eventId, allHaveSchedule);
      if (result === 'accepted') return { body: {} };
      await streamOf(store, tenant.id, id);
      if (result === 'unknown') throw noEvent(eventId);
      throw conflict(
        result === 'dismissed'
          ? 'The failure was dismissed. A replay sends the event again.'
          : 'The event is not in a state that allows redelivery.',
        'not_redeliverable',
      );
    },
  });
}

function redeliverMany({ store }: DeliveryDeps): Operation {
  return operation({
    ...shared,
    operationId: 'redeliverEvents',
    method: 'POST',
    path: '/event-streams/:id/redeliver',
    summary: 'Redeliver failures',
    description: 'All of them, or those that match every field sent.',
    scopes: ['update:event_deliveries'],
    params: streamParams,
    body: { schema: redelivery, required: false },
    success: 202,
    response: redelivery,
    errors: [404],
    handle: async ({ tenant, params, entry, body = {} }) => {
      const filter = { ...windowOf(body, badBody), types: body.event_types };
      await streamOf(store, tenant.id, params.id);
      // An empty list of statuses matches no failure.
      if (body.statuses?.length !== 0) {
        const recording = store.recording(entry(params.id));
        await recording.deliveries.redeliverMany(tenant.id, params.id, filter);
      }
      return { body };
    },
  });
}

function retryWaiting({ store }: DeliveryDeps): Operation {
  return operation({
    ...shared,
    lifecycle: 'Early Access',
    extension: true,
    operationId: 'retryEventDeliveriesNow',
    method: 'POST',
    path: '/event-streams/:id/retry-now',
    summary: 'Retry now what waits for a retry',
    description:
      'Makes every delivery of the stream that waits for a retry due; their cycles go on.',
    scopes: ['update:event_deliveries'],
    params: streamParams,
    body: { schema: emptyBody, required: false },
    success: 202,
    response: retryNow,
    errors: [404],
    handle: async ({ tenant, params, entry }) => {
      await streamOf(store, tenant.id, params.id);
      const recording = store.recording(entry(params.id));
      return { body: { due: await recording.deliveries.retryNow(tenant.id, params.id) } };
    },
  });
}

function showFailure(failure: Failure, streamId: string, prefix: string): string {
  return showRecord(failure, { streamId, prefix, facts: { status: 'failed' } });
}

/** Returns a delivery as JSON text, which keeps the numbers of its event as they were sent. */
export function showRecord(
  { event, attempts }: Pick<Failure, 'event' | 'attempts'>,
  {
    streamId,
    prefix,
    facts,
  }: { readonly streamId: string; readonly prefix: string; readonly facts: object },
): string {
  const record = {
    id: event.id,
    event_stream_id: streamId,
    event_type: event.type,
    ...facts,
    attempts: attempts.flatMap((attempt) => showAttempt(attempt)),
  };
  return withEvent(record, deliveryBody(event.body, prefix, streamId));
}

/** Returns a record as JSON text, with the JSON text of an event as its last field. */
export function withEvent(record: object, event: string): string {
  return `${JSON.stringify(record).slice(0, -1)},"event":${event}}`;
}

function showAttempt({ at, durationMs, outcome, error }: Attempt): object[] {
  const timestamp = formatTime(at);
  if (outcome === 'redelivered') return [{ status: 'retrying', timestamp }];
  if (outcome !== 'failed') return [];
  return [{ status: 'failed', timestamp, duration: durationMs, error_message: error }];
}

/** Returns the link to the page after the bare list, with the same filters (RFC 8288). */
function linkTo(
  { tenant, params, query }: Call<{ id: string }, DeliveriesQuery>,
  next: string | undefined,
  { plainHttp, limits }: DeliveryDeps['settings'],
): OperationResponse['headers'] {
  if (next === undefined) return undefined;
  const base = `${plainHttp(tenant.domain) ? 'http' : 'https'}://${tenant.domain}/api/v2`;
  const search = new URLSearchParams({
    take: String(limits.failuresListedMax),
    from: formatCursor(next),
  });
  for (const name of ['statuses', 'event_types', 'date_from', 'date_to'] as const) {
    const value = query[name];
    if (value !== undefined) search.set(name, value);
  }
  const url = `${base}/event-streams/${params.id}/deliveries?${search.toString()}`;
  return { link: `<${url}>; rel="next"` };
}

function filterOf(query: DeliveriesQuery): FailureFilter {
  const statuses = query.statuses?.split(',') ?? [];
  const other = statuses.find((status) => status !== 'failed');
  if (other !== undefined) {
    const text = 'Statuses, comma separated; only failed is one';
    throw badQuery(enumViolation(other, ['failed']), 'statuses', text);
  }
  const types = query.event_types?.split(',');
  const invalid = types?.find((type) => !isEventType(type));
  if (invalid !== undefined) {
    const reason = formatViolation('event-type', invalid);
    throw badQuery(reason, 'event_types', 'Event types, comma separated');
  }
  return { ...windowOf(query, badQuery), types };
}

const isEventType = compile(eventType);

function isFailureKey(key: string): boolean {
  return parseFailureKey(key) !== undefined;
}
