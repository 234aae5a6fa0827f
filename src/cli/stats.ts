import { type Command, Option } from 'commander';
import {
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { showDeliveryStats } from './delivery-stats.ts';
import { type ApiClient, pathOf } from './http/api-client.ts';
import { streamIdOf } from './stream.ts';
import { chartLines } from './terminal/chart.ts';
import { instantOption } from './time.ts';

/** The fields of the statistics that are shown (docs/http-api.md#statistics). */
export interface StatsShown {
  readonly name: string;
  readonly buckets: readonly string[];
  readonly window: { readonly bucket_interval: { readonly scale_factor: number } };
  readonly metrics: readonly {
    readonly name: string;
    readonly window_total: number;
    readonly data: readonly number[];
  }[];
}

interface StatsOptions extends CommonOptions {
  readonly since?: string;
  readonly until?: string;
  readonly bucket?: string;
}

/** `leat stats` */
export function addStatsCommand(program: Command, deps: CliDeps): void {
  const instant = instantOption(deps.clock.now);
  withCommonOptions(program.command('stats [stream]'))
    .description(
      'numbers and latency of all streams by hour, 24 hours by default; with a stream its successes and failures as bars, 14 days by default',
    )
    .option('--since <time>', 'from this time: a date, or 15m, 2h, 3d ago', instant)
    .option('--until <time>', 'to this time', instant)
    .addOption(
      new Option(
        '--bucket <length>',
        'a line per minute, hour or day, with percentiles of latency, also of one stream',
      ).choices(['minute', 'hour', 'day']),
    )
    .addHelpText(
      'after',
      examples(
        'leat stats',
        'leat stats --since 30m --bucket minute',
        'leat stats crm',
        'leat stats crm --since 7d --bucket day',
      ),
    )
    .action((stream: string | undefined, options: StatsOptions) =>
      runWithApi(deps, options, async (run) => {
        if (stream === undefined) return showDeliveryStats(run, options);
        const id = await streamIdOf(run, stream);
        if (options.bucket !== undefined) return showDeliveryStats(run, { ...options, stream: id });
        const response = await readStats(run.api, id, options);
        const width = run.terminal.width ?? 80;
        show(run, response.text, () =>
          statsLines(response.stats, { width, paint: run.terminal.paint }),
        );
      }),
    );
}

/** Reads the statistics of a stream over a window, by default the last 14 days. */
export async function readStats(
  api: ApiClient,
  id: string,
  { since, until }: { readonly since?: string; readonly until?: string } = {},
): Promise<{ readonly text: string; readonly stats: StatsShown }> {
  const path = pathOf`/event-streams/${id}/stats`;
  const query = { date_from: since, date_to: until };
  const { text, body } = await api.send({ method: 'GET', path, query });
  return { text, stats: body as StatsShown };
}

/** Returns how many deliveries of the window succeeded or failed. */
export function totalOf({ metrics }: StatsShown, which: 'successful' | 'failed'): number {
  return metricOf(metrics, which)?.window_total ?? 0;
}

function statsLines(stats: StatsShown, style: Parameters<typeof chartLines>[1]): string[] {
  const isHourly = stats.window.bucket_interval.scale_factor === 3600;
  const rows = stats.buckets.map((bucket, index) => ({
    label: isHourly ? `${bucket.slice(0, 10)} ${bucket.slice(11, 16)}` : bucket.slice(0, 10),
    good: metricOf(stats.metrics, 'successful')?.data[index] ?? 0,
    bad: metricOf(stats.metrics, 'failed')?.data[index] ?? 0,
  }));
  const totals = `${totalOf(stats, 'successful')} delivered, ${totalOf(stats, 'failed')} failed`;
  return [...chartLines(rows, style), '', totals];
}

/** Finds a metric; its name begins with the name of the service. */
function metricOf(
  metrics: StatsShown['metrics'],
  which: 'successful' | 'failed',
): StatsShown['metrics'][number] | undefined {
  return metrics.find(({ name }) => name.endsWith(`.${which}_deliveries`));
}
