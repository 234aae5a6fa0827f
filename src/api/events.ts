import assert from 'node:assert/strict';
import { createTimeWriter, parseTime } from '../core/date.ts';
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
  const writeTime = createTimeWriter();
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
      handle: async ({ tenant, body, mediaType, now, trace }) => {
        const partsOf = mediaType === 'application/json' ? ownParts : cloudParts;
        const publishing = { ...deps, writeTime, tenant, now, trace, partsOf };
        if (!Array.isArray(body)) {
          const [appended] = await deps.store.log.append(tenant.id, [
            newEvent(publishing, body, ''),
          ]);
          return { json: show(appended) };
        }
        const events = body.map((event, index) => newEvent(publishing, event, `${index}.`));
        const appended = await deps.store.log.append(tenant.id, events);
        return { json: `[${appended.map(show).join(',')}]`, extraEvents: events.length - 1 };
      },
    }),
  ];
}

/** One request to publish, whatever the form of its events. */
interface Publishing extends EventDeps {
  readonly tenant: Tenant;
  readonly now: Millis;
  readonly trace: string | undefined;
  readonly writeTime: (time: Millis) => string;
  readonly partsOf: (event: Sent, settings: EventDeps['settings'], at: string) => Parts;
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

function ownParts({ type, data, time, id }: Sent): Parts {
  return { type, data, time, key: id === undefined ? undefined : [id], extensions: undefined };
}

function cloudParts(event: Sent, settings: EventDeps['settings'], at: string): Parts {
  const { type, data, time, id, source, specversion, ...extensions } = event as CloudEventSent;
  assert.equal(specversion, '1.0');
  checkExtensions(extensions, settings.attributePrefix, at);
  return { type, data, time, key: [source, id], extensions };
}

/** The event as the log keeps it; `at` is the place of the event in the body, for refusals. */
function newEvent(publishing: Publishing, sent: Sent, at: string): NewEvent {
  const { settings, random, tenant, now, trace } = publishing;
  const { type, data, time: sentTime, key, extensions } = publishing.partsOf(sent, settings, at);
  const time = sentTime === undefined ? now : timeOf(sentTime, at);
  const id = key === undefined ? makeId('evt_', now, random) : idOf(key);
  const names = {
    tenantName: tenant.name,
    service: settings.serviceName,
    prefix: settings.attributePrefix,
  };
  const body = makeBody({ id, type, time, data, extensions, ...names }, publishing.writeTime);
  if (isTooLarge(body, sent, settings.limits.eventBytesMax)) throw tooLarge();
  return { id, chosen: key !== undefined, type, time, body, trace };
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

/**
 * Counted exactly only where it could matter: a character has at most 3 bytes, and what is sent but
 * not in the body is short.
 */
function isTooLarge(body: string, sent: Sent, bytesMax: number): boolean {
  return body.length * 4 > bytesMax && Buffer.byteLength(JSON.stringify(sent)) > bytesMax;
}

function show(event: Appended | undefined): string {
  return event === undefined
    ? ''
    : `{"id":"${event.id}","offset":"${formatOffset(event.offset, event.id)}"}`;
}
