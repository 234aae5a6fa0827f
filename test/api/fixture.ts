import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { buildApp } from '../../src/api/app.ts';
import type { ApiSettings } from '../../src/api/settings.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { limits as programLimits } from '../../src/config.ts';
import { createPulls } from '../../src/pull/pulls.ts';
import type { PullSettings } from '../../src/pull/settings.ts';
import { type AuthFixture, openAuthFixture, plainHttp, random } from '../auth/fixture.ts';

/** The management API on a real listener, over a real store, with real tokens. */
export interface Site {
  readonly house: AuthFixture;
  readonly app: FastifyInstance;
  readonly port: number;
  /** A token with every scope. */
  readonly token: string;
  /** What the log heard. */
  readonly logged: { readonly facts: object; readonly message: string }[];
  /** Whether the process takes requests. */
  ready: boolean;
  /** A token of a new client with these scopes. */
  tokenWith(...scopes: string[]): Promise<string>;
  /** A request below `/api/v2`, with the token of every scope; a text body goes as it is. */
  send(method: string, path: string, body?: unknown, headers?: Headers): Promise<Received>;
  /** A request as it is: whole path, no token. */
  raw(method: string, path: string, body?: Body, headers?: Headers): Promise<Received>;
  close(): Promise<void>;
}

type Headers = Readonly<Record<string, string>>;
type Body = string | Uint8Array | ReadableStream;

export interface Received {
  readonly status: number;
  readonly headers: Response['headers'];
  readonly text: string;
  /** The body as JSON; `undefined` when there is none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
  readonly body: any;
}

/** As in the program. */
export const limits: ApiSettings['limits'] = {
  bodyBytesMax: 1_048_576,
  publishBodyBytesMax: 4 * 1_048_576,
  testEventBodyBytesMax: 262_144,
  tokenBodyBytesMax: 65_536,
  bodiesBytesMax: 256 * 1_048_576,
  eventBytesMax: 262_144,
  publishEventsMax: 1000,
  pageItems: 50,
  pageItemsMax: 100,
  pageBytesMax: 8 * 1_048_576,
  unreadBytesMax: 16 * 1_048_576,
  unreadOfAllBytesMax: 256 * 1_048_576,
  failuresListedMax: 100,
  sortedUsersMax: 5000,
  sortedBytesMax: 4 * 1_048_576,
  rateBucketsMax: 1000,
};

const generous: ApiSettings = {
  serviceName: 'leat',
  attributePrefix: 'svc',
  plainHttp,
  trustProxy: [],
  maxConnectionsPerAddress: 1000,
  trustedIssuers: [],
  allowHttpEndpoints: false,
  blockedLiteral: (hostname) => (hostname === '127.0.0.1' ? hostname : undefined),
  maxStreams: 10_000,
  disableTotal: 5000,
  rateLimitBurst: 1_000_000,
  rateLimitPerSecond: 1_000_000,
  tenantRateBurst: 1_000_000,
  tenantRatePerSecond: 1_000_000,
  publishLimitPerSecond: 1_000_000,
  publishLimitBytesPerSecond: 1_000_000_000,
  limits,
};

const pullSettings: PullSettings = {
  ...programLimits.pull,
  connectionsMax: 100,
  eventRetentionMs: 7 * 86_400_000,
};

/** Opens a site; settings that are not given are generous. */
export async function openSite(
  settings: Partial<ApiSettings> = {},
  options: Parameters<typeof openAuthFixture>[0] & { readonly pull?: Partial<PullSettings> } = {},
): Promise<Site> {
  const house = await openAuthFixture(options);
  const state = { ready: true };
  const logged: Site['logged'][number][] = [];
  const hear = (facts: object, message: string): void => void logged.push({ facts, message });
  const log = { error: hear, warn: hear };
  const pulls = createPulls({
    ...house,
    random,
    log,
    settings: { ...pullSettings, ...options.pull },
  });
  const app = buildApp({
    ...house,
    pulls,
    tokenEndpoint: house.endpoint,
    settings: { ...generous, ...settings },
    random,
    log,
    ready: () => state.ready,
    obstacle: () => undefined,
    version: '1.2.3',
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const token = await house.token();
  const raw: Site['raw'] = (method, path, body, headers) =>
    request(`http://127.0.0.1:${port}${path}`, method, body, headers);
  return {
    house,
    app,
    port,
    token,
    logged,
    get ready() {
      return state.ready;
    },
    set ready(ready) {
      state.ready = ready;
    },
    tokenWith: async (...scopes) => house.token(await house.client({}, scopes)),
    raw,
    send: (method, path, body, headers = {}) => {
      const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body);
      const type: Headers = body === undefined ? {} : { 'content-type': 'application/json' };
      const all = { authorization: `Bearer ${token}`, ...type, ...headers };
      return raw(method, `/api/v2${path}`, text, all);
    },
    close: async () => {
      const closing = app.close();
      // Whatever a test still waits for, it has ended.
      app.server.closeAllConnections();
      await closing;
      await house.close();
    },
  };
}

/** Every scope but these. */
export function allScopesBut(...scopes: readonly string[]): string[] {
  return managementScopes.filter((scope) => !scopes.includes(scope));
}

async function request(
  url: string,
  method: string,
  body?: Body,
  headers: Headers = {},
): Promise<Received> {
  const streaming = body instanceof ReadableStream ? { duplex: 'half' } : {};
  const sent = body === undefined ? {} : { body };
  const answer = await fetch(url, { method, headers, ...sent, ...streaming } as RequestInit);
  const text = await answer.text();
  const json = answer.headers.get('content-type')?.includes('json') === true && text !== '';
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    body: json ? JSON.parse(text) : undefined,
  };
}
