import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { codeOf } from '../core/errors.ts';
import { makeId } from '../core/ids.ts';
import { printable } from '../core/setting.ts';
import { type Batch, batchesOf } from './batches.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, usageError } from './errors.ts';
import { addEventTypesCommand } from './event-types.ts';
import { readJson, writeJson } from './json.ts';
import { fileOption, repeatedText } from './option.ts';
import { readLines } from './read-lines.ts';
import { addTailCommand } from './tail.ts';
import { counted, progressText } from './terminal/progress.ts';
import type { Terminal } from './terminal/terminal.ts';
import { instantOption } from './time.ts';

interface PublishOptions extends CommonOptions {
  readonly type?: string;
  readonly data?: string;
  readonly id?: string;
  readonly time?: string;
  readonly file?: string;
}

interface Accepted {
  readonly id: string;
  readonly offset: string;
  readonly repeated?: boolean;
}

/** `leat events …` */
export function addEventCommands(events: Command, deps: CliDeps): void {
  withCommonOptions(events.command('publish'))
    .description('publish one event, or many as NDJSON from the standard input or a file')
    .option('--type <type>', 'type of the event')
    .option('--data <json>', 'data of the event: a JSON object, @file, or - for stdin')
    .option('--id <key>', 'id or idempotency key of the event')
    .option('--time <time>', 'when the event happened', instantOption(deps.clock.now))
    .option(
      '--file <file>',
      'NDJSON file, - for stdin: {"type", "data"} with optional "id" and "time" per line',
    )
    .addHelpText(
      'after',
      examples(
        `leat events publish --type order.paid --data '{"object": {"order_id": "42"}}'`,
        'leat events publish --type order.paid --data @order.json --id order-42-paid',
        'leat events publish --file events.ndjson',
        'produce | leat events publish --json > accepted.ndjson',
      ),
    )
    .action((options: PublishOptions) => runWithApi(deps, options, (run) => publish(run, options)));
  addTailCommand(events, deps);
  addEventTypesCommand(events, deps);
}

async function publish(run: ApiRun, options: PublishOptions): Promise<void> {
  const { type, data, id, time, file } = options;
  if (type !== undefined) {
    if (file !== undefined) throw usageError('--type is for one event, --file for many.');
    return publishOne(run, { ...options, type });
  }
  if ((data ?? id ?? time) !== undefined) throw usageError('No type: add --type <type>.');
  if (file === undefined && run.terminal.interactive) {
    throw usageError(
      'No event: add --type and --data, or --file <file>, or pipe NDJSON into the command.',
    );
  }
  await publishMany(run, file);
}

async function publishOne(
  run: ApiRun,
  { type, data, id, time }: PublishOptions & { readonly type: string },
): Promise<void> {
  const body = withId(run, {
    type,
    data: await dataOf(data ?? '{}', run.terminal),
    id,
    time,
  });
  const response = await run.api.send({ method: 'POST', path: '/events', body, repeatable: true });
  const { id: eventId, offset, repeated } = response.body as Accepted;
  const at = `${printable(eventId)} at offset ${printable(offset)}`;
  show(run, response.text, () => [
    repeated === true ? `The log had ${at} already.` : `Published ${at}.`,
  ]);
}

/** Parses the JSON in an option, in the file it names by `@file`, or for `-` in the standard input. */
export async function dataOf(
  text: string,
  terminal: Terminal,
  option = '--data',
): Promise<unknown> {
  const json =
    text === '-' || text.startsWith('@')
      ? await fileOption(option, text === '-' ? '-' : text.slice(1), terminal)
      : text;
  let value: unknown;
  try {
    value = readJson(json);
  } catch (error) {
    const reason = error instanceof Error ? printable(error.message) : '';
    throw usageError(`${option} is not JSON: ${reason}`);
  }
  const repeated = repeatedText(json);
  if (repeated !== undefined) throw usageError(`${option}: ${repeated}`);
  return value;
}

/** Adds an id, so that an event sent again after a failed request is stored once. */
function withId({ clock, random }: ApiRun, event: Record<string, unknown>): object {
  return event['id'] === undefined ? { ...event, id: makeId('evt_', clock.now(), random) } : event;
}

async function publishMany(run: ApiRun, file: string | undefined): Promise<void> {
  const { terminal, json, clock } = run;
  const startedMs = clock.elapsedMs();
  let published = 0;
  let repeated = 0;
  const lines = file === undefined || file === '-' ? terminal.inputLines() : fileLines(file);
  try {
    for await (const batch of batchesOf(lines, clock)) {
      const accepted = await publishBatch(run, batch);
      if (json) for (const each of accepted) terminal.print(writeJson(each));
      repeated += accepted.filter((each) => each.repeated === true).length;
      published += batch.events.length;
      const perSecond = Math.round(
        published / Math.max(0.001, (clock.elapsedMs() - startedMs) / 1000),
      );
      const notes = [counted(published, 'event'), `${perSecond}/s`];
      terminal.progress(
        progressText(
          { label: 'Publishing', done: published, total: undefined, notes },
          terminal.progressWidth,
        ),
      );
    }
  } catch (error) {
    if (!(error instanceof CommandFailed) || published === 0) throw error;
    const before = `${counted(published, 'event')} before it ${published === 1 ? 'was' : 'were'} published.`;
    throw withSentence(error, before);
  }
  const known = repeated === 0 ? '' : ` The log had ${repeated} of them already.`;
  if (!json) terminal.print(`Published ${counted(published, 'event')}.${known}`);
}

async function publishBatch(run: ApiRun, batch: Batch): Promise<Accepted[]> {
  const body = batch.events.map((event) => withId(run, event));
  try {
    const request = { method: 'POST', path: '/events', body, repeatable: true } as const;
    const { body: accepted } = await run.api.send(request);
    return Array.isArray(accepted) ? accepted : [];
  } catch (error) {
    throw withLine(error, batch);
  }
}

/** The server names the bad event by its index in the request; adds its line in the input. */
function withLine(error: unknown, { lines }: Batch): unknown {
  if (!(error instanceof CommandFailed)) return error;
  const index = /on property (?<index>[0-9]+)[.( ]/.exec(error.message)?.groups?.['index'];
  const line = index === undefined ? undefined : lines[Number(index)];
  const [first = 0] = lines;
  const all = `It is in lines ${first} to ${lines.at(-1) ?? 0} of the input.`;
  const where = line === undefined ? all : `It is line ${line} of the input.`;
  return withSentence(error, where);
}

function withSentence(error: CommandFailed, sentence: string): CommandFailed {
  const { exitCode, message, details } = error;
  return new CommandFailed(exitCode, `${message}\n${sentence}`, { ...details, cause: error });
}

async function* fileLines(file: string): AsyncIterable<string> {
  try {
    yield* readLines(createReadStream(file) as AsyncIterable<Uint8Array>);
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    const code = codeOf(error) ?? 'unreadable';
    throw usageError(`--file: ${file} cannot be read (${code}).`);
  }
}
