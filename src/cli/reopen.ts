import type { Command } from 'commander';
import type { DismissalShown } from '../schemas/dismissals.ts';
import {
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
  withNumbers,
} from './command.ts';
import { followDismissal } from './dismiss.ts';
import { pathOf } from './http/api-client.ts';
import { counted } from './terminal/progress.ts';

/** `leat reopen` */
export function addReopenCommand(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('reopen <dismissal>'))
    .description('open the failures of a dismissal again, while their events are kept')
    .addHelpText('after', examples('leat reopen dsm_…'))
    .action((id: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const path = pathOf`/dismissals/${id}/reopen`;
        const response = await run.api.send({ method: 'POST', path, repeatable: true });
        const shown = await followDismissal(run, response.body as DismissalShown, 'Reopening');
        if (run.json) return run.terminal.print(JSON.stringify(shown));
        const { dismissed, reopened } = withNumbers<DismissalShown>(shown, 'dismissed', 'reopened');
        run.terminal.print(`${counted(reopened, 'failure')} open again.`);
        const left = dismissed - reopened;
        if (left > 0)
          run.terminal.note(
            `${left} stay dismissed: sent or failed since, no longer kept, or more than leave the stream enabled.`,
          );
      }),
    );
}
