import { type Command, InvalidArgumentError, Option } from 'commander';
import { streamStates } from '../core/stream-state.ts';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import type { StreamShown } from '../schemas/streams.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import type { ApiClient, Query } from './http/api-client.ts';
import { allPages } from './http/pages.ts';
import { writeJson } from './json.ts';
import type { LeatCommand } from './leat-command.ts';
import { listOption, wholeNumberOption } from './option.ts';
import { allStreams } from './stream.ts';
import { counted } from './terminal/progress.ts';
import { type Column, dateColumn, shortTime, tableLines } from './terminal/table.ts';
import type { Format } from './terminal/terminal.ts';

interface ListOptions extends CommonOptions {
  readonly status?: readonly string[];
  readonly search?: string;
  readonly sort?: 'name' | 'open_failures' | 'lag' | 'last_failed_at';
  readonly limit?: number;
}

/** `leat streams list` */
export function addStreamList(streams: Command, deps: CliDeps): void {
  withCommonOptions(streams.command('list'))
    .description('list the event streams with their state, and why one does not deliver')
    .option('--status <states>', `in these states: ${streamStates.join(', ')}`, statesOption)
    .option('--search <text>', 'with this text in the name or in the host of the endpoint')
    .addOption(
      new Option('--sort <order>', 'by name, or the largest first').choices([
        'name',
        'open_failures',
        'lag',
        'last_failed_at',
      ]),
    )
    .option('--limit <count>', 'maximum number of streams', wholeNumberOption(1, 1_000_000))
    .addHelpText(
      'after',
      examples(
        'leat streams list',
        'leat streams list --status failing,disabled --sort open_failures',
        'leat streams list --search crm --json | jq -r .[].id',
      ),
    )
    .action((options: ListOptions) => runWithApi(deps, options, (run) => list(run, options)));
}

function statesOption(text: string, before: readonly string[] = []): readonly string[] {
  const states = listOption(text, before);
  const known: readonly string[] = streamStates;
  if (states.every((state) => known.includes(state))) return states;
  throw new InvalidArgumentError(`States: ${streamStates.join(', ')}.`);
}

async function list(run: ApiRun, options: ListOptions): Promise<void> {
  const { api, terminal, json } = run;
  const healths = await readHealths(api, options);
  if (healths === undefined) return listPlain(run, options);
  if (json) return terminal.print(writeJson(await withStreams(api, healths)));
  for (const line of tableLines(columns, healths, terminal)) terminal.print(line);
  for (const note of notesOf(healths, options, run.leat)) terminal.note(note);
}

/** Reads the health of the streams; `undefined` on a server that does not have it. */
async function readHealths(
  api: ApiClient,
  { status, search, sort = 'name', limit }: ListOptions,
): Promise<StreamHealthShown[] | undefined> {
  const query: Query = {
    statuses: status?.join(','),
    q: search,
    sort: sort === 'name' ? sort : `-${sort}`,
  };
  const paging = limit === undefined ? { query } : { query, itemsMax: limit };
  try {
    return await allPages<StreamHealthShown>(api, '/stream-health', 'streams', paging);
  } catch (error) {
    const isFiltered = (status ?? search) !== undefined || sort !== 'name';
    const isMissing = error instanceof CommandFailed && error.exitCode === exitCodes.notFound;
    if (isMissing && !isFiltered) return undefined;
    throw error;
  }
}

/** Returns the streams as the API lists them, each with its health, in the order of these. */
async function withStreams(
  api: ApiClient,
  healths: readonly StreamHealthShown[],
): Promise<object[]> {
  const streams = new Map((await allStreams(api)).map((stream) => [stream.id, stream]));
  return healths.flatMap((health) => {
    const stream = streams.get(health.event_stream_id);
    // It was deleted meanwhile.
    return stream === undefined ? [] : { ...stream, health };
  });
}

async function listPlain({ api, terminal, json }: ApiRun, { limit }: ListOptions): Promise<void> {
  const streams = (await allStreams(api)).slice(0, limit);
  if (json) return terminal.print(writeJson(streams));
  for (const line of tableLines(plainColumns, streams, terminal)) terminal.print(line);
}

function notesOf(
  healths: readonly StreamHealthShown[],
  { status, search }: ListOptions,
  leat: LeatCommand,
): readonly string[] {
  if (healths.length === 0) {
    return (status ?? search) === undefined
      ? [
          `No event streams: ${leat`streams create --events user.created --inspect`} creates one to try out.`,
        ]
      : ['No event stream matches.'];
  }
  const counts = streamStates.map((state) => {
    const count = healths.filter((health) => health.state === state).length;
    return count === 0 ? [] : `${count} ${state}`;
  });
  const isTrouble = healths.some(({ state }) => state !== 'ok');
  return [
    `${counted(healths.length, 'stream')}: ${counts.flat().join(', ')}`,
    ...(isTrouble ? [`More about one: ${leat`streams health <stream>`}`] : []),
  ];
}

const formats: Readonly<Record<StreamHealthShown['state'], Format>> = {
  ok: 'green',
  lagging: 'yellow',
  failing: 'red',
  paused: 'yellow',
  disabled: 'red',
};

/** Names and ids are never cut: users copy them. */
const columns: readonly Column<StreamHealthShown>[] = [
  { header: 'ID', text: ({ event_stream_id: id }) => id, leaves: 5 },
  { header: 'NAME', text: ({ name }) => name },
  { header: 'STATE', text: ({ state }) => state, format: ({ state }) => formats[state] },
  {
    header: 'REASON',
    text: (health) => reasonOf(health, (time) => ` ${shortTime(time)}`),
    short: { rank: 3, text: (health) => reasonOf(health, () => '') },
    cuttable: true,
  },
  { header: 'ENDPOINT', text: ({ endpoint_host: host }) => host, leaves: 4 },
  dateColumn('LAST SUCCESS', ({ last_delivered_at: at }) => at ?? ''),
];

/** Returns why a stream does not deliver, or what it lacks, in one line. */
export function reasonOf(health: StreamHealthShown, date: (time: string) => string): string {
  const { state, in_flight: attempts, in_flight_seconds: seconds } = health;
  const reason = stateReasonOf(health, date);
  if (attempts === 0 || state === 'disabled' || state === 'paused') return reason;
  const inFlight = `${attempts} in flight for up to ${seconds} s`;
  return reason === '' ? inFlight : `${reason}, ${inFlight}`;
}

function stateReasonOf(
  { state, paused, disabled, failures, lag, ...health }: StreamHealthShown,
  date: (time: string) => string,
): string {
  switch (state) {
    case 'disabled': {
      if (disabled === null) return '';
      const { reason, at, last_error_code: code, waiting_events: waiting } = disabled;
      const last = code === null ? [] : [`last ${code}`];
      const more = disabled.at_least ? '+' : '';
      return [`${reason.replace('_', ' ')}${date(at)}`, ...last, `${waiting}${more} wait`].join(
        ', ',
      );
    }
    case 'paused':
      return `${paused?.reason ?? ''}${paused === null ? '' : date(paused.at)}`.trim();
    case 'failing': {
      const { consecutive, limit_consecutive: limit, open } = failures;
      const rest: Partial<StreamHealthShown> = health;
      const { failing_since: since = null, results_refused: refused = null } = rest;
      if (consecutive === 0 && refused !== null)
        return `results not recorded${date(refused.since)}`;
      if (consecutive === 0 && since !== null) return `first failed attempt${date(since)}`;
      if (consecutive === 0) return 'an attempt is overdue';
      return `${consecutive} of ${limit} in a row, ${open} open`;
    }
    case 'lagging':
      return `${durationText(lag.seconds)} behind, ${counted(lag.events, 'event')}${lag.at_least ? ' or more' : ''}`;
    case 'ok':
      break;
  }
  return failures.open === 0 ? '' : counted(failures.open, 'open failure');
}

function durationText(seconds: number): string {
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.round(seconds / 3600)} h`
    : `${Math.round(seconds / 86_400)} d`;
}

const plainColumns: readonly Column<StreamShown>[] = [
  { header: 'ID', text: ({ id }) => id },
  { header: 'NAME', text: ({ name }) => name },
  {
    header: 'STATUS',
    text: ({ status }) => status,
    format: ({ status }) => (status === 'enabled' ? 'green' : 'yellow'),
  },
  {
    header: 'EVENTS',
    text: ({ subscriptions }) => subscriptions.map((each) => each.event_type).join(','),
    cuttable: true,
  },
  dateColumn('UPDATED', ({ updated_at: time }) => time),
];
