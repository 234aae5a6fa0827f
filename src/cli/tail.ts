import type { Command } from 'commander';
import { backoffMs } from '../core/backoff.ts';
import { formatTime } from '../core/date.ts';
import { printable } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import type { Query } from './http/api-client.ts';
import { type EventSourceMessage, readEventStream } from './http/event-stream.ts';
import type { StreamedResponse } from './http/http-client.ts';
import { readJson, terminalSafe, writeJson } from './json.ts';
import { listOption, wholeNumberOption } from './option.ts';
import type { Format, Paint } from './terminal/terminal.ts';
import { cutTo, widthOf } from './terminal/width.ts';
import { instantOption } from './time.ts';

interface TailOptions extends CommonOptions {
  readonly type?: readonly string[];
  readonly from?: string;
  readonly since?: string;
  readonly count?: number;
}

/** The fields of an event that are shown (docs/http-api.md#pull-frames). */
interface EventShown {
  readonly id?: unknown;
  readonly type?: unknown;
  readonly time?: unknown;
  readonly data?: unknown;
}

/** `leat events tail` */
export function addTailCommand(events: Command, deps: CliDeps): void {
  withCommonOptions(events.command('tail'))
    .description('print events as they are accepted, until Ctrl-C; --json prints one per line')
    .option('--type <types>', 'event types, separated by commas; default: all', listOption)
    .option(
      '--since <time>',
      'begin with events accepted at this time: a date, or 15m, 2h, 3d ago',
      instantOption(deps.clock.now),
    )
    .option('--from <offset>', 'begin after this offset')
    .option('--count <count>', 'end after this many events', wholeNumberOption(1, 1_000_000_000))
    .addHelpText(
      'after',
      examples(
        'leat events tail',
        'leat events tail --since 1h --type user.created,user.deleted',
        'leat events tail --json | jq .event.data',
      ),
    )
    .action((options: TailOptions) => runWithApi(deps, options, (run) => tail(run, options)));
}

/** How far the pull has come, over all its connections. */
interface Progress {
  /** Id of the last event received. */
  offset: string | undefined;
  /** When the first connection was opened, by the server's clock; used until there is an offset. */
  startedAt: string | undefined;
  /** Events still to show. */
  left: number;
  retryMs: number;
}

const retryMsMax = 30_000;

/** Heartbeats come every 15 seconds: after three missing ones the connection is dead. */
const silenceMsMax = 45_000;

async function tail(run: ApiRun, options: TailOptions): Promise<void> {
  const { terminal, clock, api, signal } = run;
  if (options.from !== undefined && options.since !== undefined) {
    throw usageError('--from and --since do not go together.');
  }
  const progress: Progress = {
    offset: undefined,
    startedAt: undefined,
    left: options.count ?? Infinity,
    retryMs: 2000,
  };
  let failedInARow = 0;
  while (progress.left > 0) {
    try {
      const { headers, stream } = await openPull(run, options, progress);
      failedInARow = 0;
      if (progress.startedAt === undefined)
        terminal.note(`Listening to ${api.url}; Ctrl-C ends it.`);
      progress.startedAt ??= formatTime(Date.parse(headers['date'] ?? '') || clock.now());
      await readPull(run, stream, progress);
    } catch (error) {
      // A first connection that fails points to a wrong option; a later failure may be temporary.
      if (progress.startedAt === undefined || !isTransient(error)) throw error;
      failedInARow++;
      terminal.note(`${(error as Error).message} Trying again.`);
    }
    if (progress.left <= 0) break;
    const backoff = { firstMs: progress.retryMs, maxMs: retryMsMax };
    await sleep(clock, backoffMs(failedInARow + 1, backoff), signal);
    signal.throwIfAborted();
  }
}

function openPull(
  { api, signal }: ApiRun,
  { type, from, since }: TailOptions,
  { offset, startedAt }: Progress,
): Promise<StreamedResponse> {
  const start: Query =
    offset === undefined
      ? { from, from_timestamp: from === undefined ? (since ?? startedAt) : undefined }
      : {};
  return api.open({
    method: 'GET',
    path: '/events',
    query: { ...start, event_type: type },
    headers: {
      accept: 'text/event-stream',
      ...(offset === undefined ? {} : { 'last-event-id': offset }),
    },
    signal,
    silenceMsMax,
  });
}

/** Shows the events of one connection, until it ends or enough were shown. */
async function readPull(
  run: ApiRun,
  stream: AsyncIterable<Uint8Array>,
  progress: Progress,
): Promise<void> {
  const onRetry = (retryMs: number): void => {
    progress.retryMs = Math.min(retryMsMax, retryMs);
  };
  try {
    for await (const event of readEventStream(stream, onRetry)) {
      showEvent(run, event, progress);
      if (progress.left <= 0) break;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = `${run.api.url} sent an event that is too long.`;
    throw new CommandFailed(exitCodes.failed, message, { cause: error });
  }
}

function isTransient(error: unknown): boolean {
  return error instanceof CommandFailed && error.exitCode === exitCodes.unavailable;
}

function showEvent(run: ApiRun, { event, id, data }: EventSourceMessage, progress: Progress): void {
  const { terminal, json } = run;
  if (event === 'error') throw pullError(data);
  if (id !== undefined && id !== '') progress.offset = id;
  if (event === 'offset-only' || progress.left <= 0) return;
  progress.left--;
  const fields = fieldsOf(data);
  if (json) return terminal.print(terminalSafe(data));
  const pulled = Object(fields['event']) as EventShown;
  terminal.print(eventLine(pulled, terminal));
}

function fieldsOf(data: string): Record<string, unknown> {
  try {
    return Object(readJson(data)) as Record<string, unknown>;
  } catch (error) {
    const message =
      'The server sent an event that is not JSON: is it the address of a Leat server?';
    throw new CommandFailed(exitCodes.failed, message, { cause: error });
  }
}

/** Creates the failure of a pull that the server ended; after all but `cursor_expired` it may be resumed. */
function pullError(data: string): CommandFailed {
  const { code, message } = Object(fieldsOf(data)['error']) as Record<string, unknown>;
  const reported = typeof message === 'string' ? printable(message) : 'The server ended the pull.';
  if (code !== 'cursor_expired') return new CommandFailed(exitCodes.unavailable, reported);
  const nextStep = 'Begin at the oldest retained event: leat events tail --since 1970-01-01';
  return new CommandFailed(exitCodes.notFound, reported, { errorCode: code, nextStep });
}

const families: Readonly<Record<string, Format>> = {
  user: 'cyan',
  organization: 'magenta',
  group: 'yellow',
  connection: 'blue',
};
const typeWidth = 22;

/** Returns the line of an event: time of day, type in the colour of its family, id and data. */
export function eventLine(
  { id, type, time, data }: EventShown,
  { width, paint }: { readonly width: number | undefined; readonly paint: Paint },
): string {
  const name = typeof type === 'string' ? printable(type) : '?';
  const clockTime = typeof time === 'string' ? printable(time.slice(11, 19)) : '';
  const idText = typeof id === 'string' ? printable(id) : '';
  const object = (Object(data) as { readonly object?: unknown }).object ?? data ?? {};
  const padded = name.padEnd(typeWidth);
  const used = widthOf(clockTime) + widthOf(padded) + widthOf(idText) + 6;
  const text = writeJson(object);
  const cut = width === undefined ? text : cutTo(text, Math.max(0, width - used));
  const family = families[name.split('.')[0] ?? ''] ?? 'green';
  return `${paint('dim', clockTime)}  ${paint(family, padded)}  ${idText}  ${paint('dim', cut)}`.trimEnd();
}
