import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import type { DismissalShown } from '../schemas/dismissals.ts';
import { causeOption } from './cause.ts';
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
import { type FailureFilter, withFailureFilter } from './deliveries.ts';
import { confirmed } from './confirm.ts';
import { usageError } from './errors.ts';
import { streamIdOf } from './stream.ts';
import { pathOf } from './http/api-client.ts';
import { counted, progressText } from './terminal/progress.ts';

interface DismissOptions extends CommonOptions, FailureFilter {
  readonly cause?: readonly string[];
  readonly all?: true;
  readonly dryRun?: true;
  readonly yes?: true;
}

/** `leat dismiss` */
export function addDismissCommand(program: Command, deps: CliDeps): void {
  withFailureFilter(withCommonOptions(program.command('dismiss [stream] [event...]')), deps)
    .description('close failures without sending them: the named ones, or all that match')
    .option('--cause <codes>', 'failures of these causes: 404, 4xx, timeout, …', causeOption)
    .option('--all', 'every failure of the stream, or of all streams without one')
    .option('--dry-run', 'count only')
    .option('--yes', 'with --all: do not ask for confirmation')
    .addHelpText(
      'after',
      examples(
        'leat dismiss crm evt_…',
        'leat dismiss crm --cause 404 --dry-run',
        'leat dismiss --cause 404',
        'leat dismiss crm --all',
      ),
    )
    .action((stream: string | undefined, events: readonly string[], options: DismissOptions) =>
      runWithApi(deps, options, (run) => dismiss(run, stream, events, options)),
    );
}

async function dismiss(
  run: ApiRun,
  stream: string | undefined,
  events: readonly string[],
  { type, since, until, cause, all, dryRun, yes }: DismissOptions,
): Promise<void> {
  if (events.length === 0 && (type ?? since ?? until ?? cause ?? all) === undefined) {
    throw usageError('Name events, select by --type, --since, --until or --cause, or use --all.');
  }
  const body = {
    event_stream_ids: stream === undefined ? undefined : [await streamIdOf(run, stream)],
    all,
    event_ids: events.length > 0 ? events : undefined,
    event_types: type,
    date_from: since,
    date_to: until,
    error_codes: cause,
    dry_run: dryRun,
  };
  if (all === true && dryRun !== true && !(await mayDismissAll(run, stream, body, yes))) return;
  const response = await run.api.send({ method: 'POST', path: '/dismissals', body });
  if (dryRun === true) {
    show(run, response.text, () => {
      const { count } = withNumbers<{ readonly count: number }>(response.body, 'count');
      return [`${counted(count, 'failure')} would be dismissed.`];
    });
    return;
  }
  report(run, await followDismissal(run, response.body as DismissalShown, 'Dismissing'));
}

/** Asks before everything is dismissed; the question has the count. */
async function mayDismissAll(
  run: ApiRun,
  stream: string | undefined,
  body: object,
  yes: true | undefined,
): Promise<boolean> {
  if (yes === true || !run.terminal.interactive) return confirmed(run, '', yes);
  const preview = { ...body, dry_run: true };
  const response = await run.api.send({ method: 'POST', path: '/dismissals', body: preview });
  const { count } = withNumbers<{ readonly count: number }>(response.body, 'count');
  const where = stream === undefined ? 'all event streams' : printable(stream);
  return confirmed(run, `Dismiss ${counted(count, 'failure')} of ${where}?`, yes);
}

/** Waits until a dismissal, or its reopening, is done, and shows its progress. */
async function followDismissal(
  run: ApiRun,
  accepted: DismissalShown,
  label: 'Dismissing' | 'Reopening',
): Promise<DismissalShown> {
  const { api, terminal, clock, signal } = run;
  let shown = accepted;
  for (let waitMs = firstPollMs; shown.status === 'running'; waitMs = pollMs) {
    const progress = { label, ...progressOf(shown, label) };
    terminal.progress(progressText(progress, terminal.progressWidth));
    await sleep(clock, waitMs, signal);
    signal.throwIfAborted();
    const path = pathOf`/dismissals/${shown.id}`;
    shown = (await api.send({ method: 'GET', path })).body as DismissalShown;
  }
  return shown;
}

function progressOf(
  { total, dismissed, skipped, reopened }: DismissalShown,
  label: 'Dismissing' | 'Reopening',
): { readonly done: number; readonly total: number; readonly notes: readonly string[] } {
  if (label === 'Reopening') {
    return { done: reopened, total: dismissed, notes: [`${reopened} open again`] };
  }
  const notes = [`${dismissed} dismissed`, `${total - dismissed - skipped} left`];
  return { done: dismissed + skipped, total, notes };
}

/** Few failures are dismissed by then. */
const firstPollMs = 100;
const pollMs = 1000;

function report({ terminal, json, leat }: ApiRun, shown: DismissalShown): void {
  const { total, dismissed, skipped } = withNumbers<DismissalShown>(
    shown,
    'total',
    'dismissed',
    'skipped',
  );
  if (json) return terminal.print(JSON.stringify(shown));
  if (total === 0) return terminal.print('No failures; nothing to dismiss.');
  const left = skipped === 0 ? '' : ` ${skipped} skipped: a delivery is under way.`;
  terminal.print(`${counted(dismissed, 'failure')} dismissed.${left}`);
  if (dismissed > 0) terminal.note(`This opens them again: ${leat`reopen ${shown.id}`}`);
}

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
