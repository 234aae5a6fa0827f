import { inspectedBy } from '../core/inspector.ts';
import { printable } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import type { ReceivedShown } from '../schemas/received.ts';
import type { StreamShown } from '../schemas/streams.ts';
import type { ApiRun } from './command.ts';
import { usageError } from './errors.ts';
import { pathOf } from './http/api-client.ts';
import { indented, readJson } from './json.ts';
import { pairLines, shortTime } from './terminal/table.ts';
import type { Paint } from './terminal/terminal.ts';

/** A request that the inspector of a stream received. */
export type RequestShown = ReceivedShown['received'][number];

/** Throws a usage error unless the endpoint of a stream is its inspector. */
export function requireInspector(
  { leat }: Pick<ApiRun, 'leat'>,
  { id, destination }: StreamShown,
): void {
  const { webhook_endpoint: endpoint } = destination.configuration;
  if (inspectedBy(endpoint) !== undefined) return;
  throw usageError(
    `--inspect: the stream sends to ${printable(endpoint)}. Leat receives its events instead after ${leat`streams update ${id} --inspect`}.`,
  );
}

const pollEveryMs = 200;

/**
 * Returns the requests of an event, oldest first, once none of them is under way. Waits at most until
 * `deadlineMs`; then returns those that there are.
 */
export async function requestsOf(
  { api, clock, signal }: ApiRun,
  { stream, eventId, deadlineMs }: { stream: string; eventId: string; deadlineMs: number },
): Promise<readonly RequestShown[]> {
  for (;;) {
    const path = pathOf`/event-streams/${stream}/received`;
    const { received } = (await api.send({ method: 'GET', path })).body as ReceivedShown;
    const found = received.filter(({ headers }) => idOf(headers) === eventId).toReversed();
    const isComplete = found.length > 0 && found.every(({ status, error }) => status ?? error);
    if (isComplete || clock.elapsedMs() >= deadlineMs) return found;
    await sleep(clock, pollEveryMs, signal);
    signal.throwIfAborted();
  }
}

function idOf(headers: object): unknown {
  return new Map<string, unknown>(Object.entries(headers)).get('webhook-id');
}

/** A request in full, received here or by an inspector. */
type RequestInFull = Omit<RequestShown, 'method' | 'signature'> &
  Readonly<Record<'method' | 'signature', string>>;

/** Returns the text of a request: its head, its body, and what became of it. */
export function requestLines(request: RequestInFull, paint: Paint): string[] {
  const { received_at: receivedAt, method, path, headers, body, signature } = request;
  const isValid = signature === 'valid';
  const facts = pairLines(
    [
      ['Received', shortTime(receivedAt)],
      ['Signature', signature.replace('_', ' ')],
      ['Response', request.error ?? String(request.status ?? 'under way')],
    ],
    paint,
  );
  return [
    paint('bold', printable(`${method} ${path}`)),
    ...Object.entries(headers).map(([name, value]) => printable(`${name}: ${String(value)}`)),
    '',
    ...bodyLines(body),
    '',
    ...facts.map((line, index) => (index === 1 ? paint(isValid ? 'green' : 'red', line) : line)),
  ];
}

function bodyLines(body: string): string[] {
  try {
    return indented(readJson(body)).split('\n');
  } catch {
    return [printable(body)];
  }
}
