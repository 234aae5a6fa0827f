import { type Command, Option } from 'commander';
import { wordOf } from '../core/stream-word.ts';
import type { FailureGroupShown } from '../schemas/failures.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { causeOption } from './cause.ts';
import { allPages } from './http/pages.ts';
import { writeJson } from './json.ts';
import type { LeatCommand } from './leat-command.ts';
import { streamIdOf } from './stream.ts';
import { type Column, dateColumn, tableLines } from './terminal/table.ts';

interface FailuresOptions extends CommonOptions {
  readonly stream?: string;
  readonly cause?: readonly string[];
  readonly by?: 'cause' | 'stream';
  readonly sort?: 'count' | 'last_attempt_at';
}

/** `leat failures` */
export function addFailuresCommand(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('failures'))
    .description('count the open failures of all streams, by stream and cause')
    .option('--stream <stream>', 'of this stream only')
    .option('--cause <codes>', 'of these causes: 503, 5xx, timeout, …', causeOption)
    .addOption(new Option('--by <what>', 'one line for each').choices(['cause', 'stream']))
    .addOption(
      new Option(
        '--sort <order>',
        'the largest (default), or those with the last attempt first',
      ).choices(['count', 'last_attempt_at']),
    )
    .addHelpText(
      'after',
      examples('leat failures', 'leat failures --by cause', 'leat failures --cause 5xx,timeout'),
    )
    .action((options: FailuresOptions) =>
      runWithApi(deps, options, (run) => listGroups(run, options)),
    );
}

async function listGroups(run: ApiRun, options: FailuresOptions): Promise<void> {
  const { api, terminal, json, leat } = run;
  const stream = options.stream === undefined ? undefined : await streamIdOf(run, options.stream);
  const sort = options.sort === 'last_attempt_at' ? `-${options.sort}` : undefined;
  const query = { event_stream_ids: stream, error_codes: options.cause?.join(','), sort };
  const groups = await allPages<FailureGroupShown>(api, '/delivery-groups', 'groups', { query });
  if (json) return terminal.print(writeJson(groups));
  if (groups.length === 0) return terminal.note('No failures.');
  for (const line of linesOf(groups, options, terminal)) terminal.print(line);
  for (const hint of hintsFor(groups, stream, leat)) terminal.note(hint);
}

/** Returns the next commands, about the first group; all groups are of `stream` if that is given. */
function hintsFor(
  groups: readonly FailureGroupShown[],
  stream: string | undefined,
  leat: LeatCommand,
): string[] {
  const [first] = groups;
  if (first === undefined) return [];
  const name = wordOf({ id: first.event_stream_id, name: first.name });
  const code = first.error_code;
  if (code === null) return [`What they are: ${leat`deliveries list ${name}`}`];
  const at = stream === undefined ? [] : [name];
  return [
    `What they are: ${leat`deliveries list ${name} --status ${code}`}`,
    `Send them again: ${leat`redeliver ${at} --cause ${code} --dry-run`}`,
  ];
}

function linesOf(
  groups: readonly FailureGroupShown[],
  { by, sort }: FailuresOptions,
  style: Parameters<typeof tableLines>[2],
): string[] {
  if (by === undefined) return tableLines(groupColumns, groups, style);
  const keyOf = by === 'cause' ? causeOf : ({ name }: FailureGroupShown) => name;
  const sums = [...Map.groupBy(groups, keyOf)].map(([key, all]): Sum => ({ key, groups: all }));
  const rows =
    sort === 'last_attempt_at'
      ? sums.toSorted((one, other) =>
          lastOf(one.groups, triedAt) < lastOf(other.groups, triedAt) ? 1 : -1,
        )
      : sums.toSorted((one, other) => countOf(other) - countOf(one));
  return tableLines(by === 'cause' ? causeColumns : streamColumns, rows, style);
}

/** Groups with the same cause, or of the same stream. */
interface Sum {
  readonly key: string;
  readonly groups: readonly FailureGroupShown[];
}

const causeOf = ({ error_code: code }: FailureGroupShown): string => code ?? 'unknown';

const countOf = ({ groups }: Sum): number => groups.reduce((sum, { count }) => sum + count, 0);

/** Returns when the last failure of groups was opened, or attempted. */
function lastOf(
  groups: readonly FailureGroupShown[],
  timeOf: (group: FailureGroupShown) => string,
): string {
  return groups.map(timeOf).toSorted().at(-1) ?? '';
}

const openedAt = ({ last_failed_at: at }: FailureGroupShown): string => at;
/** The time of the attempt is not known of all failures. */
const triedAt = ({ last_attempt_at: at, last_failed_at: opened }: FailureGroupShown): string =>
  at ?? opened;

const groupColumns: readonly Column<FailureGroupShown>[] = [
  { header: 'STREAM', text: ({ name }) => name },
  { header: 'CAUSE', text: causeOf, format: () => 'red' },
  { header: 'FAILURES', text: ({ count }) => String(count), align: 'right' },
  { ...dateColumn('OPENED', openedAt), leaves: 3 },
  dateColumn('LAST ATTEMPT', triedAt),
  { header: 'ERROR', text: ({ sample }) => sample.error_message ?? '', cuttable: true },
];

const sumColumns = (header: string): Column<Sum>[] => [
  { header, text: ({ key }) => key },
  { header: 'FAILURES', text: (sum) => String(countOf(sum)), align: 'right' },
  { ...dateColumn('OPENED', ({ groups }) => lastOf(groups, openedAt)), leaves: 3 },
  dateColumn('LAST ATTEMPT', ({ groups }) => lastOf(groups, triedAt)),
];

const causeColumns: readonly Column<Sum>[] = [
  ...sumColumns('CAUSE'),
  { header: 'STREAMS', text: ({ groups }) => String(groups.length), align: 'right' },
];

const streamColumns: readonly Column<Sum>[] = [
  ...sumColumns('STREAM'),
  {
    header: 'CAUSES',
    text: ({ groups }) => groups.map((each) => `${causeOf(each)} ${each.count}`).join(', '),
    cuttable: true,
  },
];
