import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { usageError } from './errors.ts';
import { type EntryShown, followLog } from './follow-log.ts';
import type { Query } from './http/api-client.ts';
import { allPages } from './http/pages.ts';
import { writeJson } from './json.ts';
import { listOption, wholeNumberOption } from './option.ts';
import { type Column, shortTime, tableLines } from './terminal/table.ts';
import type { Format, Paint } from './terminal/terminal.ts';
import { instantOption } from './time.ts';

interface LogOptions extends CommonOptions {
  readonly type?: readonly string[];
  readonly client?: string;
  readonly target?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit?: number;
  readonly follow?: boolean;
}

const limitDefault = 50;
/** Entries that `--follow` begins with, without and with `--since`. */
const followedDefault = 10;
const followedSinceMax = 1000;

/** `leat logs` */
export function addLogCommand(program: Command, deps: CliDeps): void {
  const instant = instantOption(deps.clock.now);
  withCommonOptions(program.command('logs'))
    .description('show the audit log: changes, refusals and issued tokens, newest first')
    .option('--type <entries>', 'types, separated by commas: sapi, fapi, …', listOption)
    .option('--client <id>', 'what this client did')
    .option('--target <id>', 'what was done to the stream, client, … with this id')
    .option('--since <time>', 'from this time on: a date, or 15m, 2h, 3d ago', instant)
    .option('--until <time>', 'before this time', instant)
    .option(
      '--limit <count>',
      `maximum number of entries (default: ${limitDefault}); with --follow of those before it (default: ${followedDefault}, with --since ${followedSinceMax})`,
      wholeNumberOption(1, 1_000_000),
    )
    .option('--follow', 'print new entries as they are written, oldest first, until Ctrl-C')
    .addHelpText(
      'after',
      examples(
        'leat logs --since 24h --type fapi,feccft',
        'leat logs --target est_…',
        'leat logs --follow --json',
      ),
    )
    .action((options: LogOptions) =>
      runWithApi(deps, options, (run) =>
        options.follow === true ? follow(run, options) : list(run, options),
      ),
    );
}

async function list(run: ApiRun, options: LogOptions): Promise<void> {
  const { api, terminal, json } = run;
  const { limit: itemsMax = limitDefault } = options;
  const query = queryOf(options);
  const entries = await allPages<EntryShown>(api, '/logs', 'logs', { query, itemsMax });
  if (json) return terminal.print(writeJson(entries));
  for (const line of tableLines(columns, entries, terminal)) terminal.print(line);
  if (entries.length === 0) terminal.note('No entries.');
}

function follow(run: ApiRun, options: LogOptions): Promise<void> {
  if (options.until !== undefined) throw usageError('--follow and --until do not go together.');
  const { terminal, json } = run;
  const firstMax =
    options.limit ?? (options.since === undefined ? followedDefault : followedSinceMax);
  return followLog(run, {
    query: queryOf(options),
    firstMax,
    print: (entry) => terminal.print(json ? writeJson(entry) : entryLine(entry, terminal.paint)),
  });
}

function queryOf({ type, client, target, since, until }: LogOptions): Query {
  return {
    types: type?.join(','),
    client_id: client,
    target,
    date_from: since,
    date_to: until,
  };
}

/** Returns the line of an entry for `--follow`, where no column can be as wide as its widest cell. */
function entryLine(entry: EntryShown, paint: Paint): string {
  const cells = columns.map((column, index) => {
    const text = printable(column.text(entry)).padEnd(followedWidths[index] ?? 0);
    const format = column.format?.(entry);
    return format === undefined ? text : paint(format, text);
  });
  return cells.join('  ').trimEnd();
}

const columns: readonly Column<EntryShown>[] = [
  { header: 'DATE', text: ({ date }) => shortTime(date), format: () => 'dim' },
  { header: 'TYPE', text: ({ type }) => type, format: ({ type }) => formats[type] },
  {
    header: 'CLIENT',
    text: ({ client_name: name, client_id: id }) => name ?? id ?? '',
    cuttable: true,
  },
  { header: 'ADDRESS', text: ({ ip }) => ip ?? '' },
  {
    header: 'WHAT',
    text: ({ description, details, count }) =>
      [description, ...(details?.targets ?? []), count === undefined ? '' : `(${count} times)`]
        .filter((part) => part !== '')
        .join(' '),
    cuttable: true,
  },
];

/** Of the columns before the last one. */
const followedWidths = [20, 8, 12, 15];

const formats: Readonly<Record<string, Format>> = {
  fapi: 'red',
  feccft: 'red',
  fsa: 'red',
  leat_stream_disabled: 'yellow',
  leat_key_rotated: 'cyan',
  leat_operator: 'cyan',
};
