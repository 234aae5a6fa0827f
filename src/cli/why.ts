import type { Command } from 'commander';
import { wordOf } from '../core/stream-word.ts';
import type { TracedEventShown } from '../schemas/event-log.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { pathOf } from './http/api-client.ts';
import { createPageCursor } from './http/pages.ts';
import { writeJson } from './json.ts';
import type { LeatCommand } from './leat-command.ts';
import { findStream, streamIdOf } from './stream.ts';
import { type Column, dateColumn, pairLines, tableLines } from './terminal/table.ts';
import type { Format, Paint } from './terminal/terminal.ts';

interface WhyOptions extends CommonOptions {
  readonly stream?: string;
  readonly all?: true;
}

type DeliveryShown = TracedEventShown['deliveries'][number];
type State = DeliveryShown['state'];
type AttemptShown = DeliveryShown['attempts'][number];

/** `leat why` */
export function addWhyCommand(program: Command, deps: CliDeps): void {
  withCommonOptions(program.command('why <event>'))
    .description('say what became of an event, by its id or its idempotency key')
    .option('--stream <stream>', 'at this stream only')
    .option('--all', 'list the streams that filtered the event, too, however many there are')
    .addHelpText(
      'after',
      examples('leat why evt_…', 'leat why order-17/paid --stream crm', 'leat why evt_… --json'),
    )
    .action((event: string, options: WhyOptions) =>
      runWithApi(deps, options, (run) => why(run, event, options)),
    );
}

async function why(run: ApiRun, event: string, options: WhyOptions): Promise<void> {
  const { stream } = options;
  const id = stream === undefined ? undefined : await streamIdOf(run, stream);
  await showTraced(run, event, { stream: id, all: options.all });
}

/** Prints what became of an event, at one stream if its id is given. */
export async function showTraced(
  run: ApiRun,
  event: string,
  { stream, all }: { readonly stream: string | undefined; readonly all?: true | undefined },
): Promise<void> {
  const { terminal, json, leat } = run;
  const traced = await readTraced(run, event, stream);
  if (json) return terminal.print(writeJson(traced));
  for (const line of tracedLines(traced, { all, ...terminal })) terminal.print(line);
  for (const hint of hintsFor(traced, leat)) terminal.note(hint);
}

/** Reads an event and what became of it, from all pages; at one stream, if that is given. */
async function readTraced(
  run: ApiRun,
  event: string,
  stream: string | undefined,
): Promise<TracedEventShown> {
  const deliveries: DeliveryShown[] = [];
  const cursor = createPageCursor(run.api.url);
  for (let from: string | undefined; ;) {
    const { body } = await run.api.send({
      method: 'GET',
      path: pathOf`/event-log/${event}`,
      query: { from },
    });
    const { next, ...page } = body as TracedEventShown;
    deliveries.push(...page.deliveries);
    from = cursor(next, page.deliveries.length);
    if (from !== undefined) continue;
    if (stream === undefined) return { ...page, deliveries };
    const own = deliveries.filter((one) => one.event_stream_id === stream);
    if (own.length > 0) return { ...page, deliveries: own };
    await findStream(run, stream);
    throw new CommandFailed(exitCodes.notFound, page.offset === undefined ? unknown : never);
  }
}

const never =
  'The event has never been for this stream: it was not subscribed to its type, or was created later.';

/** The selections of streams are known of events in the log only. */
const unknown =
  'It is not known whether the event was for this stream: the log does not have it any more, or it is a test event.';

/** In the order in which they are shown: what needs somebody comes first. */
const states: readonly State[] = [
  'failed',
  'retrying',
  'in_progress',
  'blocked',
  'waiting',
  'skipped',
  'dismissed',
  'delivered',
  'filtered',
];

const formats: Readonly<Partial<Record<State, Format>>> = {
  failed: 'red',
  retrying: 'yellow',
  in_progress: 'yellow',
  blocked: 'yellow',
  delivered: 'green',
};

/** Streams that filtered an event and are listed without `--all`. */
const filteredMax = 10;

interface Layout {
  readonly all: true | undefined;
  readonly width: number | undefined;
  readonly paint: Paint;
}

function tracedLines(traced: TracedEventShown, layout: Layout): string[] {
  const { deliveries } = traced;
  const filtered = deliveries.filter(({ state }) => state === 'filtered');
  const isShort = layout.all === true || filtered.length <= filteredMax;
  const listed = deliveries
    .filter(({ state }) => isShort || state !== 'filtered')
    .toSorted((one, other) => states.indexOf(one.state) - states.indexOf(other.state));
  const { event } = traced;
  const lines = pairLines(
    [
      ['Event', event.id],
      ['Type', event.type],
      ['State', summaryOf(deliveries)],
    ],
    layout.paint,
  );
  if (listed.length > 0) lines.push('', ...tableLines(columns, listed, layout));
  if (!isShort) lines.push(`${filtered.length} streams filtered it: --all lists them.`);
  return [...lines, '', ...tableLines(timelineColumns, timelineOf(traced, listed), layout)];
}

function summaryOf(deliveries: readonly DeliveryShown[]): string {
  const counts = states.map((state) => {
    const count = deliveries.filter((one) => one.state === state).length;
    return count === 0 ? '' : `${count} ${words(state)}`;
  });
  return counts.filter((text) => text !== '').join(', ') || noStream;
}

/** A stream that was deleted may have been. */
const noStream = 'no stream that exists now was subscribed to its type';

const words = (state: string): string => state.replace('_', ' ');

const isResult = ({ status }: AttemptShown): boolean =>
  status === 'delivered' || status === 'failed';

/** Returns whether a request was attempted: not when a stream was disabled before it. */
const isRequest = (attempt: AttemptShown): boolean =>
  isResult(attempt) && attempt.error_code !== 'stream_disabled';

/** A response has at most so many entries of a delivery: the newest. */
const listedMax = 20;

/** Returns the number of requests; with `+` where there may have been more. */
function attemptsText({ attempts, attempts_pruned: isPruned }: DeliveryShown): string {
  if (isPruned === true) return 'removed';
  const requests = attempts.filter(isRequest);
  const isCut = attempts.length >= listedMax || (requests[0]?.attempt ?? 1) > 1;
  return `${requests.length}${isCut ? '+' : ''}`;
}

const columns: readonly Column<DeliveryShown>[] = [
  { header: 'STREAM', text: ({ name }) => name },
  {
    header: 'STATE',
    text: ({ state }) => words(state),
    format: ({ state }) => formats[state],
  },
  { header: 'ATTEMPTS', text: attemptsText, align: 'right' },
  {
    header: 'LAST RESULT',
    text: ({ attempts }) => {
      const last = attempts.findLast(isResult);
      return last === undefined ? '' : resultOf(last);
    },
    cuttable: true,
  },
  dateColumn('NEXT ATTEMPT', ({ next_attempt_at: at }) => at ?? ''),
];

function resultOf({ status, http_status: http, error_message: error }: AttemptShown): string {
  if (status === 'delivered') return http === undefined ? 'delivered' : `${http}`;
  return error ?? status;
}

interface Moment {
  readonly at: string;
  readonly stream: string;
  readonly what: string;
}

/** Returns what happened to an event in order, and what comes next. */
function timelineOf(traced: TracedEventShown, listed: readonly DeliveryShown[]): Moment[] {
  const { event, accepted_at: acceptedAt } = traced;
  const moments: Moment[] = [{ at: event.time, stream: '', what: 'happened, by its publisher' }];
  if (acceptedAt !== undefined) moments.push({ at: acceptedAt, stream: '', what: 'accepted' });
  for (const { name, attempts, next_attempt_at: next } of listed) {
    let isRedelivery = false;
    for (const attempt of attempts) {
      const what = momentOf(attempt, isRedelivery);
      moments.push({ at: attempt.timestamp, stream: name, what });
      isRedelivery ||= attempt.status === 'retrying';
    }
    if (next !== undefined) moments.push({ at: next, stream: name, what: 'next attempt' });
  }
  return moments.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

/** A redelivery counts its attempts from 1 again. */
function momentOf(attempt: AttemptShown, isRedelivery: boolean): string {
  const { status, duration = 0, error_code: code } = attempt;
  if (status === 'retrying') return 'redelivery accepted';
  if (status === 'dismissed') return 'failure dismissed';
  if (code === 'stream_disabled') return 'failed: the stream was disabled';
  const number = attempt.attempt === undefined ? '' : ` ${attempt.attempt}`;
  const name = `${isRedelivery ? 'redelivery, ' : ''}attempt${number}`;
  const end = status === 'delivered' ? 'delivered' : 'failed';
  return `${name} ${end} after ${Math.round(duration)} ms: ${resultOf(attempt)}`;
}

const timelineColumns: readonly Column<Moment>[] = [
  { header: 'TIME', text: ({ at }) => at.replace('T', ' ') },
  { header: 'STREAM', text: ({ stream }) => stream },
  { header: 'WHAT HAPPENED', text: ({ what }) => what, cuttable: true },
];

/** Returns the next command for each state that needs one. */
function hintsFor({ event, deliveries }: TracedEventShown, leat: LeatCommand): string[] {
  return states.flatMap((state) => {
    const first = deliveries.find((one) => one.state === state);
    if (first === undefined) return [];
    const stream = wordOf({ id: first.event_stream_id, name: first.name });
    return hints[state]?.(leat, stream, event.id) ?? [];
  });
}

type Hint = (leat: LeatCommand, stream: string, event: string) => string;

const hints: Readonly<Partial<Record<State, Hint>>> = {
  failed: (leat, stream, event) => `Send it again: ${leat`redeliver ${stream} ${event}`}`,
  retrying: (leat, stream) => `Retry now: ${leat`streams retry-now ${stream}`}`,
  blocked: (leat, stream) => `Why it waits: ${leat`streams health ${stream}`}`,
  waiting: (leat, stream) => `Why it waits: ${leat`streams health ${stream}`}`,
  skipped: (leat, stream, event) => `Send it: ${leat`replay start ${stream} ${event}`}`,
  delivered: (leat, stream, event) => `Send it once more: ${leat`replay start ${stream} ${event}`}`,
  filtered: (leat, stream) => `Subscriptions and filter of now: ${leat`streams show ${stream}`}`,
};
