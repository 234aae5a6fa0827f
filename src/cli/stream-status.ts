import { type Command, Option } from 'commander';
import { formatTime } from '../core/date.ts';
import { printable } from '../core/setting.ts';
import type { SkippedRangeShown } from '../schemas/skipped.ts';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  type Run,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { type ApiClient, pathOf } from './http/api-client.ts';
import type { LeatCommand } from './leat-command.ts';
import { patchStream, showStream, streamIdOf } from './stream.ts';
import { counted } from './terminal/progress.ts';
import { pairLines, shortTime } from './terminal/table.ts';
import type { Paint } from './terminal/terminal.ts';

type Resume = 'latest' | 'held';

interface EnableOptions extends CommonOptions {
  readonly resume?: Resume;
}

interface PauseOptions extends CommonOptions {
  readonly reason?: string;
}

/** `leat streams health`, `pause`, `resume`, `enable` and `disable` */
export function addStatusCommands(streams: Command, deps: CliDeps): void {
  addPausing(streams, deps);
  addEnabling(streams, deps);
}

function addPausing(streams: Command, deps: CliDeps): void {
  withCommonOptions(streams.command('health <stream>'))
    .description('show whether a stream delivers, and what waits')
    .addHelpText('after', examples('leat streams health crm'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const id = await streamIdOf(run, stream);
        showHealth(run, await readHealth(run.api, id));
      }),
    );
  withCommonOptions(streams.command('pause <stream>'))
    .description('let a stream wait: nothing is sent or skipped until it is resumed')
    .option('--reason <text>', 'why, for leat streams health')
    .addHelpText(
      'after',
      examples('leat streams pause crm', 'leat streams pause crm --reason "CRM upgrade"'),
    )
    .action((stream: string, { reason, ...options }: PauseOptions) =>
      runWithApi(deps, options, async (run) => {
        const path = pathOf`/event-streams/${await streamIdOf(run, stream)}/pause`;
        showHealth(run, await run.api.send({ method: 'POST', path, body: { reason } }));
      }),
    );
  withCommonOptions(streams.command('resume <stream>'))
    .description('let a paused stream send what waits')
    .addHelpText('after', examples('leat streams resume crm'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const path = pathOf`/event-streams/${await streamIdOf(run, stream)}/resume`;
        showHealth(run, await run.api.send({ method: 'POST', path, body: {} }));
      }),
    );
}

function addEnabling(streams: Command, deps: CliDeps): void {
  withCommonOptions(streams.command('enable <stream>'))
    .description('enable a stream that was disabled')
    .addOption(
      new Option(
        '--resume <where>',
        'held: also send the events published while it was disabled; latest: skip them (default, unless it was disabled automatically)',
      ).choices(['latest', 'held']),
    )
    .addHelpText(
      'after',
      examples('leat streams enable crm', 'leat streams enable crm --resume held'),
    )
    .action((stream: string, options: EnableOptions) =>
      runWithApi(deps, options, (run) => enableStream(run, stream, options)),
    );
  withCommonOptions(streams.command('disable <stream>'))
    .description('disable a stream: it sends nothing until it is enabled')
    .addHelpText('after', examples('leat streams disable crm'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        showStream(run, await patchStream(run, stream, { status: 'disabled' }));
      }),
    );
}

async function enableStream(run: ApiRun, stream: string, options: EnableOptions): Promise<void> {
  const id = await streamIdOf(run, stream);
  const disabled = await disabledOf(run.api, id);
  const resume = options.resume ?? (await chosenResume(run, disabled));
  if (resume === undefined) return;
  // `resume` is an extension of Leat; without it other servers of this API accept the request.
  const body = { status: 'enabled', ...(resume === 'latest' ? {} : { resume }) };
  const response = await patchStream(run, id, body);
  showStream(run, response);
  const skipped = Number(response.headers['leat-skipped-events'] ?? 0);
  if (skipped === 0) return;
  const text = `${counted(skipped, 'event')} published while it was disabled will not be sent`;
  const [range] = await skippedOf(run.api, id);
  run.terminal.note(
    range === undefined
      ? `${text}; ${run.leat`replay start ${id} --since <time>`} sends them.`
      : `${text}. This sends them:\n${replayCommand(id, range, run.leat)}`,
  );
}

type Disabled = StreamHealthShown['disabled'];

/**
 * Returns where a stream is to resume, if no option says so: `latest`, but after an automatic disabling
 * the user decides. `undefined`: the user changes nothing. Throws a usage error without a terminal.
 */
export async function chosenResume(
  { terminal }: Pick<Run, 'terminal'>,
  disabled: Disabled | undefined,
): Promise<Resume | undefined> {
  if (!disabled || disabled.reason === 'by_hand') return 'latest';
  const text = `The stream was disabled automatically ${whyDisabled(disabled)}, and ${waitingText(disabled)}.`;
  if (!terminal.interactive) {
    throw usageError(
      `${text}\nAdd --resume held to send what waits, or --resume latest to skip it.`,
    );
  }
  terminal.note(text);
  const answer = await terminal.ask('Send what waits (held), or skip it (latest)? [held/latest] ');
  const chosen = answer.trim().toLowerCase();
  if (chosen === 'held' || chosen === 'latest') return chosen;
  terminal.note('Nothing was changed.');
  return undefined;
}

function whyDisabled({ reason, last_error_code: code }: NonNullable<Disabled>): string {
  const last = code === null ? '' : `, last error ${printable(code)}`;
  return `(${printable(reason)}${last})`;
}

function waitingText(of: Pick<NonNullable<Disabled>, 'waiting_events' | 'at_least'>): string {
  const { waiting_events: events, at_least: atLeast } = of;
  return `${counted(events, 'event', atLeast)} ${events === 1 ? 'waits' : 'wait'}`;
}

/**
 * Returns the command that sends a skipped range. No event of the range was accepted after its date, and
 * the end of a replay is exclusive.
 */
export function replayCommand(
  stream: string,
  { from, date }: Pick<SkippedRangeShown, 'from' | 'date'>,
  leat: LeatCommand,
): string {
  const until = formatTime(Date.parse(date) + 1);
  return leat`replay start ${stream} --from ${from} --until ${until}`;
}

/** Returns why and when a stream was disabled; `undefined` where the server does not say. */
async function disabledOf(api: ApiClient, id: string): Promise<Disabled | undefined> {
  const health = await unlessRefused(readHealth(api, id));
  return (health?.body as StreamHealthShown | undefined)?.disabled;
}

async function skippedOf(api: ApiClient, id: string): Promise<readonly SkippedRangeShown[]> {
  const path = pathOf`/event-streams/${id}/skipped`;
  const page = await unlessRefused(api.send({ method: 'GET', path, query: { take: 1 } }));
  return (page?.body as { ranges: SkippedRangeShown[] } | undefined)?.ranges ?? [];
}

/**
 * Returns the result of a request that enabling can do without: other servers do not have it, and the
 * client may lack its scope.
 */
async function unlessRefused<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    const refusals: readonly number[] = [exitCodes.notFound, exitCodes.authentication];
    if (error instanceof CommandFailed && refusals.includes(error.exitCode)) return undefined;
    throw error;
  }
}

function readHealth(api: ApiClient, id: string) {
  return api.send({ method: 'GET', path: pathOf`/event-streams/${id}/health` });
}

function showHealth(
  run: ApiRun,
  response: { readonly text: string; readonly body: unknown },
): void {
  show(run, response.text, () =>
    healthLines(response.body as StreamHealthShown, run.terminal.paint),
  );
}

function healthLines(health: StreamHealthShown, paint: Paint): string[] {
  const { paused, disabled, failures, lag, results_refused: refused } = health;
  const lines = pairLines(
    [
      ['Id', health.event_stream_id],
      ['Name', health.name],
      ['State', health.state],
      [
        'Disabled',
        disabled === null ? undefined : `${shortTime(disabled.at)} ${whyDisabled(disabled)}`,
      ],
      ['Paused', paused === null ? undefined : shortTime(paused.at)],
      ['Reason', paused?.reason ?? undefined],
      ['Waiting', waitingText({ waiting_events: lag.events, at_least: lag.at_least })],
      ['Oldest', lag.seconds === 0 ? undefined : `${lag.seconds} s`],
      ['Retrying', String(health.retrying)],
      [
        'In flight',
        health.in_flight === 0
          ? undefined
          : `${health.in_flight}, the oldest for ${health.in_flight_seconds} s`,
      ],
      ['Next attempt', timeOf(health.next_attempt_at)],
      ['Failures', `${failures.open} open, ${failures.consecutive} consecutive`],
      [
        'Not recorded',
        refused === null ? undefined : `since ${shortTime(refused.since)}: error ${refused.code}`,
      ],
      ['Failing since', timeOf(health.failing_since)],
      ['Last success', timeOf(health.last_delivered_at)],
      ['Last failure', timeOf(health.last_failed_at)],
    ],
    paint,
  );
  const colour = health.state === 'ok' ? 'green' : 'yellow';
  return lines.map((line, index) => (index === 2 ? paint(colour, line) : line));
}

function timeOf(time: string | null): string | undefined {
  return time === null ? undefined : shortTime(time);
}
