import { Type, type Static } from 'typebox';
import { closed, component, eventId, eventType, named, sentTime, time } from './schema.ts';

/** An event as sent to webhooks (docs/http-api.md#event-envelope). */
export const envelope = named(
  'Event',
  Type.Object(
    {
      id: eventId,
      source: Type.String({ description: 'urn:<service>:' }),
      specversion: Type.Literal('1.0'),
      type: eventType,
      time,
      data: Type.Object(
        { object: Type.Optional(Type.Object({}, { description: 'The resource' })) },
        { description: 'By convention its object is the resource' },
      ),
    },
    {
      description:
        'An event, a CloudEvent in JSON. With the attribute prefix of the service: <prefix>tenant, <prefix>stream, and <prefix>purpose, which is test for test events.',
    },
  ),
);

const data = Type.Object(
  {},
  {
    description:
      'Data of the event, delivered as the same JSON value with the digits of its numbers; the order of fields and the escapes of strings may change',
  },
);
/** The description of the `id` of an event to publish. */
export const idText = 'Event id, or an idempotency key from which the event id is made';
const key = Type.String({
  minLength: 1,
  maxLength: 255,
  description: idText,
});
const happened = Type.Optional(sentTime('When it happened; the time of acceptance unless sent'));

const newEvent = component('NewEvent', 'An event to publish', {
  type: eventType,
  data,
  id: Type.Optional(key),
  time: happened,
});

/** A CloudEvent to publish; further attributes are delivered unchanged. */
export const publishCloudEvent = named(
  'NewCloudEvent',
  Type.Object(
    {
      specversion: Type.Literal('1.0', { description: 'Version of CloudEvents' }),
      id: Type.String({ minLength: 1, maxLength: 1024, description: 'Unique within the source' }),
      source: Type.String({
        minLength: 1,
        maxLength: 2048,
        description: 'Where the event comes from; with id the idempotency key',
      }),
      type: eventType,
      data,
      time: happened,
    },
    { description: 'A CloudEvent to publish' },
  ),
);

/** The most events that one request publishes. */
const itemsMax = 1000;

/** One event or an array of them. */
export const publish = Type.Union(
  [newEvent, Type.Array(newEvent, { minItems: 1, maxItems: itemsMax })],
  { description: 'One event, or several' },
);

/** An array of them, for `application/cloudevents-batch+json`. */
export const publishCloudEvents = Type.Array(publishCloudEvent, {
  minItems: 1,
  maxItems: itemsMax,
});

/** Headers of a request to publish. */
export const publishHeaders = closed({
  'Idempotency-Key': Type.Optional(
    Type.String({
      description:
        'The id of the one event of the body, bare or in quotes, sent once; not for arrays and CloudEvents',
    }),
  ),
});

const accepted = component('AcceptedEvent', 'An accepted event', {
  id: eventId,
  offset: Type.String({ description: 'Position in the log' }),
  repeated: Type.Optional(
    Type.Literal(true, { description: 'The log had the event already; nothing was stored' }),
  ),
});

/** One for each event sent, in the same order. */
export const published = Type.Union([accepted, Type.Array(accepted)]);

export type NewEventSent = Static<typeof newEvent>;
export type CloudEventSent = Static<typeof publishCloudEvent>;
