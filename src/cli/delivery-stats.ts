import type { DeliveryStatsShown } from '../schemas/delivery-stats.ts';
import { type ApiRun, show } from './command.ts';
import { type Column, tableLines } from './terminal/table.ts';
import { dayMs, hourMs, minuteMs } from '../core/units.ts';

/** What {@link showDeliveryStats} reads. */
export interface DeliveryStatsOptions {
  /** Absent for the whole tenant. */
  readonly stream?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly bucket?: string | undefined;
}

type Point = DeliveryStatsShown['data'][number];

/** Reads the statistics of deliveries by time, with percentiles, and prints them. */
export async function showDeliveryStats(
  run: ApiRun,
  { stream, since, until, bucket }: DeliveryStatsOptions,
): Promise<void> {
  const query = { event_stream_id: stream, date_from: since, date_to: until, bucket };
  const response = await run.api.send({ method: 'GET', path: '/stats/deliveries', query });
  const stats = response.body as DeliveryStatsShown;
  const { width, paint } = run.terminal;
  show(run, response.text, () => [
    ...tableLines(columnsOf(stats), stats.data, { width, paint }),
    '',
    totalLine(stats.data),
  ]);
}

function columnsOf({ bucket, data }: DeliveryStatsShown): Column<Point>[] {
  const isTenant = data.some(({ published }) => published !== undefined);
  const count = (header: string, key: 'published' | 'delivered' | 'retried'): Column<Point> => ({
    header,
    text: (point) => String(point[key] ?? 0),
    format: (point) => (point[key] === 0 ? 'dim' : undefined),
    align: 'right',
  });
  const latency = (key: 'p50' | 'p95'): Column<Point> => ({
    header: key.toUpperCase(),
    text: (point) => latencyText(point.latency_ms[key]),
    align: 'right',
  });
  return [
    {
      header: 'TIME (UTC)',
      text: ({ at }) =>
        bucket === 'day' ? at.slice(0, 10) : `${at.slice(0, 10)} ${at.slice(11, 16)}`,
    },
    ...(isTenant ? [count('PUBLISHED', 'published')] : []),
    count('DELIVERED', 'delivered'),
    {
      header: 'FAILED',
      text: ({ failed }) => String(failed),
      format: ({ failed }) => (failed === 0 ? 'dim' : 'red'),
      align: 'right',
    },
    count('RETRIED', 'retried'),
    latency('p50'),
    latency('p95'),
  ];
}

/** Returns a latency as people read it; a bar without a delivery has none. */
function latencyText(ms: number | null): string {
  return ms === null ? '-' : durationText(ms);
}

function totalLine(data: readonly Point[]): string {
  const sum = (key: 'published' | 'delivered' | 'failed' | 'retried'): number =>
    data.reduce((total, point) => total + (point[key] ?? 0), 0);
  const published = data.some((point) => point.published !== undefined)
    ? [`${sum('published')} published`]
    : [];
  const rest = (['delivered', 'failed', 'retried'] as const).map((key) => `${sum(key)} ${key}`);
  return `${[...published, ...rest].join(', ')}; p50 and p95 are of latency`;
}

/** Returns a duration with its largest fitting unit and two to three digits: `18 ms`, `1.2 s`, `3.5 h`. */
export function durationText(ms: number): string {
  const [size, unit] = units.find(([each]) => ms >= each) ?? [1, 'ms'];
  const value = ms / size;
  return `${value < 10 && unit !== 'ms' ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

const units: readonly (readonly [number, string])[] = [
  [dayMs, 'd'],
  [hourMs, 'h'],
  [minuteMs, 'min'],
  [1000, 's'],
];
