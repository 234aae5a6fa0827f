import type { IncomingMessage } from 'node:http';
import { CommandFailed, exitCodes, failureOf, usageError } from './errors.ts';
import type { HttpResponse, HttpRequest } from './http.ts';
import { readJson } from '../json.ts';
import { type RetryDeps, sendWithRetry } from '../retry.ts';
import type { Session } from './session.ts';

/** The management API of a server, as one client uses it. */
export interface Api {
  readonly url: string;
  /**
   * Sends a request and answers what came with 2xx. Anything else is a {@link CommandFailed} with
   * the server's words and the way out.
   */
  send(request: ApiRequest): Promise<ApiResponse>;
  /** Opens an answer that does not end soon; the caller destroys it. */
  open(request: ApiRequest & { readonly signal: AbortSignal }): Promise<IncomingMessage>;
}

export interface ApiRequest extends Pick<HttpRequest, 'method' | 'signal' | 'headers'> {
  /** Below `/api/v2`; {@link pathOf} builds it. */
  readonly path: string;
  readonly query?: Query;
  readonly body?: unknown;
  /** Whether a repeat does no harm; without it, all but POST. */
  readonly repeatable?: boolean;
}

/** Parameters of a query; those that are `undefined` are left out. */
export type Query = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export interface ApiResponse extends HttpResponse {
  /** The body; numbers keep their digits. `undefined` without a body. */
  readonly body: unknown;
}

/** The API of a session. */
export function createApi(session: Session, deps: RetryDeps): Api {
  const { http, clientId } = session;
  const whom = { url: http.url, clientId };
  const sendOnce = async (request: ApiRequest, token: string): Promise<HttpResponse> =>
    http.send(httpRequest(request, token));
  /** A kept token may have ended early: its key was revoked, or the server is a new one. */
  const authorized = async <T extends { readonly status: number }>(
    attempt: (token: string) => Promise<T>,
  ): Promise<T> => {
    const answer = await attempt(await session.token());
    return answer.status === 401 ? attempt(await session.renewToken()) : answer;
  };
  return {
    url: http.url,
    send: async (request) => {
      const send = () => authorized((token) => sendOnce(request, token));
      const repeatable = request.repeatable ?? request.method !== 'POST';
      const answer = repeatable ? await sendWithRetry(send, deps) : await send();
      if (answer.status < 200 || answer.status > 299) throw failureOf(answer, whom);
      return { ...answer, body: bodyOf(answer.text, http.url) };
    },
    open: async (request) => {
      const opened = await authorized(async (token) => http.open(httpRequest(request, token)));
      if ('stream' in opened) return opened.stream;
      throw failureOf(opened, whom);
    },
  };
}

/**
 * A path of parts, of which those that come from outside are percent-encoded. Throws a usage error
 * for those that no encoding keeps: a URL takes `.` and `..` for steps, also as `%2e` (URL Standard,
 * path state), and without a part the path means its parent, so that a replay that is cancelled
 * would be a stream that is deleted.
 */
export function pathOf(strings: TemplateStringsArray, ...parts: readonly string[]): string {
  const bad = parts.find((part) => ['', '.', '..'].includes(part));
  if (bad !== undefined) throw usageError(`"${bad}" is no id: the list command shows them.`);
  return String.raw({ raw: strings }, ...parts.map((part) => encodeURIComponent(part)));
}

function httpRequest(request: ApiRequest, token: string): HttpRequest {
  const { method, path, query, body, headers, signal } = request;
  const json = body === undefined ? {} : { 'content-type': 'application/json' };
  return {
    method,
    path: `/api/v2${path}${queryOf(query ?? {})}`,
    headers: { authorization: `Bearer ${token}`, ...json, ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  };
}

function queryOf(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const values = value === undefined ? [] : [value].flat();
    for (const one of values) parameters.append(name, String(one));
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
