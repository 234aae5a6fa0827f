import type { Command } from 'commander';
import { backoffMs } from '../core/backoff.ts';
import { formatTime } from '../core/date.ts';
import { printable } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import { dayMs } from '../core/units.ts';
import type { Millis } from '../core/clock.ts';
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
import type { LeatCommand } from './leat-command.ts';
import { listOption, wholeNumberOption } from './option.ts';
import { lastPosition, positionOf } from './tail-end.ts';
import type { Format, Paint } from './terminal/terminal.ts';
import { cutTo, widthOf } from './terminal/width.ts';
import { instantOption } from './time.ts';

interface TailOptions extends CommonOptions {
  readonly type?: readonly string[];
  readonly from?: string;
  readonly since?: string;
  readonly until?: string;
  readonly count?: number;
  readonly follow: boolean;
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
    .option(
      '--until <time>',
      'end after the events accepted before this time',
      instantOption(deps.clock.now),
    )
    .option('--no-follow', 'end after the events accepted so far; with --since or --from')
    .option('--count <count>', 'end after this many events', wholeNumberOption(1, 1_000_000_000))
    .addHelpText(
      'after',
      examples(
        'leat events tail',
        'leat events tail --since 1h --type user.created,user.deleted',
        'leat events tail --since 2026-03-01 --until 2026-03-02 --json > events.ndjson',
        'leat events tail --from <offset> --no-follow',
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
  /** Position of the last event to show, once it is known. */
  end: number | undefined;
  retryMs: number;
}

const retryMsMax = 30_000;

/** Heartbeats come every 15 seconds: after three missing ones the connection is dead. */
const silenceMsMax = 45_000;

/** An event may appear in the log this long after the time at which it was accepted. */
const lateMs = 1000;

async function tail(run: ApiRun, options: TailOptions): Promise<void> {
  const { clock, api, signal } = run;
  const isPast = isOverAlready(options, clock.now());
  refuseContradiction(options, isPast);
  const progress: Progress = {
    offset: undefined,
    startedAt: undefined,
    left: options.count ?? Infinity,
    end: undefined,
    retryMs: 2000,
  };
  if (!isPast) {
    await follow(run, options, progress);
    if (progress.left <= 0) return;
    await sleep(clock, lateMs, signal);
  }
  const from = progress.offset ?? options.from;
  const since = from === undefined ? (options.since ?? progress.startedAt) : undefined;
  progress.end = await lastPosition(api, { ...options, from, since });
  if (progress.end !== undefined) return pull(run, options, progress, signal);
  if (isPast && !run.json) run.terminal.note('No events.');
}

/** Returns whether everything to show is in the log already. */
function isOverAlready({ until, follow: follows }: TailOptions, now: Millis): boolean {
  return !follows || (until !== undefined && Date.parse(until) <= now);
}

function refuseContradiction({ from, since, until }: TailOptions, isPast: boolean): void {
  if (from !== undefined && since !== undefined) {
    throw usageError('--from and --since do not go together.');
  }
  if (isPast && (from ?? since) === undefined) {
    throw usageError('Nothing would be printed: add --since or --from, where to begin.');
  }
  if (since !== undefined && until !== undefined && Date.parse(since) >= Date.parse(until)) {
    throw usageError('--until is not later than --since.');
  }
}

/** Shows events as they are accepted, until the time of `--until` or for ever. */
async function follow(run: ApiRun, options: TailOptions, progress: Progress): Promise<void> {
  const { clock, signal } = run;
  const endMs = options.until === undefined ? Infinity : Date.parse(options.until);
  while (progress.left > 0 && clock.now() < endMs) {
    const ending = new AbortController();
    // A timer has at most 2^31 ms.
    const timer = clock.after(Math.min(dayMs, endMs - clock.now()), () => ending.abort());
    const limit = endMs === Infinity ? signal : AbortSignal.any([signal, ending.signal]);
    await pull(run, options, progress, limit).finally(() => timer.cancel());
    signal.throwIfAborted();
  }
}

/** Shows events until the end is reached or `limit` aborts; resumes after failures that may be temporary. */
async function pull(
  run: ApiRun,
  options: TailOptions,
  progress: Progress,
  limit: AbortSignal,
): Promise<void> {
  const { terminal, clock, api } = run;
  let failedInARow = 0;
  while (progress.left > 0 && !limit.aborted) {
    try {
      const { headers, stream } = await openPull(run, options, progress, limit);
      failedInARow = 0;
      if (progress.startedAt === undefined && progress.end === undefined)
        terminal.note(`Listening to ${api.url}; Ctrl-C ends it.`);
      progress.startedAt ??= formatTime(Date.parse(headers['date'] ?? '') || clock.now());
      await readPull(run, stream, progress);
    } catch (error) {
      if (limit.aborted) return;
      // A first connection that fails points to a wrong option; a later failure may be temporary.
      if (progress.startedAt === undefined || !isTransient(error)) throw error;
      failedInARow++;
      terminal.note(`${(error as Error).message} Trying again.`);
    }
    if (progress.left <= 0) break;
    const backoff = { firstMs: progress.retryMs, maxMs: retryMsMax };
    await sleep(clock, backoffMs(failedInARow + 1, backoff), limit);
  }
}

function openPull(
  { api }: ApiRun,
  { type, from, since }: TailOptions,
  { offset, startedAt }: Progress,
  signal: AbortSignal,
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
  if (event === 'error') throw pullError(data, run.leat);
  if (id !== undefined && id !== '') progress.offset = id;
  const { end } = progress;
  const position = end === undefined ? -1 : positionOf(progress.offset ?? '');
  if (end !== undefined && position > end) progress.left = 0;
  if (event === 'offset-only' || progress.left <= 0) return;
  progress.left = position === end ? 0 : progress.left - 1;
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
function pullError(data: string, leat: LeatCommand): CommandFailed {
  const { code, message } = Object(fieldsOf(data)['error']) as Record<string, unknown>;
  const reported = typeof message === 'string' ? printable(message) : 'The server ended the pull.';
  if (code !== 'cursor_expired') return new CommandFailed(exitCodes.unavailable, reported);
  const nextStep = `Begin at the oldest retained event: ${leat`events tail --since 1970-01-01`}`;
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
