import type { Millis } from '../core/clock.ts';
import { formatTime, withinYears } from '../core/date.ts';
import {
  type CountsSum,
  isTooLong,
  keptMs,
  type StatsUnit,
  unitSums,
  unitWindow,
} from '../core/delivery-stats.ts';
import type { Histogram } from '../core/histogram.ts';
import { mapInSlices, runInSlices } from '../core/slices.ts';
import { dayMs } from '../core/units.ts';
import {
  deliveryStats,
  deliveryStatsQuery,
  type DeliveryStatsShown,
} from '../schemas/delivery-stats.ts';
import type { Store } from '../store/port/store.ts';
import { windowOf } from './formats.ts';
import { badQuery } from './http/problem.ts';
import { streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';

export interface DeliveryStatsDeps {
  readonly store: Pick<Store, 'streams' | 'deliveryStats'>;
}

/** Creates the operation that reads the statistics of deliveries (docs/http-api.md#delivery-statistics). */
export function deliveryStatsOperations({ store }: DeliveryStatsDeps): Operation[] {
  return [
    operation({
      operationId: 'readDeliveryStats',
      method: 'GET',
      path: '/stats/deliveries',
      summary: 'Read the statistics of deliveries, by time',
      description:
        'Of one event stream, or of the tenant. Minutes are kept for 24 hours, hours for 90 days, days for 400.',
      tag: 'Health',
      scopes: ['read:event_streams'],
      lifecycle: 'Early Access',
      extension: true,
      query: deliveryStatsQuery,
      success: 200,
      response: deliveryStats,
      errors: [404],
      handle: async ({ tenant, query, now }) => {
        const { event_stream_id: stream, bucket: unit = 'hour' } = query;
        const window = unitWindow(unit, windowOf(query, badQuery), now);
        if (window.from > window.to) throw badFrom('date_from is later than the end of the window');
        if (!withinYears(window.from) || !withinYears(window.to)) {
          throw badFrom('A bucket of the window is not within the years 0 to 9999');
        }
        if (isTooLong(window)) throw tooLong(unit);
        if (stream !== undefined) await streamOf(store, tenant.id, stream);
        const rows = await store.deliveryStats.read({ tenant: tenant.id, stream }, window);
        const sums = await runInSlices(unitSums(window, rows));
        const body: DeliveryStatsShown = {
          bucket: unit,
          date_from: formatTime(window.from),
          date_to: formatTime(window.to),
          data: await mapInSlices(
            [...sums],
            ([at, sum]) => showPoint(at, sum, stream === undefined),
            () => pointCharacters,
          ),
        };
        return { body };
      },
    }),
  ];
}

/** Of a point as JSON, for the length of a slice. */
const pointCharacters = 512;

const longer: Readonly<Record<StatsUnit, string>> = {
  minute: 'use bucket=hour or a shorter window',
  hour: 'use bucket=day or a shorter window',
  day: 'use a shorter window',
};

function tooLong(unit: StatsUnit): ReturnType<typeof badQuery> {
  const days = keptMs[unit] / dayMs;
  const most = days === 1 ? '24 hours' : `${days} days`;
  const reason = `The window is longer than ${most}, as long as a ${unit} is kept; ${longer[unit]}`;
  return badFrom(reason);
}

function badFrom(reason: string): ReturnType<typeof badQuery> {
  return badQuery(reason, 'date_from', 'Earliest time, inclusive');
}

function showPoint(
  at: Millis,
  { published, delivered, failed, retried, latency, duration }: CountsSum,
  isTenant: boolean,
): DeliveryStatsShown['data'][number] {
  return {
    at: formatTime(at),
    ...(isTenant && { published }),
    delivered,
    failed,
    retried,
    latency_ms: showPercentiles(latency),
    duration_ms: showPercentiles(duration),
  };
}

function showPercentiles(histogram: Histogram): DeliveryStatsShown['data'][number]['latency_ms'] {
  const part = (share: number): number | null => histogram.percentile(share) ?? null;
  return { p50: part(0.5), p95: part(0.95), p99: part(0.99) };
}
