import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { usageError } from './errors.ts';
import { dataOf } from './events.ts';
import { pathOf } from './http/api-client.ts';
import { findStream } from './stream.ts';
import { counted } from './terminal/progress.ts';

interface TestOptions extends CommonOptions {
  readonly filter?: string;
  readonly events?: string;
}

interface Tested {
  readonly read: number;
  readonly matched: number;
  readonly sample: readonly object[];
}

/** `leat streams filter-test` */
export function addFilterTest(streams: Command, deps: CliDeps): void {
  withCommonOptions(streams.command('filter-test <stream>'))
    .description('try a filter, or the present one of a stream, on the newest events of its types')
    .option('--filter <json>', 'condition to try: a JSON object, @file, or - for stdin')
    .option('--events <json>', 'envelopes to filter instead: a JSON array, @file, or - for stdin')
    .addHelpText(
      'after',
      examples(
        'leat streams filter-test crm --filter \'{"data.object.plan": "pro"}\'',
        'leat streams filter-test crm --filter @filter.json --events @events.json',
      ),
    )
    .action((stream: string, options: TestOptions) =>
      runWithApi(deps, options, (run) => testFilter(run, stream, options)),
    );
}

async function testFilter(run: ApiRun, stream: string, options: TestOptions): Promise<void> {
  const { api, terminal } = run;
  const { id, delivery } = await findStream(run, stream);
  const filter =
    options.filter === undefined
      ? delivery?.filter
      : await dataOf(options.filter, terminal, '--filter');
  if (filter === undefined) {
    throw usageError('The stream has no filter: add --filter with the condition to try.');
  }
  const events =
    options.events === undefined ? undefined : await dataOf(options.events, terminal, '--events');
  const path = pathOf`/event-streams/${id}/filter/test`;
  const response = await api.send({ method: 'POST', path, body: { filter, events } });
  show(run, response.text, () => testedLines(response.body as Tested));
}

function testedLines({ read, matched, sample }: Tested): string[] {
  const lines = sample.map((event) => printable(JSON.stringify(event)));
  return [`${matched} of ${counted(read, 'event')} match.`, ...lines];
}
