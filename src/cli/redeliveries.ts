import type { Command } from 'commander';
import type { RedeliveryShown } from '../schemas/redeliveries.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { pathOf } from './http/api-client.ts';
import { allPages } from './http/pages.ts';
import { writeJson } from './json.ts';
import { followRedelivery, progressIn } from './redelivery-progress.ts';
import { type Column, pairLines, shortTime, tableLines } from './terminal/table.ts';
import type { Paint } from './terminal/terminal.ts';

/** `leat redeliveries …`: they go on without the command that started them. */
export function addRedeliveryCommands(redeliveries: Command, deps: CliDeps): void {
  withCommonOptions(redeliveries.command('list'))
    .description('list the redeliveries of failures, newest first')
    .addHelpText('after', examples('leat redeliveries list'))
    .action((options: CommonOptions) => runWithApi(deps, options, list));
  withCommonOptions(redeliveries.command('show <redelivery>'))
    .description('show the progress of a redelivery')
    .option('--wait', 'wait for its end')
    .addHelpText('after', examples('leat redeliveries show rdl_… --wait'))
    .action((id: string, options: CommonOptions & { readonly wait?: true }) =>
      runWithApi(deps, options, (run) => showRedelivery(run, id, options.wait === true)),
    );
  withCommonOptions(redeliveries.command('cancel <redelivery>'))
    .description('cancel what has not begun; its failures stay open')
    .addHelpText('after', examples('leat redeliveries cancel rdl_…'))
    .action((id: string, options: CommonOptions) =>
      runWithApi(deps, options, async ({ api, terminal, json }) => {
        await api.send({ method: 'DELETE', path: pathOf`/redeliveries/${id}` });
        if (!json) terminal.print('Cancelled the redelivery.');
      }),
    );
}

async function list({ api, terminal, json }: ApiRun): Promise<void> {
  const all = await allPages<RedeliveryShown>(api, '/redeliveries', 'redeliveries');
  if (json) return terminal.print(writeJson(all));
  if (all.length === 0) return terminal.note('No redeliveries.');
  for (const line of tableLines(columns, all, terminal)) terminal.print(line);
}

async function showRedelivery(run: ApiRun, id: string, wait: boolean): Promise<void> {
  const response = await run.api.send({ method: 'GET', path: pathOf`/redeliveries/${id}` });
  const shown = progressIn(response.body);
  if (wait) return followRedelivery(run, shown);
  show(run, response.text, () => linesOf(shown, run.terminal.paint));
}

const columns: readonly Column<RedeliveryShown>[] = [
  { header: 'REDELIVERY', text: ({ id }) => id },
  { header: 'STATUS', text: ({ status }) => status },
  { header: 'TOTAL', text: ({ total }) => String(total), align: 'right' },
  { header: 'DELIVERED', text: ({ delivered }) => String(delivered), align: 'right' },
  { header: 'FAILED', text: ({ failed }) => String(failed), align: 'right' },
  { header: 'SKIPPED', text: ({ skipped }) => String(skipped), align: 'right' },
  { header: 'STARTED', text: ({ created_at: at }) => shortTime(at) },
];

function linesOf(
  { id, status, total, delivered, failed, skipped, remaining, ...rest }: RedeliveryShown,
  paint: Paint,
): string[] {
  return pairLines(
    [
      ['Redelivery', id],
      ['Status', status],
      ['Failures', String(total)],
      ['Delivered', String(delivered)],
      ['Failed', String(failed)],
      ['Skipped', String(skipped)],
      ['Left', String(remaining)],
      ['Started', `${shortTime(rest.created_at)} by ${rest.created_by}`],
    ],
    paint,
  );
}
