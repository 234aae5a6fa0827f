import { CommandFailed, exitCodes, usageError } from '../errors.ts';
import { readJson } from '../json.ts';
import type { LeatCommand } from '../leat-command.ts';
import { apiError, type RefusedResponse } from './api-error.ts';
import type { HttpRequest, HttpResponse, StreamedResponse } from './http-client.ts';
import { type RetryDeps, sendWithRetry } from './retry.ts';
import type { Session } from './session.ts';

/** Sends authorized requests to the management API of one server. */
export interface ApiClient {
  /** Origin of the server. */
  readonly url: string;
  /**
   * Sends a request and returns a 2xx response. Throws {@link CommandFailed} for any other, with the
   * server's message and what to do next.
   */
  send(request: ApiRequest): Promise<ApiResponse>;
  /** Returns the JSON at a public path of the server, without a token; throws as `send` does. */
  readPublic(path: string): Promise<unknown>;
  /** Sends a request whose response has no end of its own; see {@link HttpRequest}. */
  open(request: ApiStreamRequest): Promise<StreamedResponse>;
}

export interface ApiRequest extends Pick<HttpRequest, 'method' | 'signal' | 'headers'> {
  /** Below `/api/v2`; {@link pathOf} builds it. */
  readonly path: string;
  readonly query?: Query;
  /** Sent as JSON; fields that are `undefined` are left out. */
  readonly body?: unknown;
  /** Whether the request can be repeated without harm; by default every method but POST can. */
  readonly repeatable?: boolean;
}

export interface ApiStreamRequest extends ApiRequest {
  readonly signal: AbortSignal;
  readonly silenceMsMax: number;
}

/** Query parameters; those that are `undefined` are left out. */
export type Query = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export interface ApiResponse extends HttpResponse {
  /** The parsed body, `undefined` when it is empty; numbers keep their digits. */
  readonly body: unknown;
}

/** Creates a client with the tokens of a session. */
export function createApiClient(
  session: Session,
  deps: RetryDeps & { readonly leat: LeatCommand },
): ApiClient {
  const { http, clientId, login } = session;
  const { leat } = deps;
  let sentToken = '';
  const failureOf = (response: RefusedResponse): CommandFailed =>
    apiError(response, { url: http.url, clientId, secrets: [sentToken], leat, login });
  /** A stored token may be rejected early: its key was revoked, or the server was set up again. */
  const withToken = async <Response extends { readonly status: number }>(
    attempt: (token: string) => Promise<Response>,
  ): Promise<Response> => {
    sentToken = await session.token();
    const response = await attempt(sentToken);
    if (response.status !== 401) return response;
    sentToken = await session.renewToken();
    return attempt(sentToken);
  };
  return {
    url: http.url,
    send: async (request) => {
      const send = () => withToken((token) => http.send(httpRequest(request, token)));
      const repeatable = request.repeatable ?? request.method !== 'POST';
      const response = repeatable ? await sendWithRetry(send, deps) : await send();
      if (response.status < 200 || response.status > 299) throw failureOf(response);
      return { ...response, body: bodyOf(response.text, http.url) };
    },
    readPublic: async (path) => {
      const response = await http.send({ method: 'GET', path, headers: {} });
      if (response.status !== 200) throw failureOf(response);
      return bodyOf(response.text, http.url);
    },
    open: async (request) => {
      const { silenceMsMax } = request;
      const response = await withToken((token) =>
        http.open({ ...httpRequest(request, token), silenceMsMax }),
      );
      if ('stream' in response) return response;
      throw failureOf(response);
    },
  };
}

/**
 * Builds a path whose parameters are percent-encoded. Throws a usage error for those that no
 * encoding keeps: a URL parser resolves `.` and `..`, also as `%2e` (URL Standard, path state), and
 * an empty one names the parent, so that cancelling a replay would delete the stream.
 */
export function pathOf(strings: TemplateStringsArray, ...parameters: readonly string[]): string {
  const bad = parameters.find((parameter) => ['', '.', '..'].includes(parameter));
  if (bad !== undefined) throw usageError(`"${bad}" is no id: the list command shows them.`);
  return String.raw({ raw: strings }, ...parameters.map((each) => encodeURIComponent(each)));
}

function httpRequest(request: ApiRequest, token: string): HttpRequest {
  const { method, path, query, body, headers, signal } = request;
  const json = body === undefined ? {} : { 'content-type': 'application/json' };
  return {
    method,
    path: `/api/v2${path}${encodeQuery(query ?? {})}`,
    headers: { authorization: `Bearer ${token}`, ...json, ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  };
}

/** Returns the query string with its `?`; empty without parameters. */
function encodeQuery(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const values = value === undefined ? [] : [value].flat();
    for (const each of values) parameters.append(name, String(each));
  }
  return parameters.size === 0 ? '' : `?${parameters.toString()}`;
}

function bodyOf(text: string, url: string): unknown {
  if (text === '') return undefined;
  try {
    return readJson(text);
  } catch (error) {
    const message = `${url} answered with something that is not JSON: is it the address of a Leat server?`;
    throw new CommandFailed(exitCodes.failed, message, { cause: error });
  }
}
