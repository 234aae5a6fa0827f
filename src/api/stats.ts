import { formatTime } from '../core/date.ts';
import { bucketSums, statsWindow, type StatsWindow } from '../core/stats.ts';
import type { Millis } from '../core/clock.ts';
import type { Stream } from '../core/types.ts';
import { dayMs } from '../core/units.ts';
import { streamParams } from '../schemas/schema.ts';
import { stats, statsQuery } from '../schemas/deliveries.ts';
import type { Store } from '../store/port/store.ts';
import { streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { badQuery } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import { type SentWindow, windowOf } from './formats.ts';

export interface StatsDeps {
  readonly store: Pick<Store, 'streams'>;
  readonly settings: Pick<ApiSettings, 'serviceName'>;
}

/** Bounds the response; counters are kept for 90 days, so further buckets would be empty. */
const windowMsMax = 366 * dayMs;

/** Creates the operation that reads the statistics of an event stream (docs/http-api.md#statistics). */
export function statsOperations({ store, settings }: StatsDeps): Operation[] {
  return [
    operation({
      operationId: 'readEventStreamStats',
      method: 'GET',
      path: '/event-streams/:id/stats',
      summary: 'Read the statistics of an event stream',
      description:
        'By default the last 14 days. Buckets are hours up to a window of 48 hours, else days, UTC.',
      tag: 'Event streams',
      scopes: ['read:event_streams', 'read:event_deliveries'],
      lifecycle: 'Early Access',
      params: streamParams,
      query: statsQuery,
      success: 200,
      response: stats,
      errors: [404],
      handle: async ({ tenant, params, query, now }) => {
        const window = statsWindowOf(query, now);
        const stream = await streamOf(store, tenant.id, params.id);
        const [from = window.from] = window.buckets;
        const to = from + window.buckets.length * window.bucketMs;
        const hours = await store.streams.stats(tenant.id, params.id, { from, to });
        return { body: showStats(stream, window, hours, settings.serviceName) };
      },
    }),
  ];
}

function statsWindowOf(query: SentWindow, now: Millis): StatsWindow {
  const requested = windowOf(query, badQuery);
  const { from = now, to = now } = requested;
  if (to - from > windowMsMax) {
    throw badQuery('The window is longer than 366 days', 'date_from', 'Earliest time, inclusive');
  }
  return statsWindow(requested, now);
}

function showStats(
  { id, name }: Stream,
  window: StatsWindow,
  hours: Awaited<ReturnType<Store['streams']['stats']>>,
  service: string,
): object {
  const metric = (metricName: string, kind: 'delivered' | 'failed'): object => {
    const counts = hours.map((row) => ({ hour: row.hour, count: row[kind] }));
    const data = bucketSums(window, counts);
    const total = data.reduce((sum, count) => sum + count, 0);
    return {
      name: `${service}.event_streams.${metricName}`,
      window_total: total,
      type: 'sum',
      data,
    };
  };
  return {
    id,
    name,
    window: {
      date_from: formatTime(window.from),
      date_to: formatTime(window.to),
      bucket_interval: { scale_factor: window.bucketMs / 1000 },
    },
    buckets: window.buckets.map(formatTime),
    metrics: [metric('successful_deliveries', 'delivered'), metric('failed_deliveries', 'failed')],
  };
}
