import type { Command } from 'commander';
import { printable } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import { wordOf } from '../core/stream-word.ts';
import type { StreamShown } from '../schemas/streams.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { failureLines, type FailureShown } from './deliveries.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { dataOf } from './events.ts';
import { pathOf } from './http/api-client.ts';
import { writeJson } from './json.ts';
import { wholeNumberOption } from './option.ts';
import { requestLines, requestsOf, requireInspector } from './received.ts';
import { readStats, totalOf } from './stats.ts';
import { findStream, streamIdOf } from './stream.ts';

interface TestOptions extends CommonOptions {
  readonly type?: string;
  readonly data?: string;
  readonly wait: boolean;
  readonly timeout: number;
  readonly inspect?: boolean;
}

/** `leat test` */
export function addTestCommand(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('test <stream>'))
    .description('send a test event to a stream and show whether it is delivered')
    .option(
      '--type <type>',
      'event type (default: user.created if the stream is subscribed to it, else its first type)',
    )
    .option('--data <json>', 'event data instead of a sample: a JSON object, @file, or - for stdin')
    .option('--no-wait', 'do not wait for the result')
    .option('--timeout <seconds>', 'how long to wait', wholeNumberOption(1, 3600), 60)
    .option('--inspect', 'show what arrived, for a stream that was created with --inspect')
    .addHelpText(
      'after',
      examples(
        'leat test crm',
        'leat test crm --type order.paid --data @order.json',
        'leat streams create --name first --events user.created --inspect && leat test first --inspect',
      ),
    )
    .action((stream: string, options: TestOptions) =>
      runWithApi(deps, options, (run) => sendTest(run, stream, options)),
    );
}

async function sendTest(run: ApiRun, stream: string, options: TestOptions): Promise<void> {
  const { api, terminal, json, leat } = run;
  const { id, type } = await targetOf(run, stream, options);
  const before = options.wait ? totalOf((await readStats(api, id)).stats, 'successful') : 0;
  const data = options.data === undefined ? undefined : await dataOf(options.data, terminal);
  const body = { event_type: type, data };
  const path = pathOf`/event-streams/${id}/test`;
  const response = await api.send({ method: 'POST', path, body });
  const { id: eventId } = response.body as FailureShown;
  if (!options.wait) return show(run, response.text, () => [`Sent ${printable(eventId)}.`]);
  terminal.note(`Sent ${printable(eventId)}; waiting for the result.`);
  const deadlineMs = run.clock.elapsedMs() + options.timeout * 1000;
  const outcome = await outcomeOf(run, { id, eventId, before, deadlineMs });
  if (options.inspect === true) await showReceived(run, { stream: id, eventId, deadlineMs });
  if (outcome === undefined) {
    throw new CommandFailed(
      exitCodes.unavailable,
      `No result after ${options.timeout} s: ${leat`deliveries list ${wordOf({ id, name: stream })}`} shows it if it fails.`,
    );
  }
  if ('delivered' in outcome) {
    if (!json) terminal.print(outcome.delivered);
    else if (options.inspect !== true)
      terminal.print(JSON.stringify({ id: eventId, status: 'delivered' }));
    return;
  }
  if (!json || options.inspect !== true)
    show(run, outcome.text, () => failureLines(outcome.failure, terminal.paint));
  throw new CommandFailed(exitCodes.failed, 'The event was not delivered.');
}

/** Returns the stream's id and the event's type. Throws a usage error when it cannot be inspected. */
async function targetOf(
  run: ApiRun,
  stream: string,
  { type, inspect, wait }: TestOptions,
): Promise<{ id: string; type: string }> {
  if (inspect === true && !wait) throw usageError('Choose one of --inspect and --no-wait.');
  if (type !== undefined && inspect !== true) return { id: await streamIdOf(run, stream), type };
  const found = await findStream(run, stream);
  if (inspect === true) requireInspector(run, found);
  return { id: found.id, type: type ?? typeFor(found) };
}

const preferredType = 'user.created';

/** Returns a type that the receiver expects; a stream without one is sent {@link preferredType}. */
function typeFor({ subscriptions }: StreamShown): string {
  const types = subscriptions.map((each) => each.event_type);
  return types.includes(preferredType) ? preferredType : (types[0] ?? preferredType);
}

/** Shows the requests of the event; as JSON they are the whole result. */
async function showReceived(run: ApiRun, sent: Parameters<typeof requestsOf>[1]): Promise<void> {
  const { terminal, json } = run;
  const requests = await requestsOf(run, sent);
  if (json) return terminal.print(writeJson(requests));
  for (const request of requests) {
    for (const line of [...requestLines(request, terminal.paint), '']) terminal.print(line);
  }
}

type TestOutcome =
  | { readonly delivered: string }
  | { readonly failure: FailureShown; readonly text: string };

const pollEveryMs = 500;

/**
 * Waits for the result of a test event. A failure has a record; a success shows only in the
 * statistics of the stream, which count all its events.
 */
async function outcomeOf(
  { api, clock, signal }: ApiRun,
  sent: { id: string; eventId: string; before: number; deadlineMs: number },
): Promise<TestOutcome | undefined> {
  const path = pathOf`/event-streams/${sent.id}/deliveries/${sent.eventId}`;
  while (clock.elapsedMs() < sent.deadlineMs) {
    // Reads the statistics first: a failure between the two requests is found by the second.
    const now = totalOf((await readStats(api, sent.id)).stats, 'successful');
    try {
      const { body, text } = await api.send({ method: 'GET', path });
      return { failure: body as FailureShown, text };
    } catch (error) {
      if (!(error instanceof CommandFailed) || error.exitCode !== exitCodes.notFound) throw error;
    }
    if (now === sent.before + 1) return { delivered: 'Delivered.' };
    if (now > sent.before + 1) {
      return {
        delivered: `One of ${now - sent.before} deliveries since; it has not failed so far.`,
      };
    }
    await sleep(clock, pollEveryMs, signal);
    signal.throwIfAborted();
  }
  return undefined;
}
