import { type Static, Type } from 'typebox';
import { closed, component, sentTime, streamId, time } from './schema.ts';

const bucket = Type.Union([Type.Literal('minute'), Type.Literal('hour'), Type.Literal('day')]);

/** Query of the statistics of deliveries. */
export const deliveryStatsQuery = closed({
  event_stream_id: Type.Optional(
    Type.String({ ...streamId, description: 'One event stream; the tenant unless sent' }),
  ),
  date_from: Type.Optional(sentTime('Earliest time, inclusive')),
  date_to: Type.Optional(sentTime('Latest time, exclusive; now unless sent')),
  bucket: Type.Optional(
    Type.Union(bucket.anyOf, { default: 'hour', description: 'Length of a bucket' }),
  ),
});

const count = (description: string) => Type.Integer({ minimum: 0, description });
const percentile = Type.Union([Type.Number(), Type.Null()], {
  description: 'Milliseconds, at most 10 % off; null without any',
});
const percentiles = (description: string) =>
  closed({ p50: percentile, p95: percentile, p99: percentile }, { description });

const point = closed(
  {
    at: time,
    published: Type.Optional(count('Events accepted; of the tenant only')),
    delivered: count('Deliveries that succeeded'),
    failed: count('Deliveries that became failures'),
    retried: count('Attempts that failed and were followed by another one'),
    latency_ms: percentiles('From acceptance to success, of first deliveries'),
    duration_ms: percentiles('Of attempts'),
  },
  { description: 'One bucket; at is its start' },
);

/** Statistics of deliveries by time. */
export const deliveryStats = component('DeliveryStats', 'What became of deliveries, by time', {
  bucket,
  date_from: time,
  date_to: time,
  data: Type.Array(point, { description: 'Every bucket of the window, oldest first' }),
});

export type DeliveryStatsShown = Static<typeof deliveryStats>;
