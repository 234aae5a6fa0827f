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
import { type ApiClient, pathOf, type Query } from './http/api-client.ts';
import { allPages } from './http/pages.ts';
import { indented, writeJson } from './json.ts';
import { listOption, wholeNumberOption } from './option.ts';
import { streamIdOf } from './stream.ts';
import { type Column, pairLines, shortTime, tableLines } from './terminal/table.ts';
import type { Paint } from './terminal/terminal.ts';
import { instantOption } from './time.ts';

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
}

/** `leat deliveries …` */
export function addDeliveryCommands(deliveries: Command, deps: CliDeps): void {
  withFailureFilter(withCommonOptions(deliveries.command('list <stream>')), deps)
    .description('list the failures of a stream, newest first')
    .option('--limit <count>', 'maximum number of failures', wholeNumberOption(1, 1_000_000))
    .addHelpText(
      'after',
      examples(
        'leat deliveries list crm',
        'leat deliveries list crm --type user.created --since 2h',
      ),
    )
    .action((stream: string, options: ListOptions) =>
      runWithApi(deps, options, (run) => listDeliveries(run, stream, options)),
    );
  withCommonOptions(deliveries.command('show <stream> <event>'))
    .description('show one failure with its attempts and its event')
    .addHelpText('after', examples('leat deliveries show crm evt_…'))
    .action((stream: string, event: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const id = await streamIdOf(run.api, stream);
        const path = pathOf`/event-streams/${id}/deliveries/${event}`;
        const response = await run.api.send({ method: 'GET', path });
        show(run, response.text, () =>
          failureLines(response.body as FailureShown, run.terminal.paint),
        );
      }),
    );
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
export function failuresOf(
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

async function listDeliveries(run: ApiRun, stream: string, options: ListOptions): Promise<void> {
  const { api, terminal, json } = run;
  const failures = await failuresOf(api, await streamIdOf(api, stream), options, options.limit);
  if (json) return terminal.print(writeJson(failures));
  for (const line of tableLines(columns, failures, terminal)) terminal.print(line);
  if (failures.length === 0) terminal.note('No failures.');
  else terminal.note(`Send them again: leat redeliver ${printable(stream)}`);
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

const columns: readonly Column<FailureShown>[] = [
  { header: 'EVENT', text: ({ id }) => id },
  { header: 'TYPE', text: ({ event_type: type }) => type },
  { header: 'HAPPENED', text: ({ event }) => shortTime(event.time ?? '') },
  {
    header: 'ATTEMPTS',
    text: ({ attempts }) => String(attempts.filter(({ status }) => status === 'failed').length),
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
