import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { hashOf, secretText } from '../../src/api/console-cookie.ts';
import type { ConsoleProvider } from '../../src/api/console-login.ts';
import { limits } from '../../src/config.ts';
import type { ConsoleRole } from '../../src/core/console-session.ts';
import { random } from '../auth/fixture.ts';
import type { ApiFixture } from './fixture.ts';

/** The response to a request of which every header was chosen. */
export interface ConsoleResponse {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  /** The body as JSON; `undefined` for any other. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
  readonly body: any;
}

/** A browser that is signed in to the console. */
export interface Browser {
  /** `name=value` of the cookie. */
  readonly cookie: string;
  /** What the console sends with every request, the cookie included. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signedIn: ConsoleResponse;
  /** Sends a request of the console to a path below `/api/v2`. */
  api(method: string, path: string, body?: unknown): Promise<ConsoleResponse>;
  /** Sends `GET /console/session`. */
  session(): Promise<ConsoleResponse>;
}

/** The headers that a browser and the console add to a request of its pages. */
export const own = { 'sec-fetch-site': 'same-origin', 'leat-console': '1' } as const;

/** Returns a provider that is down: a test begins sessions of its mappings itself. */
export function providerWith(roleOf: ConsoleProvider['roleOf']): ConsoleProvider {
  const down = { failure: 'provider_unavailable', reason: 'it is down' } as const;
  const openId = { authorizationUrl: async () => down, claims: async () => down };
  return { openId, mappings: [], roleOf, limits: limits.consoleLogin };
}

/** Sends a request with exactly these headers. */
export async function call(
  { port }: Pick<ApiFixture, 'port'>,
  method: string,
  path: string,
  headers: OutgoingHttpHeaders = {},
  body?: string,
): Promise<ConsoleResponse> {
  const sent = request({ host: '127.0.0.1', port, method, path, headers, agent: false });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const received = await text(response);
  const isJson = response.headers['content-type']?.includes('json') === true && received !== '';
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: received,
    body: isJson ? JSON.parse(received) : undefined,
  };
}

/** Adds a one-time code of a tenant, by default that of the fixture. */
export async function addCode(
  { auth }: Pick<ApiFixture, 'auth'>,
  role: ConsoleRole = 'operator',
  tenant = auth.tenant.id,
): Promise<string> {
  const bytes = random(32);
  await auth.store.consoleSessions.addCode({ tenant, codeHash: hashOf(bytes), role });
  return secretText(bytes);
}

/** Sends a sign-in as the console does. */
export function sendCode(
  fixture: Pick<ApiFixture, 'port'>,
  code: string,
  headers: OutgoingHttpHeaders = {},
  ask?: boolean,
): Promise<ConsoleResponse> {
  const all = { ...own, 'content-type': 'application/json', ...headers };
  return call(fixture, 'POST', '/console/session', all, JSON.stringify({ code, ask }));
}

/** Signs a browser in. */
export async function signIn(
  fixture: Pick<ApiFixture, 'port' | 'auth'>,
  role: ConsoleRole = 'operator',
  { tenant, host }: { readonly tenant?: number; readonly host?: string } = {},
): Promise<Browser> {
  const place = host === undefined ? {} : { host };
  const signedIn = await sendCode(fixture, await addCode(fixture, role, tenant), place);
  assert.equal(signedIn.status, 201, signedIn.text);
  return browserWith(fixture, signedIn, place);
}

/** Returns the browser that received this response to its sign-in. */
export function browserWith(
  fixture: Pick<ApiFixture, 'port'>,
  signedIn: ConsoleResponse,
  place: Readonly<Record<string, string>> = {},
): Browser {
  const [cookie = ''] = signedIn.headers['set-cookie']?.[0]?.split(';') ?? [];
  const headers = { ...own, ...place, cookie };
  return {
    cookie,
    headers,
    signedIn,
    api: (method, path, body) => {
      const type = body === undefined ? {} : { 'content-type': 'application/json' };
      const sent = body === undefined ? undefined : JSON.stringify(body);
      return call(fixture, method, `/api/v2${path}`, { ...headers, ...type }, sent);
    },
    session: () => call(fixture, 'GET', '/console/session', headers),
  };
}
