import type { Command } from 'commander';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
  withNumbers,
} from './command.ts';
import { pathOf } from './http/api-client.ts';
import { streamIdOf } from './stream.ts';

/** `leat streams retry-now` */
export function addRetryNow(streams: Command, deps: CliDeps): void {
  withCommonOptions(streams.command('retry-now <stream>'))
    .description('retry at once every delivery that waits for a retry')
    .addHelpText('after', examples('leat streams retry-now crm'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, (run) => retryNow(run, stream)),
    );
}

async function retryNow(run: ApiRun, stream: string): Promise<void> {
  const id = await streamIdOf(run, stream);
  const path = pathOf`/event-streams/${id}/retry-now`;
  const response = await run.api.send({ method: 'POST', path });
  const { due } = withNumbers<{ readonly due: number }>(response.body, 'due');
  const text =
    due === 0
      ? 'No delivery waits for a retry.'
      : `${due} ${due === 1 ? 'delivery that waited for its retry is' : 'deliveries that waited for their retries are'} due now.`;
  show(run, response.text, () => [text]);
}
