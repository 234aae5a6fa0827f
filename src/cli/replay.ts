import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import { wordOf } from '../core/stream-word.ts';
import { sleep } from '../core/sleep.ts';
import type { ReplayShown } from '../schemas/replays.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { pathOf } from './http/api-client.ts';
import { allPages } from './http/pages.ts';
import { writeJson } from './json.ts';
import { listOption } from './option.ts';
import { streamIdOf } from './stream.ts';
import { progressText } from './terminal/progress.ts';
import { type Column, pairLines, shortTime, tableLines } from './terminal/table.ts';
import type { Paint } from './terminal/terminal.ts';
import { instantOption } from './time.ts';

interface StartOptions extends CommonOptions {
  readonly since?: string;
  readonly from?: string;
  readonly until?: string;
  readonly type?: readonly string[];
  readonly wait: boolean;
}

/** `leat replay …` */
export function addReplayCommands(replay: Command, deps: CliDeps): void {
  const instant = instantOption(deps.clock.now);
  withCommonOptions(replay.command('start <stream> [event...]'))
    .description('send retained events to a stream again: the named ones, or a range')
    .option(
      '--since <time>',
      'events accepted at this time or later: a date, or 15m, 2h, 3d ago',
      instant,
    )
    .option('--from <offset>', 'events after this offset')
    .option('--until <time>', 'events accepted before this time', instant)
    .option('--type <types>', 'event types, separated by commas', listOption)
    .option('--no-wait', 'do not wait for the end of the replay')
    .addHelpText(
      'after',
      examples(
        'leat replay start crm --since 2h',
        'leat replay start crm evt_…',
        'leat replay start crm --since 2026-03-01 --type user.created --no-wait',
      ),
    )
    .action((stream: string, events: readonly string[], options: StartOptions) =>
      runWithApi(deps, options, (run) => startReplay(run, stream, events, options)),
    );
  withCommonOptions(replay.command('list <stream>'))
    .description('list the replays of a stream, newest first')
    .addHelpText('after', examples('leat replay list crm'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, (run) => listReplays(run, stream)),
    );
  withCommonOptions(replay.command('show <stream> <replay>'))
    .description('show the progress of a replay')
    .option('--wait', 'wait for the end of the replay')
    .addHelpText(
      'after',
      examples('leat replay show crm rpl_…', 'leat replay show crm rpl_… --wait'),
    )
    .action((stream: string, replayId: string, options: CommonOptions & { wait?: boolean }) =>
      runWithApi(deps, options, async (run) => {
        const path = await pathOfReplay(run, stream, replayId);
        if (options.wait === true) return followReplay(run, path);
        const response = await run.api.send({ method: 'GET', path });
        show(run, response.text, () =>
          replayLines(response.body as ReplayShown, run.terminal.paint),
        );
      }),
    );
  withCommonOptions(replay.command('cancel <stream> <replay>'))
    .description('cancel a replay; events it has sent stay delivered')
    .addHelpText('after', examples('leat replay cancel crm rpl_…'))
    .action((stream: string, replayId: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const path = await pathOfReplay(run, stream, replayId);
        await run.api.send({ method: 'DELETE', path });
        if (!run.json) run.terminal.print('Cancelled the replay.');
      }),
    );
}

async function startReplay(
  run: ApiRun,
  stream: string,
  events: readonly string[],
  options: StartOptions,
): Promise<void> {
  const selection = selectionOf(events, options);
  const id = await streamIdOf(run, stream);
  const body = { ...selection, event_types: options.type };
  const path = pathOf`/event-streams/${id}/replay`;
  const response = await run.api.send({ method: 'POST', path, body });
  const replay = response.body as ReplayShown;
  if (!options.wait) {
    return show(run, response.text, () => replayLines(replay, run.terminal.paint));
  }
  run.terminal.note(
    `Replay ${printable(replay.id)} is running; Ctrl-C does not cancel it. This does: ${run.leat`replay cancel ${wordOf({ id, name: stream })} ${replay.id}`}`,
  );
  await followReplay(run, pathOf`/event-streams/${id}/replay/${replay.id}`);
}

/** Returns the part of the request that says which events are sent again. */
function selectionOf(
  events: readonly string[],
  { since, from, until }: StartOptions,
): Readonly<Record<string, unknown>> {
  const isRange = (since ?? from ?? until) !== undefined;
  if (events.length > 0) {
    if (isRange) throw usageError('Name events, or add --since, --from and --until: not both.');
    return { event_ids: events };
  }
  if ((since === undefined) === (from === undefined)) {
    throw usageError('No start: add either --since <time> or --from <offset>, or name events.');
  }
  return { from, date_from: since, date_to: until };
}

async function listReplays(run: ApiRun, stream: string): Promise<void> {
  const { api, terminal, json } = run;
  const path = pathOf`/event-streams/${await streamIdOf(run, stream)}/replays`;
  const replays = await allPages<ReplayShown>(api, path, 'replays');
  if (json) return terminal.print(writeJson(replays));
  if (replays.length === 0) return terminal.note('No replays.');
  for (const line of tableLines(columns, replays, terminal)) terminal.print(line);
}

const columns: readonly Column<ReplayShown>[] = [
  { header: 'REPLAY', text: ({ id }) => id },
  { header: 'STATUS', text: ({ status }) => status },
  { header: 'FOUND', text: ({ matched }) => String(matched), align: 'right' },
  { header: 'DELIVERED', text: ({ sent }) => String(sent), align: 'right' },
  { header: 'FAILED', text: ({ failed }) => String(failed), align: 'right' },
  { header: 'STARTED', text: ({ created_at: at }) => shortTime(at) },
];

async function pathOfReplay(run: ApiRun, stream: string, replayId: string): Promise<string> {
  return pathOf`/event-streams/${await streamIdOf(run, stream)}/replay/${replayId}`;
}

const pollEveryMs = 1000;

async function followReplay(run: ApiRun, path: string): Promise<void> {
  const { api, terminal, clock, signal } = run;
  for (;;) {
    const response = await api.send({ method: 'GET', path });
    const replay = response.body as ReplayShown;
    if (replay.status !== 'running') return report(run, replay, response.text);
    terminal.progress(replayProgress(replay, terminal.progressWidth));
    await sleep(clock, pollEveryMs, signal);
    signal.throwIfAborted();
  }
}

/** Returns the progress line of a running replay; `matched` grows while the log is read. */
export function replayProgress(
  { matched, sent, failed }: Pick<ReplayShown, 'matched' | 'sent' | 'failed'>,
  width: number,
): string {
  const notes = [`${sent} delivered`, `${failed} failed`, `${matched} found so far`];
  return progressText({ label: 'Replaying', done: sent + failed, total: matched, notes }, width);
}

function report(run: ApiRun, replay: ReplayShown, text: string): void {
  show(run, text, () => replayLines(replay, run.terminal.paint));
  if (replay.status === 'failed') {
    const message = 'The rest of the range is no longer retained; the events before it were sent.';
    throw new CommandFailed(exitCodes.failed, message);
  }
  if (replay.failed === 0) return;
  const message = `${replay.failed} became failures: ${run.leat`redeliver`} sends them again.`;
  throw new CommandFailed(exitCodes.failed, message);
}

function replayLines(replay: ReplayShown, paint: Paint): string[] {
  return pairLines(
    [
      ['Replay', replay.id],
      ['Status', replay.status],
      ['Found', String(replay.matched)],
      ['Delivered', String(replay.sent)],
      ['Failed', String(replay.failed)],
      ['Started', shortTime(replay.created_at)],
      ['Ended', replay.finished_at === undefined ? undefined : shortTime(replay.finished_at)],
    ],
    paint,
  );
}
