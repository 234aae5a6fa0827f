import type { Command } from 'commander';
import { sleep } from '../core/sleep.ts';
import { wordOf } from '../core/stream-word.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { causeOption } from './cause.ts';
import {
  failuresOf,
  type FailureFilter,
  type FailureShown,
  withFailureFilter,
} from './deliveries.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { type ApiClient, pathOf } from './http/api-client.ts';
import { terminalSafe } from './json.ts';
import { type RedeliveryState, redeliveryState } from './redelivery.ts';
import { nothingToSend, previewRedelivery, startRedelivery } from './redeliver-selection.ts';
import { streamIdOf } from './stream.ts';
import { counted, progressText } from './terminal/progress.ts';

interface RedeliverOptions extends CommonOptions, FailureFilter {
  readonly cause?: readonly string[];
  readonly all?: true;
  readonly dryRun?: true;
  readonly wait: boolean;
}

/** `leat redeliver` */
export function addRedeliverCommand(program: Command, deps: CliDeps): void {
  withFailureFilter(withCommonOptions(program.command('redeliver [stream] [event...]')), deps)
    .description(
      'send failures again: the named ones, else all that match, of one stream or of all',
    )
    .option('--cause <codes>', 'failures of these causes: 503, 5xx, timeout, …', causeOption)
    .option('--all', 'the failures of all streams, without a stream')
    .option('--dry-run', 'count only')
    .option('--no-wait', 'do not wait for the redeliveries to end')
    .addHelpText(
      'after',
      examples(
        'leat redeliver crm',
        'leat redeliver crm evt_…',
        'leat redeliver crm --type user.created --since 2026-03-01 --no-wait',
        'leat redeliver --cause http_503 --dry-run',
      ),
    )
    .action((stream: string | undefined, events: readonly string[], options: RedeliverOptions) =>
      runWithApi(deps, options, (run) =>
        stream === undefined || (options.cause ?? options.dryRun) !== undefined
          ? redeliverSelected(run, stream, events, options)
          : redeliver(run, stream, events, options),
      ),
    );
}

async function redeliverSelected(
  run: ApiRun,
  stream: string | undefined,
  events: readonly string[],
  { cause, all, dryRun, type, since, until, wait }: RedeliverOptions,
): Promise<void> {
  if (events.length > 0) throw usageError('Name events, or use --cause or --dry-run, not both.');
  if (stream === undefined && (cause ?? all ?? type ?? since ?? until) === undefined) {
    throw usageError('Name a stream, select by --cause, --type, --since or --until, or use --all.');
  }
  const selection = {
    event_stream_ids: stream === undefined ? undefined : [await streamIdOf(run, stream)],
    error_codes: cause,
    event_types: type,
    date_from: since,
    date_to: until,
    all,
  };
  if (dryRun === true) return previewRedelivery(run, selection);
  await startRedelivery(run, selection, wait);
}

async function redeliver(
  run: ApiRun,
  stream: string,
  events: readonly string[],
  options: RedeliverOptions,
): Promise<void> {
  const { api, terminal, json } = run;
  const { type, since, until, all } = options;
  if (events.length > 0 && (type ?? since ?? until ?? all) !== undefined) {
    throw usageError('Name events, or use --type, --since, --until or --all, not both.');
  }
  const id = await streamIdOf(run, stream);
  const readOpen =
    events.length > 0 ? () => openAmong(api, id, events) : () => failuresOf(api, id, options);
  const requested = new Set(
    events.length > 0 ? events : (await readOpen()).map((failure) => failure.id),
  );
  const response =
    events.length > 0 ? await redeliverEach(api, id, events) : await redeliverAll(api, id, options);
  if (!options.wait) {
    if (json) terminal.print(terminalSafe(response));
    else if (requested.size === 0) terminal.print(nothingToSend);
    else terminal.print(`${counted(requested.size, 'failure')} will be sent again.`);
    return;
  }
  const word = wordOf({ id, name: stream });
  report(run, word, await waitForEnd(run, requested, readOpen));
}

async function redeliverAll(api: ApiClient, id: string, filter: FailureFilter): Promise<string> {
  const { type, since, until } = filter;
  const body = { event_types: type, date_from: since, date_to: until };
  const path = pathOf`/event-streams/${id}/redeliver`;
  // The server skips failures that are being redelivered, so the request can be repeated.
  const response = await api.send({ method: 'POST', path, body, repeatable: true });
  return response.text;
}

async function redeliverEach(
  api: ApiClient,
  id: string,
  events: readonly string[],
): Promise<string> {
  let text = '';
  for (const event of events) {
    const path = pathOf`/event-streams/${id}/redeliver/${event}`;
    text = (await api.send({ method: 'POST', path, repeatable: true })).text;
  }
  return text;
}

/** Returns those of the failures that are still open. */
async function openAmong(
  api: ApiClient,
  id: string,
  events: readonly string[],
): Promise<FailureShown[]> {
  const open: FailureShown[] = [];
  for (const event of events) {
    try {
      const path = pathOf`/event-streams/${id}/deliveries/${event}`;
      open.push((await api.send({ method: 'GET', path })).body as FailureShown);
    } catch (error) {
      const isGone = error instanceof CommandFailed && error.exitCode === exitCodes.notFound;
      if (!isGone) throw error;
    }
  }
  return open;
}

const pollEveryMs = 1000;

/** Polls until every redelivery has ended; a long list is polled less often. */
async function waitForEnd(
  { terminal, clock, signal }: ApiRun,
  requested: ReadonlySet<string>,
  readOpen: () => Promise<FailureShown[]>,
): Promise<RedeliveryState> {
  for (;;) {
    const open = await readOpen();
    const state = redeliveryState(requested, open, clock.now());
    if (state.left === 0) return state;
    if (terminal.showsProgress) {
      terminal.progress(
        progressText(
          {
            label: 'Redelivering',
            done: state.delivered + state.failed,
            total: state.requested,
            notes: [
              `${state.delivered} delivered`,
              `${state.failed} failed again`,
              `${state.left} left`,
            ],
          },
          terminal.progressWidth,
        ),
      );
    }
    await sleep(clock, pollEveryMs + open.length, signal);
    signal.throwIfAborted();
  }
}

function report({ terminal, json, leat }: ApiRun, stream: string, state: RedeliveryState): void {
  const { requested, delivered, failed } = state;
  if (json) terminal.print(JSON.stringify({ asked: requested, delivered, failed }));
  else if (requested === 0) terminal.print(nothingToSend);
  else terminal.print(`${delivered} of ${counted(requested, 'failure')} delivered.`);
  if (failed === 0) return;
  throw new CommandFailed(
    exitCodes.failed,
    `${failed} failed again: ${leat`deliveries list ${stream}`} shows why.`,
  );
}
