import { createTimeWriter } from '../core/date.ts';
import { makeBodyFromText } from '../core/envelope.ts';
import { isEventId, keyedEventId, makeId } from '../core/ids.ts';
import { StoreEventIdInUse } from '../core/errors.ts';
import { formatOffset } from '../core/offset.ts';
import type { RandomBytes } from '../core/clock.ts';
import type { Appended, NewEvent } from '../core/types.ts';
import {
  publish,
  published,
  publishCloudEvent,
  publishCloudEvents,
  publishHeaders,
} from '../schemas/events.ts';
import type { Store } from '../store/port/store.ts';
import type { EventBodies } from './event-bodies.ts';
import { conflict, type Problem } from './http/problem.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';
import { type Call, type Operation, operation, type OperationResponse } from './operation.ts';
import type { EventForm, SentEvent } from './sent-events.ts';
import type { ApiSettings } from './settings.ts';

export interface EventDeps {
  readonly publish: Publish;
  readonly settings: Pick<ApiSettings, 'limits'>;
}

export interface PublisherDeps {
  readonly store: Pick<Store, 'log'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'serviceName' | 'attributePrefix'>;
  readonly eventBodies: Pick<EventBodies, 'read'>;
}

const cloudEvent = 'application/cloudevents+json';
const cloudEvents = 'application/cloudevents-batch+json';

/** What a request to publish consists of, once its caller is authorized. */
export type Publication = Pick<
  Call<unknown, unknown, Uint8Array>,
  'tenant' | 'body' | 'mediaType' | 'now' | 'waitedMs' | 'trace'
> & { readonly idempotencyKey?: string | undefined };

/** Reads, checks and appends the events of a body. Rejects with 400, 413 and the errors of the store. */
export type Publish = (
  publication: Publication,
) => Promise<Pick<OperationResponse, 'json' | 'extraEvents'>>;

/** The operation that publishes events. */
export const publishOperationId = 'publishEvents';

/** Creates the operation that publishes events (docs/http-api.md#publishing). */
export function eventOperations({ publish: handle, settings }: EventDeps): Operation[] {
  return [
    operation({
      operationId: publishOperationId,
      method: 'POST',
      path: '/events',
      summary: 'Publish one event, or an array of them',
      description:
        'All of them are stored, or none. An id that is already in the log returns its first offset and `repeated`; with another type or other data it is 409.',
      tag: 'Events',
      scopes: ['create:events'],
      lifecycle: 'Early Access',
      extension: true,
      countsEvents: true,
      audited: false,
      body: {
        schema: publish,
        required: true,
        bytesMax: settings.limits.publishBodyBytesMax,
        mediaTypes: { [cloudEvent]: publishCloudEvent, [cloudEvents]: publishCloudEvents },
        unparsed: true,
      },
      success: 202,
      errors: [409],
      headers: publishHeaders,
      response: published,
      handle: (call) =>
        handle({ ...call, idempotencyKey: idempotencyKeyOf(call.headerValues('idempotency-key')) }),
    }),
  ];
}

/** Creates {@link Publish}. */
export function createPublisher(deps: PublisherDeps): Publish {
  const { store, eventBodies } = deps;
  const makeEvent = createEventMaker(deps);
  return (publication) => {
    const { tenant, body, mediaType, idempotencyKey } = publication;
    const sent = { bytes: body, form: formOf(mediaType), idempotencyKey };
    return eventBodies.read(tenant.id, sent, async ({ events, isArray }) => {
      const appended = await store.log
        .append(
          tenant.id,
          events.map((event) => makeEvent(publication, event)),
          publication.waitedMs,
        )
        .catch((error: unknown) => {
          if (!(error instanceof StoreEventIdInUse)) throw error;
          const property = isArray ? `${error.index}.id` : 'id';
          throw idInUse(idempotencyKey === undefined ? `on property ${property}` : inHeader);
        });
      if (!isArray) return { json: show(appended[0]) };
      return { json: `[${appended.map(show).join(',')}]`, extraEvents: events.length - 1 };
    });
  };
}

const inHeader = 'in the header Idempotency-Key';

/** Returns 409; `place` says where the request has the id. */
function idInUse(place: string): Problem {
  return conflict(
    `The log has an event with the id ${place}, with another type or other data. Nothing was stored: send that event as it was, or with another id.`,
    'event_id_in_use',
  );
}

/** Returns the form of a media type; the body reader has rejected all other media types. */
function formOf(mediaType: string): EventForm {
  if (mediaType === cloudEvent) return 'cloudEvent';
  return mediaType === cloudEvents ? 'cloudEvents' : 'own';
}

/** Creates the function that returns the event to append to the log. */
function createEventMaker({
  settings,
  random,
}: Pick<PublisherDeps, 'settings' | 'random'>): (
  publication: Publication,
  sent: SentEvent,
) => NewEvent {
  const writeTime = createTimeWriter();
  const { serviceName: service, attributePrefix: prefix } = settings;
  return ({ tenant, now, trace }, sent) => {
    const { type, dataJson = '{}', extensionsJson, time = now, key, content } = sent;
    const id = key === undefined ? makeId('evt_', now, random) : idOf(key);
    const { name: tenantName } = tenant;
    const parts = { id, type, time, dataJson, extensionsJson, tenantName, service, prefix };
    const body = makeBodyFromText(parts, writeTime);
    return { id, chosen: key !== undefined, content, type, time, body, trace };
  };
}

/** Returns the event id for a key: one text, or source and id of a CloudEvent. */
function idOf(key: readonly string[]): string {
  const [id = ''] = key;
  return key.length === 1 && isEventId(id) ? id : keyedEventId(key);
}

function show(event: Appended | undefined): string {
  if (event === undefined) return '';
  const repeated = event.repeated ? ',"repeated":true' : '';
  return `{"id":"${event.id}","offset":"${formatOffset(event.offset, event.id)}"${repeated}}`;
}
