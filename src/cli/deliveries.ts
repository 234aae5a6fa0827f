import type { Command } from 'commander';
import { disabledMessage } from '../core/health.ts';
import { wordOf } from '../core/stream-word.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { causeOption } from './cause.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { type ApiClient, pathOf, type Query } from './http/api-client.ts';
import { allPages } from './http/pages.ts';
import { indented, writeJson } from './json.ts';
import type { LeatCommand } from './leat-command.ts';
import { listOption, wholeNumberOption } from './option.ts';
import { allStreams, streamIdOf } from './stream.ts';
import { type Column, dateColumn, pairLines, shortTime, tableLines } from './terminal/table.ts';
import type { Paint } from './terminal/terminal.ts';
import { instantOption } from './time.ts';
import { showTraced } from './why.ts';

/** The fields of a failure that are shown (docs/http-api.md#failure-object). */
export interface FailureShown {
  readonly id: string;
  readonly event_type: string;
  readonly attempts: readonly AttemptShown[];
  readonly event: { readonly time?: string; readonly [attribute: string]: unknown };
}

/** An attempt, or the entry of an accepted redelivery (status `retrying`). */
export interface AttemptShown {
  readonly status: string;
  readonly timestamp: string;
  readonly duration?: number;
  readonly error_message?: string;
}

/** Selects failures; all of them without any field. */
export interface FailureFilter {
  readonly type?: readonly string[];
  readonly since?: string;
  readonly until?: string;
}

interface ListOptions extends CommonOptions, FailureFilter {
  readonly limit?: number;
  readonly all?: true;
  readonly status?: readonly string[];
  readonly failedSince?: string;
  readonly failedUntil?: string;
}

/** `leat deliveries …` */
export function addDeliveryCommands(deliveries: Command, deps: CliDeps): void {
  withFailureFilter(withCommonOptions(deliveries.command('list [stream]')), deps)
    .description('list the failures of a stream, or of all streams, newest first')
    .option('--all', 'the failures of all streams')
    .option('--status <codes>', 'of these causes: 503, 5xx, timeout, …', causeOption)
    .option(
      '--failed-since <time>',
      'failures of this time or later',
      instantOption(deps.clock.now),
    )
    .option('--failed-until <time>', 'failures before this time', instantOption(deps.clock.now))
    .option('--limit <count>', 'maximum number of failures', wholeNumberOption(1, 1_000_000))
    .addHelpText(
      'after',
      examples(
        'leat deliveries list crm',
        'leat deliveries list crm --type user.created --since 2h',
        'leat deliveries list --all --status 503 --failed-since 1h',
      ),
    )
    .action((stream: string | undefined, options: ListOptions) =>
      runWithApi(deps, options, (run) => listSelected(run, stream, options)),
    );
  withCommonOptions(deliveries.command('show <stream> <event>'))
    .description(
      'show one failure with its attempts and its event, or what became of another event',
    )
    .addHelpText('after', examples('leat deliveries show crm evt_…'))
    .action((stream: string, event: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const id = await streamIdOf(run, stream);
        const path = pathOf`/event-streams/${id}/deliveries/${event}`;
        const found = await run.api.send({ method: 'GET', path }).catch(undefinedIfNotFound);
        // An event that exists may be no failure at this stream.
        if (found === undefined) return showTraced(run, event, { stream: id });
        show(run, found.text, () => failureLines(found.body as FailureShown, run.terminal.paint));
      }),
    );
}

function undefinedIfNotFound(error: unknown): undefined {
  if (error instanceof CommandFailed && error.exitCode === exitCodes.notFound) return undefined;
  throw error;
}

/** Adds the options of {@link FailureFilter}. */
export function withFailureFilter(command: Command, { clock }: Pick<CliDeps, 'clock'>): Command {
  const instant = instantOption(clock.now);
  return command
    .option('--type <types>', 'event types, separated by commas', listOption)
    .option(
      '--since <time>',
      'events that happened at this time or later: a date, or 15m, 2h, 3d ago',
      instant,
    )
    .option('--until <time>', 'events that happened before this time', instant);
}

/** Returns the failures that match a filter, newest first, from all pages. */
function failuresOf(
  api: ApiClient,
  stream: string,
  filter: FailureFilter,
  itemsMax?: number,
): Promise<FailureShown[]> {
  const query: Query = {
    event_types: filter.type?.join(','),
    date_from: filter.since,
    date_to: filter.until,
  };
  const path = pathOf`/event-streams/${stream}/deliveries`;
  return allPages(
    api,
    path,
    'deliveries',
    itemsMax === undefined ? { query } : { query, itemsMax },
  );
}

/** Lists over streams, or by the cause or the time of failures, where that is requested. */
async function listSelected(
  run: ApiRun,
  stream: string | undefined,
  options: ListOptions,
): Promise<void> {
  const { all, status, failedSince, failedUntil } = options;
  if (stream !== undefined && all === true)
    throw usageError('Name a stream or use --all, not both.');
  if (stream === undefined && all !== true) throw usageError('Name a stream, or use --all.');
  const isPlain = (status ?? failedSince ?? failedUntil) === undefined;
  if (stream !== undefined && isPlain) return listDeliveries(run, stream, options);
  await listAll(run, stream, options);
}

interface ListedFailure extends FailureShown {
  readonly event_stream_id: string;
  readonly error_code: string | null;
  readonly failed_at: string;
}

async function listAll(
  run: ApiRun,
  stream: string | undefined,
  options: ListOptions,
): Promise<void> {
  const { api, terminal, json } = run;
  const query: Query = {
    event_stream_ids: stream === undefined ? undefined : await streamIdOf(run, stream),
    error_codes: options.status?.join(','),
    failed_from: options.failedSince,
    failed_to: options.failedUntil,
    event_types: options.type?.join(','),
    date_from: options.since,
    date_to: options.until,
  };
  const { limit } = options;
  const paging = limit === undefined ? { query } : { query, itemsMax: limit };
  const failures = await allPages<ListedFailure>(api, '/deliveries', 'deliveries', paging);
  if (json) return terminal.print(writeJson(failures));
  const names = failures.length === 0 ? new Map<string, string>() : await namesOf(api);
  const nameOf = ({ event_stream_id: id }: ListedFailure): string => names.get(id) ?? id;
  for (const line of tableLines(allColumns(nameOf), failures, terminal)) terminal.print(line);
  terminal.note(
    failures.length === 0 ? 'No failures.' : `What became of one: ${run.leat`why <event>`}`,
  );
}

/** Returns the names of the streams by id; none where the client may not read them. */
async function namesOf(api: ApiClient): Promise<ReadonlyMap<string, string>> {
  try {
    return new Map((await allStreams(api)).map(({ id, name }) => [id, name]));
  } catch (error) {
    if (error instanceof CommandFailed && error.exitCode === exitCodes.authentication) {
      return new Map();
    }
    throw error;
  }
}

const allColumns = (nameOf: (failure: ListedFailure) => string): Column<ListedFailure>[] => [
  { header: 'EVENT', text: ({ id }) => id },
  { header: 'STREAM', text: nameOf },
  { header: 'CAUSE', text: ({ error_code: code }) => code ?? 'unknown', format: () => 'red' },
  dateColumn('FAILED', ({ failed_at: at }) => at),
  { header: 'TYPE', text: ({ event_type: type }) => type, cuttable: true },
];

async function listDeliveries(run: ApiRun, stream: string, options: ListOptions): Promise<void> {
  const { api, terminal, json } = run;
  const id = await streamIdOf(run, stream);
  const failures = await failuresOf(api, id, options, options.limit);
  if (json) return terminal.print(writeJson(failures));
  for (const line of tableLines(columns, failures, terminal)) terminal.print(line);
  if (failures.length === 0) terminal.note('No failures.');
  else
    terminal.note(`Send them again: ${redeliverCommand(run.leat, { id, name: stream }, options)}`);
}

/** Returns the command that sends again what a filter selects. */
function redeliverCommand(
  leat: LeatCommand,
  stream: Parameters<typeof wordOf>[0],
  { type, since, until }: FailureFilter,
): string {
  const filter: string[] = [];
  if (type !== undefined) filter.push('--type', type.join(','));
  if (since !== undefined) filter.push('--since', since);
  if (until !== undefined) filter.push('--until', until);
  return leat`redeliver ${wordOf(stream)} ${filter}`;
}

/** Returns the lines of one failure: its attempts, then its event. */
export function failureLines(failure: FailureShown, paint: Paint): string[] {
  const { id, event_type: type, event, attempts } = failure;
  const head = pairLines(
    [
      ['Event', id],
      ['Type', type],
      ['Happened', shortTime(event.time ?? '')],
    ],
    paint,
  );
  const rows = tableLines(attemptColumns, attempts, { width: undefined, paint });
  return [...head, '', ...rows, '', ...indented(event).split('\n')];
}

const attemptColumns: readonly Column<AttemptShown>[] = [
  { header: 'ATTEMPT', text: ({ timestamp }) => shortTime(timestamp) },
  {
    header: 'RESULT',
    text: ({ status }) => status,
    format: ({ status }) => (status === 'failed' ? 'red' : 'yellow'),
  },
  {
    header: 'TOOK',
    text: ({ duration }) => (duration === undefined ? '' : `${Math.round(duration)} ms`),
    align: 'right',
  },
  { header: 'ERROR', text: ({ error_message: text }) => text ?? '' },
];

/** Returns whether a request failed: not when a stream was disabled before it. */
const isRequest = ({ status, error_message: error }: AttemptShown): boolean =>
  status === 'failed' && error !== disabledMessage;

const columns: readonly Column<FailureShown>[] = [
  { header: 'EVENT', text: ({ id }) => id },
  { header: 'TYPE', text: ({ event_type: type }) => type },
  dateColumn('HAPPENED', ({ event }) => event.time ?? ''),
  {
    header: 'ATTEMPTS',
    text: ({ attempts }) => String(attempts.filter(isRequest).length),
    align: 'right',
  },
  {
    header: 'LAST ERROR',
    text: ({ attempts }) =>
      attempts.at(-1)?.status === 'retrying'
        ? 'being redelivered'
        : (attempts.at(-1)?.error_message ?? ''),
    format: ({ attempts }) => (attempts.at(-1)?.status === 'retrying' ? 'yellow' : 'red'),
    cuttable: true,
  },
];
