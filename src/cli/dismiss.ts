import type { Command } from 'commander';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { type FailureFilter, withFailureFilter } from './deliveries.ts';
import { usageError } from './errors.ts';
import { listOption } from './option.ts';
import { streamIdOf } from './stream.ts';
import { counted } from './terminal/progress.ts';

interface DismissOptions extends CommonOptions, FailureFilter {
  readonly error?: readonly string[];
  readonly all?: true;
  readonly dryRun?: true;
}

/** `leat dismiss` */
export function addDismissCommand(program: Command, deps: CliDeps): void {
  withFailureFilter(withCommonOptions(program.command('dismiss <stream> [event...]')), deps)
    .description('close failures without sending them: the named ones, or all that match')
    .option('--error <codes>', 'error codes, separated by commas: http_410, timeout', listOption)
    .option('--all', 'every failure of the stream')
    .option('--dry-run', 'count only')
    .addHelpText(
      'after',
      examples(
        'leat dismiss crm evt_…',
        'leat dismiss crm --error http_410 --dry-run',
        'leat dismiss crm --all',
      ),
    )
    .action((stream: string, events: readonly string[], options: DismissOptions) =>
      runWithApi(deps, options, (run) => dismiss(run, stream, events, options)),
    );
}

async function dismiss(
  run: ApiRun,
  stream: string,
  events: readonly string[],
  { type, since, until, error, all, dryRun }: DismissOptions,
): Promise<void> {
  if (events.length === 0 && (type ?? since ?? until ?? error ?? all) === undefined) {
    throw usageError('Name events, select by --type, --since, --until or --error, or use --all.');
  }
  const body = {
    event_stream_ids: [await streamIdOf(run.api, stream)],
    event_ids: events.length > 0 ? events : undefined,
    event_types: type,
    date_from: since,
    date_to: until,
    error_codes: error,
    dry_run: dryRun,
  };
  const response = await run.api.send({ method: 'POST', path: '/dismissals', body });
  show(run, response.text, () => {
    if (dryRun === true) {
      const { count } = response.body as { readonly count: number };
      return [`${counted(count, 'failure')} would be dismissed.`];
    }
    const { dismissed, skipped } = response.body as Readonly<Record<string, number>>;
    const left = skipped === 0 ? '' : ` ${skipped} skipped: a delivery is under way.`;
    return [`${counted(dismissed ?? 0, 'failure')} dismissed.${left}`];
  });
}
