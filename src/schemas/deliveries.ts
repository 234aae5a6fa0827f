import { Type, type Static } from 'typebox';
import {
  closed,
  component,
  eventId,
  eventType,
  next,
  pageQuery,
  sentTime,
  streamId,
  time,
} from './schema.ts';
import { envelope } from './events.ts';

/** Path of one delivery. */
export const deliveryParams = closed({ id: streamId, event_id: eventId });

const dateFrom = sentTime('Earliest time, inclusive');
const dateTo = sentTime('Latest time, exclusive');

/** Query of the list of failures. */
export const deliveriesQuery = closed({
  ...pageQuery,
  statuses: Type.Optional(
    Type.String({ maxLength: 1024, description: 'Statuses, comma separated; only failed is one' }),
  ),
  event_types: Type.Optional(
    Type.String({ maxLength: 16_384, description: 'Event types, comma separated' }),
  ),
  date_from: Type.Optional(dateFrom),
  date_to: Type.Optional(dateTo),
});

const attempt = closed(
  {
    status: Type.Union([Type.Literal('failed'), Type.Literal('retrying')], {
      description: 'retrying marks an accepted redelivery',
    }),
    timestamp: time,
    duration: Type.Optional(Type.Number({ description: 'Milliseconds' })),
    error_message: Type.Optional(Type.String({ description: 'Why it failed' })),
  },
  { description: 'An attempt' },
);

/** A failure, or the test event that was just accepted. */
export const delivery = component('EventDelivery', 'A delivery', {
  id: eventId,
  event_stream_id: streamId,
  event_type: eventType,
  status: Type.Union([Type.Literal('failed'), Type.Literal('pending')], {
    description: 'pending in the response to a test event only',
  }),
  attempts: Type.Array(attempt, { maxItems: 100, description: 'Oldest first' }),
  event: envelope,
});

/** The list: a bare array, or a page if `take` or `from` was sent. */
export const deliveries = Type.Union([
  Type.Array(delivery, { description: 'Neither take nor from was sent' }),
  closed({ deliveries: Type.Array(delivery), next }),
]);

/** Filter of the failures to redeliver; absent fields do not restrict. */
export const redelivery = component('Redelivery', 'Failures to send again', {
  date_from: Type.Optional(dateFrom),
  date_to: Type.Optional(dateTo),
  statuses: Type.Optional(
    Type.Array(Type.Literal('failed'), { description: 'Only failed is one' }),
  ),
  event_types: Type.Optional(Type.Array(eventType, { description: 'Event types' })),
});

/** Response to making waiting retries due. */
export const retryNow = closed({
  due: Type.Integer({ description: 'Deliveries that waited for a retry, and are due now' }),
});

/** Body of a test event. */
export const testEvent = component('TestEvent', 'A test event', {
  event_type: eventType,
  data: Type.Optional(Type.Object({}, { description: 'Data of the event; a sample unless sent' })),
});

export type DeliveryShown = Static<typeof delivery>;
export type TestEventSent = Static<typeof testEvent>;

/** Query of the statistics. */
export const statsQuery = closed({
  date_from: Type.Optional(dateFrom),
  date_to: Type.Optional(dateTo),
});

const metric = closed({
  name: Type.String({ description: 'Name of the metric' }),
  window_total: Type.Integer({ description: 'Sum over the window' }),
  type: Type.Literal('sum'),
  data: Type.Array(Type.Integer(), { description: 'One number for each bucket' }),
});

/** Finished deliveries, in buckets. */
export const stats = component('EventStreamStats', 'Statistics of an event stream', {
  id: streamId,
  name: Type.String(),
  window: closed({
    date_from: time,
    date_to: time,
    bucket_interval: closed({ scale_factor: Type.Integer({ description: 'Seconds' }) }),
  }),
  buckets: Type.Array(time, { description: 'Start of each bucket' }),
  metrics: Type.Array(metric),
});

export type DeliveriesQuery = Static<typeof deliveriesQuery>;
