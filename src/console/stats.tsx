import type { DeliveryStatsShown } from '../schemas/delivery-stats.ts';
import { ticks } from './clock.ts';
import { useParameters } from './location.ts';
import { Chart } from './parts/chart.tsx';
import { Choices } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { count, duration } from './parts/numbers.ts';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';

/** Windows of time, with the buckets that they are shown in. */
const windows = {
  hour: { text: 'Hour', ms: 3_600_000, bucket: 'minute', bucketMs: 60_000 },
  day: { text: 'Day', ms: 86_400_000, bucket: 'hour', bucketMs: 3_600_000 },
  week: { text: 'Week', ms: 7 * 86_400_000, bucket: 'hour', bucketMs: 3_600_000 },
} as const;

type WindowName = keyof typeof windows;

/** Lets one choose the window of the charts of a page. */
export function WindowChoices({ initial }: { readonly initial: WindowName }) {
  const names = Object.keys(windows) as WindowName[];
  const choices = names.map((name) => ({
    value: name === initial ? '' : name,
    text: windows[name].text,
  }));
  return <Choices name="window" label="Window of time" choices={choices} />;
}

/** Reads the numbers of the window that the address names, of one stream or of the tenant. */
function useStats(initial: WindowName, streamId?: string) {
  const present = useParameters().get('window') ?? initial;
  const { ms, bucket, bucketMs } = windows[present in windows ? (present as WindowName) : initial];
  // A new path only when a bucket has begun.
  const end = Math.ceil(ticks.value / bucketMs) * bucketMs;
  const path = withQuery('/stats/deliveries', {
    event_stream_id: streamId,
    date_from: new Date(end - ms).toISOString(),
    bucket,
  });
  return useRead<DeliveryStatsShown>(path);
}

interface StatsProps {
  readonly initial: WindowName;
  readonly streamId?: string;
}

/** Shows what was published, delivered and failed over time. */
export function TrafficChart({ initial, streamId }: StatsProps) {
  const read = useStats(initial, streamId);
  return (
    <Loaded read={read}>
      {({ data, bucket }) => (
        <>
          <Sums data={data} />
          <Chart
            title={`Events by ${bucket}`}
            times={data.map(({ at }) => at)}
            format={count}
            series={[
              ...(streamId === undefined
                ? [
                    {
                      name: 'Published',
                      tone: 'muted' as const,
                      values: data.map(({ published = 0 }) => published),
                    },
                  ]
                : []),
              { name: 'Delivered', tone: 'accent', values: data.map((point) => point.delivered) },
              {
                name: 'Failed',
                tone: 'bad',
                isDashed: true,
                values: data.map((point) => point.failed),
              },
            ]}
          />
        </>
      )}
    </Loaded>
  );
}

/** Says how many events the window had. */
function Sums({ data }: Pick<DeliveryStatsShown, 'data'>) {
  const sum = (valueOf: (point: (typeof data)[number]) => number): string =>
    count(data.reduce((total, point) => total + valueOf(point), 0));
  const isTenant = data.some(({ published }) => published !== undefined);
  return (
    <p class="sums">
      {isTenant && <span>{sum(({ published = 0 }) => published)} published</span>}
      <span>{sum(({ delivered }) => delivered)} delivered</span>
      <span>{sum(({ failed }) => failed)} failed</span>
    </p>
  );
}

/** Shows how long deliveries took over time, from acceptance to success. */
export function LatencyChart({ initial, streamId }: StatsProps) {
  const read = useStats(initial, streamId);
  return (
    <Loaded read={read}>
      {({ data }) => (
        <Chart
          title="From acceptance to success"
          // As high as the chart beside it with its sums.
          height={228}
          times={data.map(({ at }) => at)}
          format={duration}
          series={[
            { name: 'Median', tone: 'accent', values: data.map((point) => point.latency_ms.p50) },
            {
              name: '95 of 100 within',
              tone: 'info',
              isDashed: true,
              values: data.map((point) => point.latency_ms.p95),
            },
          ]}
        />
      )}
    </Loaded>
  );
}
