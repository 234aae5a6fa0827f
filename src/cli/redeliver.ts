import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import type { FailurePreviewShown } from '../schemas/failures.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
  withNumbers,
} from './command.ts';
import { causeOption } from './cause.ts';
import { type FailureFilter, withFailureFilter } from './deliveries.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { terminalSafe } from './json.ts';
import { followRedelivery, progressIn, reportRedelivery } from './redelivery-progress.ts';
import { streamIdOf } from './stream.ts';
import { counted } from './terminal/progress.ts';

interface RedeliverOptions extends CommonOptions, FailureFilter {
  readonly cause?: readonly string[];
  readonly all?: true;
  readonly dryRun?: true;
  readonly wait: boolean;
}

/** `leat redeliver` */
export function addRedeliverCommand(program: Command, deps: CliDeps): void {
  withFailureFilter(withCommonOptions(program.command('redeliver [stream] [event...]')), deps)
    .description(
      'send failures again: the named ones, else all that match, of one stream or of all',
    )
    .option('--cause <codes>', 'failures of these causes: 503, 5xx, timeout, …', causeOption)
    .option('--all', 'the failures of all streams, without a stream')
    .option('--dry-run', 'count only')
    .option('--no-wait', 'do not wait for the redeliveries to end')
    .addHelpText(
      'after',
      examples(
        'leat redeliver crm',
        'leat redeliver crm evt_…',
        'leat redeliver crm --type user.created --since 2026-03-01 --no-wait',
        'leat redeliver --cause http_503 --dry-run',
      ),
    )
    .action((stream: string | undefined, events: readonly string[], options: RedeliverOptions) =>
      runWithApi(deps, options, (run) => redeliver(run, stream, events, options)),
    );
}

async function redeliver(
  run: ApiRun,
  stream: string | undefined,
  events: readonly string[],
  { cause, all, dryRun, type, since, until, wait }: RedeliverOptions,
): Promise<void> {
  const isFiltered = (cause ?? all ?? type ?? since ?? until) !== undefined;
  if (events.length > 0 && isFiltered) {
    const options = '--cause, --type, --since, --until or --all';
    throw usageError(`Name events, or use ${options}, not both.`);
  }
  if (stream === undefined && !isFiltered) {
    throw usageError('Name a stream, select by --cause, --type, --since or --until, or use --all.');
  }
  const selection = {
    event_stream_ids: stream === undefined ? undefined : [await streamIdOf(run, stream)],
    event_ids: events.length > 0 ? events : undefined,
    error_codes: cause,
    event_types: type,
    date_from: since,
    date_to: until,
    all,
  };
  const count = dryRun === true ? await preview(run, selection) : await start(run, selection, wait);
  const others = new Set(events).size - count;
  if (others <= 0) return;
  const are = others === 1 ? '1 named event is' : `${others} named events are`;
  const message = `${are} no open failure: ${run.leat`why <event>`} shows what became of one.`;
  throw new CommandFailed(exitCodes.notFound, message);
}

/** Prints what a redelivery would send, and returns how many failures match. */
async function preview({ api, terminal, json }: ApiRun, selection: object): Promise<number> {
  const body = { ...selection, dry_run: true };
  const response = await api.send({ method: 'POST', path: '/redeliveries', body });
  const { count, groups } = withNumbers<FailurePreviewShown>(response.body, 'count');
  if (json) {
    terminal.print(terminalSafe(response.text));
    return count;
  }
  terminal.print(`${counted(count, 'failure')} would be sent again.`);
  for (const group of groups) {
    terminal.print(`  ${printable(group.name)}: ${group.count} ${group.error_code ?? 'unknown'}`);
  }
  return count;
}

/**
 * Starts a redelivery, waits for its end unless `wait` is false, and returns how many failures it has.
 * Throws {@link CommandFailed} when some failed again.
 */
async function start(run: ApiRun, selection: object, wait: boolean): Promise<number> {
  const { api, terminal, json, leat } = run;
  const response = await api.send({ method: 'POST', path: '/redeliveries', body: selection });
  const shown = progressIn(response.body);
  const { total, remaining, at_least: isAtLeast } = shown;
  if (wait) {
    if (shown.status === 'running') {
      const id = printable(shown.id);
      terminal.note(
        `Redelivery ${id} is running; Ctrl-C does not cancel it. This does: ${leat`redeliveries cancel ${id}`}`,
      );
    }
    await followRedelivery(run, shown);
  } else if (json) terminal.print(terminalSafe(response.text));
  else if (total === 0) reportRedelivery(run, shown);
  else terminal.print(`${counted(remaining, 'failure', isAtLeast)} will be sent again.`);
  return total;
}
