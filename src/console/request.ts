import { answeredAt } from './clock.ts';

/** A request to the management API, relative to `/api/v2`, as actions show it before they send it. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Begins with a slash, with its query. */
  readonly path: string;
  readonly body?: unknown;
}

/** An error response, or no response at all. */
export class RequestFailed extends Error {
  /** HTTP status; 0 when no response arrived. */
  readonly status: number;
  readonly code: string | undefined;
  /** Seconds after which the server asks to repeat the request. */
  readonly retryAfter: number | undefined;
  /** Id of a request that failed because of a defect: the log of the service has it, too. */
  readonly requestId: string | undefined;
  /** The body of the response where it is an object. */
  readonly body: Readonly<Record<string, unknown>>;

  constructor(status: number, message: string, response: FailedResponse = { body: {} }) {
    super(message);
    this.status = status;
    this.body = response.body;
    const { errorCode } = response.body;
    this.code = typeof errorCode === 'string' ? errorCode : undefined;
    this.retryAfter = response.retryAfter;
    this.requestId = response.requestId;
  }
}

interface FailedResponse {
  readonly body: Readonly<Record<string, unknown>>;
  readonly retryAfter?: number | undefined;
  readonly requestId?: string | undefined;
}

interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** Whether nobody asked for it: it does not keep the session in use. */
  readonly isBackground?: boolean | undefined;
  /** The ETag of a body that is there already: the response may be 304. */
  readonly etag?: string | undefined;
}

/**
 * Sends a request of the session to the management API. Returns the body of the response, `undefined`
 * where it has none. Throws {@link RequestFailed}, or the abort error of the signal.
 */
export async function send<T>(request: ApiRequest, options: SendOptions = {}): Promise<T> {
  return (await sendTo(`/api/v2${request.path}`, request, options)) as T;
}

/** What was read, to be read again. It stays in memory: it may hold secrets, so nothing else caches it. */
export interface CachedResponse<T> {
  readonly body: T;
  readonly etag: string | undefined;
}

/** Reads a path of the management API; returns `kept` itself if that is what the server still has. */
export async function readAgain<T>(
  path: string,
  kept: CachedResponse<T> | undefined,
  options: SendOptions,
): Promise<CachedResponse<T>> {
  const request = { method: 'GET' } as const;
  const response = await respond(`/api/v2${path}`, request, { ...options, etag: kept?.etag });
  if (response.status === 304 && kept !== undefined) return kept;
  const body = (await bodyOf(response)) as T;
  return { body, etag: response.headers.get('etag') ?? undefined };
}

/** Does the same as {@link send} for a path of this origin. */
export async function sendTo(
  url: string,
  request: Pick<ApiRequest, 'method' | 'body'>,
  options: SendOptions = {},
): Promise<unknown> {
  return bodyOf(await respond(url, request, options));
}

async function respond(
  url: string,
  { method, body }: Pick<ApiRequest, 'method' | 'body'>,
  { signal, isBackground = false, etag }: SendOptions,
): Promise<Response> {
  const response = await fetch(url, {
    method,
    credentials: 'same-origin',
    cache: 'no-store',
    headers: {
      ...(method === 'GET' ? {} : { 'leat-console': '1' }),
      ...(isBackground ? { 'leat-background': '1' } : {}),
      ...(etag === undefined ? {} : { 'if-none-match': etag }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  }).catch((error: unknown) => {
    if (signal?.aborted === true) throw error;
    throw new RequestFailed(0, 'Leat does not respond. The network may be down, or the service.');
  });
  answeredAt(response.headers.get('date'));
  return response;
}

async function bodyOf(response: Response): Promise<unknown> {
  const text = await response.text();
  if (response.ok) return parse(text);
  throw failureOf(response, text);
}

/** Returns the error of a response that is not a success. */
export function failureOf(response: Response, text: string): RequestFailed {
  const parsed = parse(text);
  const body = isObject(parsed) ? parsed : {};
  const message = typeof body['message'] === 'string' ? body['message'] : response.statusText;
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  return new RequestFailed(response.status, message, {
    body,
    retryAfter: Number.isFinite(retryAfter) ? retryAfter : undefined,
    requestId: response.headers.get('x-request-id') ?? undefined,
  });
}

function parse(text: string): unknown {
  if (text === '') return undefined;
  try {
    return parseKeepingNumbers(text);
  } catch {
    return undefined;
  }
}

/**
 * Parses JSON. Numbers of events that JavaScript would change, such as ids of 20 digits or `1.0`, become
 * values that `JSON.stringify` writes as they were; where a browser cannot do that they are rounded.
 */
export function parseKeepingNumbers(text: string): unknown {
  const { rawJSON } = JSON as { readonly rawJSON?: (json: string) => unknown };
  if (rawJSON === undefined) return JSON.parse(text);
  const keep = (_name: string, value: unknown, context?: { readonly source?: string }): unknown => {
    const source = context?.source;
    const isChanged = typeof value === 'number' && source !== undefined && String(value) !== source;
    return isChanged ? rawJSON(source) : value;
  };
  return JSON.parse(text, keep);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns a path with the parameters that are set. */
export function withQuery(
  path: string,
  parameters: Readonly<Record<string, string | number | undefined>>,
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return text === '' ? path : `${path}?${text}`;
}
