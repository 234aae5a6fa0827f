import type { IncomingMessage } from 'node:http';
import type { Command } from 'commander';
import { formatTime } from '../core/date.ts';
import { printable } from '../core/setting.ts';
import type { Query } from './http/client.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, exitCodes, usageError } from './http/errors.ts';
import { connectionFailure } from './http/http.ts';
import { readJson, terminalSafe, writeJson } from './json.ts';
import { listOption, wholeNumberOption } from './option.ts';
import { waitFor } from './retry.ts';
import { createSseReader, type ServerSentEvent } from './http/sse.ts';
import type { Format, Paint } from './terminal/terminal.ts';
import { instantOption } from './time.ts';
import { cutTo, widthOf } from './terminal/width.ts';

interface TailOptions extends CommonOptions {
  readonly type?: readonly string[];
  readonly from?: string;
  readonly since?: string;
  readonly count?: number;
}

/** An event as the pull sends it (docs/http-api.md#pull-frames). */
interface Pulled {
  readonly id?: unknown;
  readonly type?: unknown;
  readonly time?: unknown;
  readonly data?: unknown;
}

/** `leat events tail` */
export function addTailCommand(events: Command, deps: CliDeps): void {
  withCommonOptions(events.command('tail'))
    .description('show events as they are accepted, until Ctrl-C; --json prints one a line')
    .option('--type <types>', 'event types with commas between; all of them without it', listOption)
    .option(
      '--since <time>',
      'begin with events accepted then: a date, or 15m, 2h, 3d',
      instantOption(deps.clock.now),
    )
    .option('--from <offset>', 'begin after an offset')
    .option('--count <count>', 'end after so many', wholeNumberOption(1, 1_000_000_000))
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

/** Where the pull stands; kept over its connections. */
interface Position {
  offset: string | undefined;
  /** When it began by the server's clock, for a break before the first offset. */
  began: string | undefined;
  left: number;
  retryMs: number;
}

const retryMsMax = 30_000;

async function tail(run: ApiRun, options: TailOptions): Promise<void> {
  const { terminal, clock, api } = run;
  if (options.from !== undefined && options.since !== undefined) {
    throw usageError('--from and --since do not go together.');
  }
  const position: Position = {
    offset: undefined,
    began: undefined,
    left: options.count ?? Infinity,
    retryMs: 2000,
  };
  let lostTimes = 0;
  while (position.left > 0) {
    try {
      const answer = await openPull(run, options, position);
      lostTimes = 0;
      if (position.began === undefined) terminal.note(`Listening to ${api.url}; Ctrl-C ends it.`);
      position.began ??= formatTime(Date.parse(answer.headers.date ?? '') || clock.now());
      await readPull(run, answer, position);
    } catch (error) {
      // What was wrong from the beginning stays wrong; what breaks later may come back.
      if (position.began === undefined || !isTransient(error)) throw error;
      lostTimes++;
      terminal.note(`${(error as Error).message} Trying again.`);
    }
    if (position.left > 0)
      await waitFor(clock, Math.min(retryMsMax, position.retryMs * 2 ** lostTimes));
  }
}

function openPull(
  { api, signal }: ApiRun,
  { type, from, since }: TailOptions,
  { offset, began }: Position,
): Promise<IncomingMessage> {
  const start: Query =
    offset === undefined
      ? { from, from_timestamp: from === undefined ? (since ?? began) : undefined }
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
  });
}

/** Three heartbeats that do not come: the other end is gone without a word. */
const silenceMs = 45_000;

/** Shows what one connection brings, until it ends. */
async function readPull(run: ApiRun, answer: IncomingMessage, position: Position): Promise<void> {
  const { clock, api } = run;
  const reader = createSseReader();
  const gone = () => answer.destroy(lost('nothing came for 45 seconds.'));
  let patience = clock.after(silenceMs, gone);
  try {
    for await (const piece of answer.setEncoding('utf8') as AsyncIterable<string>) {
      patience.cancel();
      patience = clock.after(silenceMs, gone);
      for (const event of reader.read(piece)) showEvent(run, event, position);
      position.retryMs = Math.min(retryMsMax, reader.retryMs ?? position.retryMs);
      if (position.left <= 0) break;
    }
  } catch (error) {
    throw brokenOff(api.url, error);
  } finally {
    patience.cancel();
    answer.destroy();
  }
}

function brokenOff(url: string, error: unknown): unknown {
  if (error instanceof RangeError) {
    return new CommandFailed(exitCodes.failed, `${url} sent an event that is too long.`);
  }
  return connectionFailure(url, error);
}

function lost(why: string): CommandFailed {
  return new CommandFailed(exitCodes.unavailable, `The connection was lost: ${why}`);
}

function isTransient(error: unknown): boolean {
  return error instanceof CommandFailed && error.exitCode === exitCodes.unavailable;
}

function showEvent(run: ApiRun, { event, id, data }: ServerSentEvent, position: Position): void {
  const { terminal, json } = run;
  if (event === 'error') throw pullError(data);
  if (id !== '') position.offset = id;
  if (event === 'offset-only' || position.left <= 0) return;
  position.left--;
  const members = membersOf(data);
  if (json) return terminal.print(terminalSafe(data));
  const pulled = Object(members['event']) as Pulled;
  terminal.print(eventLine(pulled, terminal));
}

function membersOf(data: string): Record<string, unknown> {
  try {
    return Object(readJson(data)) as Record<string, unknown>;
  } catch (error) {
    const message =
      'The server sent an event that is not JSON: is it the address of a Leat server?';
    throw new CommandFailed(exitCodes.failed, message, { cause: error });
  }
}

/** The error that ends a connection: the events before are gone for good, or it may come back. */
function pullError(data: string): CommandFailed {
  const { code, message } = Object(membersOf(data)['error']) as Record<string, unknown>;
  const said = typeof message === 'string' ? printable(message) : 'The server ended the pull.';
  if (code !== 'cursor_expired') return new CommandFailed(exitCodes.unavailable, said);
  const way = 'Begin at the oldest retained event: leat events tail --since 1970-01-01';
  return new CommandFailed(exitCodes.notFound, `${said}\n${way}`);
}

const families: Readonly<Record<string, Format>> = {
  user: 'cyan',
  organization: 'magenta',
  group: 'yellow',
  connection: 'blue',
};
const typeWidth = 22;

/** An event in one line: its time of day, type in the colour of its family, id and data. */
export function eventLine(
  { id, type, time, data }: Pulled,
  { width, paint }: { readonly width: number | undefined; readonly paint: Paint },
): string {
  const name = typeof type === 'string' ? printable(type) : '?';
  const clockTime = typeof time === 'string' ? printable(time.slice(11, 19)) : '';
  const key = typeof id === 'string' ? printable(id) : '';
  const object = (Object(data) as { readonly object?: unknown }).object ?? data ?? {};
  const padded = name.padEnd(typeWidth);
  const used = widthOf(clockTime) + widthOf(padded) + widthOf(key) + 6;
  const text = writeJson(object);
  const cut = width === undefined ? text : cutTo(text, Math.max(0, width - used));
  const family = families[name.split('.')[0] ?? ''] ?? 'green';
  return `${paint('dim', clockTime)}  ${paint(family, padded)}  ${key}  ${paint('dim', cut)}`.trimEnd();
}
