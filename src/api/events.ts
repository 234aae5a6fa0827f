import assert from 'node:assert/strict';
import { parseTime } from '../core/date.ts';
import { makeBody } from '../core/envelope.ts';
import { isEventId, keyedEventId, makeId } from '../core/ids.ts';
import { formatOffset } from '../core/offset.ts';
import type { Millis, RandomBytes } from '../core/clock.ts';
import type { Appended, NewEvent, Tenant } from '../core/types.ts';
import {
  type CloudEventSent,
  type NewEventSent,
  publish,
  published,
  publishCloudEvent,
  publishCloudEvents,
} from '../schemas/events.ts';
import type { Store } from '../store/port.ts';
import { checkExtensions } from './cloud-event.ts';
import { type Operation, operation } from './operation.ts';
import { badBody, quoted, tooLarge } from './problem.ts';
import type { ApiSettings } from './settings.ts';

export interface EventDeps {
  readonly store: Pick<Store, 'log'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'serviceName' | 'attributePrefix' | 'limits'>;
}

const cloudEvent = 'application/cloudevents+json';
const cloudEvents = 'application/cloudevents-batch+json';

/** Publishing (contract section 11). */
export function eventOperations(deps: EventDeps): Operation[] {
  return [
    operation({
      operationId: 'publishEvents',
      method: 'POST',
      path: '/events',
      summary: 'Publish one event, or an array of them',
      description:
        'All of them are stored, or none. An id that the log has is answered with its first offset.',
      tag: 'Events',
      scopes: ['create:events'],
      lifecycle: 'Early Access',
      extension: true,
      countsEvents: true,
      body: {
        schema: publish,
        required: true,
        bytesMax: deps.settings.limits.publishBodyBytesMax,
        mediaTypes: { [cloudEvent]: publishCloudEvent, [cloudEvents]: publishCloudEvents },
        verbatim: true,
      },
      success: 202,
      response: published,
      errors: [400, 413, 415],
      handle: async ({ tenant, body, mediaType, now }) => {
        const isCloudEvent = mediaType !== 'application/json';
        const sent: readonly Sent[] = Array.isArray(body) ? body : [body];
        const events = sent.map((event, index) => {
          const at = Array.isArray(body) ? `${index}.` : '';
          return newEvent(
            deps,
            tenant,
            isCloudEvent ? cloudParts(deps, event, at) : parts(event),
            at,
            now,
          );
        });
        const appended = await deps.store.log.append(tenant.id, events, now);
        const json = Array.isArray(body) ? `[${appended.map(show).join(',')}]` : show(appended[0]);
        return { json, extraEvents: events.length - 1 };
      },
    }),
  ];
}

type Sent = NewEventSent | CloudEventSent;

/** An event of either form. */
interface Parts {
  readonly type: string;
  readonly data: object;
  readonly time: string | undefined;
  /** The event id or idempotency key sent; absent when Leat makes the id. */
  readonly key: readonly string[] | undefined;
  readonly extensions: Readonly<Record<string, unknown>> | undefined;
}

function parts({ type, data, time, id }: Sent): Parts {
  return { type, data, time, key: id === undefined ? undefined : [id], extensions: undefined };
}

function cloudParts({ settings }: EventDeps, event: Sent, at: string): Parts {
  const { type, data, time, id, source, specversion, ...extensions } = event as CloudEventSent;
  assert.equal(specversion, '1.0');
  checkExtensions(extensions, settings.attributePrefix, at);
  return { type, data, time, key: [source, id], extensions };
}

function newEvent(
  { random, settings }: EventDeps,
  tenant: Tenant,
  { type, data, time: sentTime, key, extensions }: Parts,
  at: string,
  now: Millis,
): NewEvent {
  const time = sentTime === undefined ? now : timeOf(sentTime, at);
  const id = key === undefined ? makeId('evt_', now, random) : idOf(key);
  const body = makeBody({
    id,
    type,
    time,
    data,
    tenantName: tenant.name,
    service: settings.serviceName,
    prefix: settings.attributePrefix,
    extensions,
  });
  if (isTooLarge(body, data, settings.limits.eventBytesMax)) throw tooLarge();
  return { id, chosen: key !== undefined, type, time, body };
}

/** One text is an event id or a key; source and id of a CloudEvent are a key together. */
function idOf(key: readonly string[]): string {
  const [id = ''] = key;
  return key.length === 1 && isEventId(id) ? id : keyedEventId(key);
}

function timeOf(text: string, at: string): Millis {
  const time = parseTime(text);
  if (time !== undefined) return time;
  const reason = `Object didn't pass validation for format date-time: ${quoted(text)}`;
  throw badBody(
    reason,
    `${at}time`,
    'When it happened; the time of acceptance unless sent (RFC 3339)',
  );
}

/** Counted exactly only where it could matter: a character has at most 3 bytes. */
function isTooLarge(body: string, data: object, bytesMax: number): boolean {
  if (body.length * 3 <= bytesMax) return false;
  return Buffer.byteLength(JSON.stringify(data)) > bytesMax;
}

function show(event: Appended | undefined): string {
  return event === undefined ? '' : `{"id":"${event.id}","offset":"${formatOffset(event.offset)}"}`;
}
