import assert from 'node:assert/strict';
import { bootstrapClient, waitFor, type Running } from './leat.ts';

/** Requests to the management API, for tests of event streams. */

export type Leat = Pick<Running, 'send' | 'url' | 'port'>;

export interface StreamBody {
  readonly id: string;
  readonly status: string;
  readonly name: string;
  readonly subscriptions: readonly { readonly event_type: string }[];
  readonly created_at: string;
  readonly updated_at: string;
  readonly destination: {
    readonly type: string;
    readonly configuration: {
      readonly webhook_endpoint: string;
      readonly webhook_authorization: Record<string, string>;
      readonly client_certificate?: { readonly certificate: string; readonly expires_at: string };
    };
  };
  readonly delivery?: Readonly<Record<string, unknown>>;
}

export interface FailureBody {
  readonly id: string;
  readonly event_stream_id: string;
  readonly event_type: string;
  readonly status: string;
  readonly attempts: readonly {
    readonly status: string;
    readonly timestamp: string;
    readonly duration?: number;
    readonly error_message?: string;
  }[];
  readonly event: Record<string, unknown> & { readonly id: string };
}

export interface ProblemBody {
  readonly statusCode: number;
  readonly error: string;
  readonly message: string;
  readonly errorCode?: string;
}

/** Checks the status of a response and returns its body as JSON; a mismatch shows the text. */
export async function expectBody<T>(
  status: number,
  request: Response | Promise<Response>,
): Promise<T> {
  const response = await request;
  const body = await response.text();
  assert.equal(response.status, status, `${response.status} ${body}`);
  return (body === '' ? undefined : JSON.parse(body)) as T;
}

let count = 0;

/** A name that no other test of this process uses. */
export function freshName(): string {
  count++;
  return `stream-${process.pid}-${count}`;
}

/** An event type that no other test of this process uses, so that streams do not share events. */
export function freshType(): string {
  count++;
  return `test.number_${count}`;
}

export const token = 'token-of-the-receiver';

export interface StreamOptions {
  readonly name?: string;
  readonly types?: readonly string[];
  readonly status?: string;
  readonly authorization?: Record<string, string>;
  readonly delivery?: object | undefined;
}

/** The body that creates a stream; names and types are fresh by default. */
export function streamBody(endpoint: string, options: StreamOptions = {}): Record<string, unknown> {
  return {
    name: options.name ?? freshName(),
    subscriptions: (options.types ?? [freshType()]).map((type) => ({ event_type: type })),
    ...(options.status === undefined ? {} : { status: options.status }),
    ...(options.delivery === undefined ? {} : { delivery: options.delivery }),
    destination: destination(endpoint, options.authorization),
  };
}

export function destination(
  endpoint: string,
  authorization: Record<string, string> = { method: 'bearer', token },
): Record<string, unknown> {
  return {
    type: 'webhook',
    configuration: { webhook_endpoint: endpoint, webhook_authorization: authorization },
  };
}

export async function createStream(
  leat: Leat,
  endpoint: string,
  options: StreamOptions = {},
): Promise<StreamBody> {
  return expectBody(201, leat.send('POST', '/api/v2/event-streams', streamBody(endpoint, options)));
}

export async function readStream(leat: Leat, id: string): Promise<StreamBody> {
  return expectBody(200, leat.send('GET', `/api/v2/event-streams/${id}`));
}

export async function patchStream(leat: Leat, id: string, change: object): Promise<StreamBody> {
  return expectBody(200, leat.send('PATCH', `/api/v2/event-streams/${id}`, change));
}

/** Publishes one event of a type and returns its id. */
export async function publish(leat: Leat, type: string, object: object = {}): Promise<string> {
  const [id = ''] = await publishAll(leat, [{ type, data: { object } }]);
  return id;
}

/** Publishes many events, 1000 a request, and returns their ids in the same order. */
export async function publishAll(leat: Leat, events: readonly object[]): Promise<string[]> {
  const ids: string[] = [];
  for (let from = 0; from < events.length; from += 1000) {
    const part = events.slice(from, from + 1000);
    const stored = await expectBody<{ id: string }[]>(
      202,
      leat.send('POST', '/api/v2/events', part),
    );
    ids.push(...stored.map(({ id }) => id));
  }
  return ids;
}

/** Returns `total` events of a type; `data.object.number` counts from 0. */
export function eventsOf(type: string, total: number): object[] {
  return Array.from({ length: total }, (_, number) => ({ type, data: { object: { number } } }));
}

export async function failuresOf(leat: Leat, id: string, query = ''): Promise<FailureBody[]> {
  return expectBody(200, leat.send('GET', `/api/v2/event-streams/${id}/deliveries${query}`));
}

/** Waits until a stream lists `total` failures (at most 100) and returns them, newest first. */
export async function waitForFailures(
  leat: Leat,
  id: string,
  total: number,
): Promise<FailureBody[]> {
  let seen = 0;
  const done = async (): Promise<FailureBody[] | false> => {
    const failures = await failuresOf(leat, id);
    seen = failures.length;
    return seen === total && failures;
  };
  return waitFor(`${total} failures of the stream`, done, { progress: () => seen });
}

/** Waits for the only failure of a stream and returns the error of its newest attempt. */
export async function waitForError(leat: Leat, id: string): Promise<string> {
  const [failure] = await waitForFailures(leat, id, 1);
  return failure?.attempts.at(-1)?.error_message ?? '';
}

export function redeliver(leat: Leat, id: string, eventId: string): Promise<Response> {
  return leat.send('POST', `/api/v2/event-streams/${id}/redeliver/${eventId}`);
}

/** Returns how many deliveries a stream has ended, by its statistics. */
export async function statsOf(
  leat: Leat,
  id: string,
): Promise<{ delivered: number; failed: number }> {
  const stats = await expectBody<{ metrics: { name: string; window_total: number }[] }>(
    200,
    leat.send('GET', `/api/v2/event-streams/${id}/stats`),
  );
  const total = (name: string): number =>
    stats.metrics.find((metric) => metric.name.endsWith(`.event_streams.${name}`))?.window_total ??
    0;
  return { delivered: total('successful_deliveries'), failed: total('failed_deliveries') };
}

/** Waits until a stream's statistics have reached these numbers; they never fall. */
export async function waitForStats(
  leat: Leat,
  id: string,
  wanted: { readonly delivered?: number; readonly failed?: number },
): Promise<void> {
  let seen = { delivered: 0, failed: 0 };
  const what = `stats ${JSON.stringify(wanted)}`;
  const done = async (): Promise<boolean> => {
    seen = await statsOf(leat, id);
    return seen.delivered >= (wanted.delivered ?? 0) && seen.failed >= (wanted.failed ?? 0);
  };
  await waitFor(what, done, { progress: () => seen });
}

/** Returns a token of the bootstrap client with these scopes only. */
export async function narrowToken(leat: Pick<Running, 'url'>, scope: string): Promise<string> {
  const { id, secret } = bootstrapClient;
  const body = { grant_type: 'client_credentials', audience: '/api/v2/', scope };
  const issued = await expectBody<{ access_token: string }>(
    200,
    postJson(`${leat.url}/oauth/token`, { ...body, client_id: id, client_secret: secret }),
  );
  return issued.access_token;
}

/** Sends a POST of JSON without credentials. */
export function postJson(url: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** Returns headers for `send` with another token. */
export function bearer(accessToken: string): { authorization: string } {
  return { authorization: `Bearer ${accessToken}` };
}
