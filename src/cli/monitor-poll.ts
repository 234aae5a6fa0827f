import { causeOf } from '../alerting/alert.ts';
import { type Causes, createCauseCounter } from '../alerting/causes.ts';
import type { StreamHealth } from '../alerting/rules.ts';
import { errorCodeOf } from '../core/attempt-error.ts';
import type { ErrorCode } from '../core/error-code.ts';
import type { Clock } from '../core/clock.ts';
import type { StreamStatus } from '../core/types.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { type ApiClient, type ApiResponse, pathOf } from './http/api-client.ts';
import { createPageCursor } from './http/pages.ts';

/** A stream as one poll found it. */
export interface StreamSnapshot {
  readonly status: StreamStatus;
  /** Ids of the events of its open failures. */
  readonly open: readonly string[];
}

/** Snapshots by stream id. */
export type Snapshots = Readonly<Record<string, StreamSnapshot>>;

/** A failure that was not open at the previous poll. */
export interface OpenFailure {
  readonly stream: string;
  readonly eventId: string;
  readonly eventType: string;
  readonly attempts: number;
  readonly lastError: string | undefined;
  readonly code: ErrorCode | undefined;
}

/** The result of one poll. */
export interface ListsRead {
  readonly streams: readonly StreamHealth[];
  readonly seen: Snapshots;
}

export interface PollDeps {
  readonly api: Pick<ApiClient, 'send' | 'url'>;
  readonly clock: Pick<Clock, 'now'>;
  /** Waits for a time, or until the monitor ends. */
  readonly wait: (delayMs: number) => Promise<void>;
  /** Called for each new failure. */
  readonly onFailure: (failure: OpenFailure) => void;
}

const pageItems = 100;

/**
 * Reads the streams and failures of a server, one request at a time and none while its rate limit is
 * exhausted. `before` is absent at the first poll: every open failure is new then, and no stream
 * counts as disabled automatically.
 */
export async function readLists(
  deps: PollDeps,
  before: Snapshots | undefined,
  totalMax: number,
): Promise<ListsRead> {
  const at = deps.clock.now();
  const streams: StreamHealth[] = [];
  const seen: Record<string, StreamSnapshot> = {};
  for await (const item of pages(deps, '/event-streams', 'eventStreams', Infinity)) {
    const stream = streamOf(item);
    if (stream === undefined) throw notAList(deps.api.url);
    const previous = before?.[stream.id];
    const failures = await readFailures(deps, stream.id, new Set(previous?.open), 2 * totalMax);
    // The stream was deleted meanwhile.
    if (failures === undefined) continue;
    const { open, newFailures, lastError, causes } = failures;
    const total = open.length;
    const wasDisabled = previous?.status === 'enabled' && stream.status === 'disabled';
    const isAutomatic = wasDisabled && (newFailures > 0 || total * 2 >= totalMax);
    streams.push({
      ...stream,
      total,
      consecutive: undefined,
      newFailures,
      lastError,
      causes,
      disabledAt: isAutomatic ? at : undefined,
    });
    seen[stream.id] = { status: stream.status, open };
  }
  return { streams, seen };
}

interface FailuresRead {
  readonly open: readonly string[];
  readonly newFailures: number;
  readonly lastError: string | undefined;
  /** Error codes of the new ones. */
  readonly causes: Causes;
}

/** Reads the open failures of a stream; `undefined` when there is no such stream. */
async function readFailures(
  deps: PollDeps,
  stream: string,
  known: ReadonlySet<string>,
  itemsMax: number,
): Promise<FailuresRead | undefined> {
  const open = new Set<string>();
  const counter = createCauseCounter();
  let newFailures = 0;
  let lastError: string | undefined;
  try {
    const path = pathOf`/event-streams/${stream}/deliveries`;
    for await (const item of pages(deps, path, 'deliveries', itemsMax)) {
      const failure = failureOf(item, stream);
      if (failure === undefined) throw notAList(deps.api.url);
      const isNew = !known.has(failure.eventId) && !open.has(failure.eventId);
      open.add(failure.eventId);
      if (!isNew) continue;
      newFailures++;
      lastError ??= failure.lastError;
      counter.add(failure.code, 1, failure.lastError);
      deps.onFailure(failure);
    }
  } catch (error) {
    if (error instanceof CommandFailed && error.exitCode === exitCodes.notFound) return undefined;
    throw error;
  }
  return { open: [...open], newFailures, lastError, causes: counter.causes() };
}

/**
 * Yields the items of a list from all its pages. Some servers of this API send a page with its
 * `next`, others a bare array; then the next page begins after the last item.
 */
async function* pages(
  deps: PollDeps,
  path: string,
  field: string,
  itemsMax: number,
): AsyncGenerator {
  const cursor = createPageCursor(deps.api.url);
  let from: string | undefined;
  for (let items = 0; ;) {
    const query = { take: pageItems, from };
    const response = await deps.api.send({ method: 'GET', path, query });
    await obeyRateLimit(deps, response);
    const { body } = response;
    const page = Object(body) as Record<string, unknown>;
    const list: unknown = Array.isArray(body) ? body : page[field];
    if (!Array.isArray(list)) throw notAList(deps.api.url);
    yield* list as readonly unknown[];
    items += list.length;
    if (items >= itemsMax) return;
    from = cursor(Array.isArray(body) ? afterLast(list) : page['next'], list.length);
    if (from === undefined) return;
  }
}

function afterLast(list: readonly unknown[]): unknown {
  return list.length < pageItems ? undefined : (Object(list.at(-1)) as { id?: unknown }).id;
}

/** Waits until `X-RateLimit-Reset`, the second at which the limit is restored. */
async function obeyRateLimit(
  { clock, wait }: Pick<PollDeps, 'clock' | 'wait'>,
  { headers }: Pick<ApiResponse, 'headers'>,
): Promise<void> {
  if (headers['x-ratelimit-remaining'] !== '0') return;
  const resetMs = Number(headers['x-ratelimit-reset']) * 1000 - clock.now();
  await wait(Number.isFinite(resetMs) ? Math.min(Math.max(resetMs, 1000), 60_000) : 1000);
}

function streamOf(item: unknown): { id: string; name: string; status: StreamStatus } | undefined {
  const { id, name, status } = Object(item) as Record<string, unknown>;
  if (typeof id !== 'string' || !/^[A-Za-z0-9][\w.-]{0,127}$/.test(id)) return undefined;
  return {
    id,
    name: typeof name === 'string' && name !== '' ? name : id,
    status: status === 'disabled' ? 'disabled' : 'enabled',
  };
}

function failureOf(item: unknown, stream: string): OpenFailure | undefined {
  const { id, event_type: type, attempts } = Object(item) as Record<string, unknown>;
  if (typeof id !== 'string' || id === '') return undefined;
  const entries = (Array.isArray(attempts) ? attempts : []).map(
    (attempt) => Object(attempt) as Record<string, unknown>,
  );
  const error = entries
    .map((attempt) => attempt['error_message'])
    .findLast((message) => typeof message === 'string');
  return {
    stream,
    eventId: id,
    eventType: typeof type === 'string' ? type : 'unknown',
    attempts: entries.filter((attempt) => attempt['status'] !== 'retrying').length,
    lastError: error === undefined ? undefined : causeOf(error),
    code: error === undefined ? undefined : codeOf(error),
  };
}

/** Returns the error code of a message, which begins with the status if there was a response. */
function codeOf(error: string): ErrorCode {
  const [, status] = /^([1-9][0-9]{2})(?: - |$)/.exec(error) ?? [];
  return errorCodeOf({ status: status === undefined ? undefined : Number(status), error });
}

function notAList(url: string): CommandFailed {
  const message = `${url} answered with something that is not a list: is it the address of a Leat server?`;
  return new CommandFailed(exitCodes.failed, message);
}
