import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { type AppDeps, buildApp } from '../../src/api/app.ts';
import { guardConnections } from '../../src/api/http/connection-guard.ts';
import type { NodeFacts } from '../../src/api/node-facts.ts';
import type { ApiSettings } from '../../src/api/settings.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { limits as programLimits } from '../../src/config.ts';
import { systemClock } from '../../src/clock.ts';
import { createUnknownHosts, type UnknownHosts } from '../../src/core/unknown-hosts.ts';
import { createInspector, type Inspector } from '../../src/delivery/http/inspector.ts';
import { Pulls } from '../../src/pull/pulls.ts';
import type { PullSettings } from '../../src/pull/settings.ts';
import {
  type AuthFixture,
  openAuthFixture,
  plainHttp,
  random as randomOfAuth,
} from '../auth/fixture.ts';

/** The management API on a real listener, over a real store, with real tokens. */
export interface ApiFixture {
  readonly auth: AuthFixture;
  readonly app: FastifyInstance;
  readonly inspector: Inspector;
  readonly unknownHosts: UnknownHosts;
  readonly port: number;
  /** A token with every scope. */
  readonly token: string;
  /** Warnings and errors that were logged. */
  readonly logged: { readonly facts: object; readonly message: string }[];
  /** Whether the process accepts requests. */
  ready: boolean;
  /** Why the node is not ready although its store responds. */
  obstacle: string | undefined;
  /** Returns a token of a new client with these scopes. */
  tokenWith(...scopes: string[]): Promise<string>;
  /** Returns the headers of a request with such a token. */
  headersWith(...scopes: string[]): Promise<Headers>;
  /** Sends a request below `/api/v2` with the token of every scope; a text body is sent unchanged. */
  send(method: string, path: string, body?: unknown, headers?: Headers): Promise<ApiResponse>;
  /** Sends a request with a whole path and without token. */
  raw(method: string, path: string, body?: Body, headers?: Headers): Promise<ApiResponse>;
  close(): Promise<void>;
}

type Headers = Readonly<Record<string, string>>;
/** An operation and its scope. */
export type ScopedOperation = [method: string, path: string, scope: string, body?: object];
type Body = string | Uint8Array | ReadableStream;

export interface ApiResponse {
  readonly status: number;
  readonly headers: Response['headers'];
  readonly text: string;
  /** The body as JSON; `undefined` when there is none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
  readonly body: any;
}

/** The limits of the program. */
export const limits: ApiSettings['limits'] = {
  bodyBytesMax: 1_048_576,
  publishBodyBytesMax: 4 * 1_048_576,
  testEventBodyBytesMax: 262_144,
  tokenBodyBytesMax: 65_536,
  bodiesBytesMax: 256 * 1_048_576,
  eventBytesMax: 262_144,
  pageItems: 50,
  pageBytesMax: 8 * 1_048_576,
  unreadBytesMax: 16 * 1_048_576,
  unreadOfAllBytesMax: 256 * 1_048_576,
  failuresListedMax: 100,
  sortedUsersMax: 5000,
  sortedBytesMax: 4 * 1_048_576,
  recentMs: 3000,
  pagesMs: 2000,
  pagesMax: 100,
  // Of test/api/recent.test.ts.
  watchedMs: 0,
  watchedPagesMax: 4,
  recentStreamsMax: 200_000,
  endpointHostsMax: 200_000,
  rateBucketsMax: 1000,
  closingMs: 5000,
};

const generous: ApiSettings = {
  serviceName: 'leat',
  attributePrefix: 'svc',
  plainHttp,
  trustProxy: [],
  unknownHost: 'first',
  managementTokenSeconds: 3600,
  maxConnectionsPerAddress: 1000,
  keepAliveSeconds: 650,
  trustedIssuers: [],
  allowHttpEndpoints: false,
  blockedLiteral: (hostname) => (hostname === '127.0.0.1' ? hostname : undefined),
  maxStreams: 10_000,
  attemptTimeoutMs: 10_000,
  leaseGraceMs: 5000,
  attemptRetentionDays: 3,
  disableConsecutive: 500,
  disableTotal: 5000,
  streamConcurrency: 64,
  rateLimitBurst: 1_000_000,
  rateLimitPerSecond: 1_000_000,
  tenantRateBurst: 1_000_000,
  tenantRatePerSecond: 1_000_000,
  publishLimitPerSecond: 1_000_000,
  publishLimitBytesPerSecond: 1_000_000_000,
  limits,
};

/** A node without settings, whose alerts go to the log. */
const thisNode: NodeFacts = {
  engine: 'sqlite',
  settings: [],
  alertChannels: [{ channel: 'log' }],
  sendTestAlert: async () => [{ channel: 'log', reason: undefined }],
};

const pullSettings: PullSettings = {
  ...programLimits.pull,
  connectionsMax: 100,
  eventRetentionMs: 7 * 86_400_000,
};

/** Opens a fixture; settings that are not given are generous. */
export async function openApiFixture(
  settings: Partial<ApiSettings> = {},
  options: Parameters<typeof openAuthFixture>[0] & {
    readonly pull?: Partial<PullSettings>;
    readonly nodeId?: string;
    readonly provider?: AppDeps['provider'];
    readonly node?: Partial<NodeFacts>;
  } = {},
): Promise<ApiFixture> {
  const auth = await openAuthFixture(options);
  const { random = randomOfAuth } = options;
  const state: Pick<ApiFixture, 'ready' | 'obstacle'> = { ready: true, obstacle: undefined };
  const logged: ApiFixture['logged'][number][] = [];
  const write = (facts: object, message: string): void => void logged.push({ facts, message });
  const log = { error: write, warn: write };
  const pulls = new Pulls({
    ...auth,
    random,
    log,
    settings: { ...pullSettings, ...options.pull },
  });
  const inspector = createInspector({ clock: auth.clock, settings: programLimits.inspector });
  const unknownHosts = createUnknownHosts();
  const app = buildApp({
    ...auth,
    unknownHosts,
    pulls,
    inspector,
    nodeId: options.nodeId,
    provider: options.provider,
    tokenEndpoint: auth.endpoint,
    settings: { ...generous, ...settings },
    random,
    log,
    ready: () => state.ready,
    obstacle: () => state.obstacle,
    node: { ...thisNode, ...options.node },
    version: '1.2.3',
  });
  // As the service does.
  guardConnections(app.server, {
    rule: { ...generous, ...settings },
    clock: systemClock,
    log,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const token = await auth.token();
  const tokenWith: ApiFixture['tokenWith'] = async (...scopes) =>
    auth.token(await auth.client({}, scopes));
  const raw: ApiFixture['raw'] = (method, path, body, headers) =>
    request(`http://127.0.0.1:${port}${path}`, method, body, headers);
  return {
    auth,
    app,
    inspector,
    unknownHosts,
    port,
    token,
    logged,
    get ready() {
      return state.ready;
    },
    set ready(ready) {
      state.ready = ready;
    },
    get obstacle() {
      return state.obstacle;
    },
    set obstacle(obstacle) {
      state.obstacle = obstacle;
    },
    tokenWith,
    headersWith: async (...scopes) => ({ authorization: `Bearer ${await tokenWith(...scopes)}` }),
    raw,
    send: (method, path, body, headers = {}) => {
      const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body);
      const type: Headers = body === undefined ? {} : { 'content-type': 'application/json' };
      const all = { authorization: `Bearer ${token}`, ...type, ...headers };
      return raw(method, `/api/v2${path}`, text, all);
    },
    close: async () => {
      const closing = app.close();
      // Ends requests that a failed test has left open.
      app.server.closeAllConnections();
      await closing;
      inspector.close();
      await auth.close();
    },
  };
}

/** Asserts an error response and its whole body; without an error code the body has none. */
export function assertProblem(
  response: ApiResponse,
  status: number,
  message: string,
  errorCode?: string,
): void {
  assert.equal(response.status, status, response.text);
  const body = { statusCode: status, error: STATUS_CODES[status], message };
  assert.deepEqual(response.body, errorCode === undefined ? body : { ...body, errorCode });
}

/** Message and code of the 404 of each noun (docs/http-api.md#error-catalogue). */
const absent = {
  stream: ['The requested stream does not exist'],
  event: ['The event does not exist'],
  replay: ['The replay does not exist'],
  user: ['The user does not exist', 'inexistent_user'],
  client: ['The client does not exist', 'inexistent_client'],
  api: ['The resource server does not exist', 'inexistent_resource_server'],
  grant: ['The grant does not exist', 'inexistent_client_grant'],
  entry: ['The log entry does not exist', 'inexistent_log'],
  role: ['The role does not exist', 'inexistent_role'],
} as const;

/** Asserts the 404 of something that does not exist, which names it by its id. */
export function assertNotFound(response: ApiResponse, noun: keyof typeof absent): void {
  const [start, errorCode]: readonly [string, string?] = absent[noun];
  const id = /: (?<id>.+)$/s.exec(response.body.message)?.groups?.['id'] ?? '';
  assertProblem(response, 404, `${start}: ${id}`, errorCode);
  assert.ok(id !== '', response.text);
}

/** Asserts a 400 for a property of the body. */
export function assertInvalid(response: ApiResponse, property: string): void {
  assert.equal(response.status, 400, response.text);
  assert.equal(response.body.errorCode, 'invalid_body');
  assert.ok(response.body.message.includes(`' on property ${property} (`), response.text);
}

/** Requests a list page by page, as long as there is a `next`; the path has a query. */
export async function* cursorPages(
  { send }: Pick<ApiFixture, 'send'>,
  path: string,
): AsyncGenerator<ApiResponse, void> {
  for (let from = ''; ;) {
    const page = await send('GET', `${path}${from}`);
    assert.equal(page.status, 200, page.text);
    yield page;
    if (page.body.next === undefined) return;
    from = `&from=${page.body.next}`;
  }
}

/** Asserts that a caller with all other scopes may not use an operation. */
export async function assertNeedsScope(
  fixture: ApiFixture,
  [method, path, scope, body]: ScopedOperation,
): Promise<void> {
  const headers = await fixture.headersWith(...allScopesBut(scope));
  assertLacksScope(await fixture.send(method, path, body, headers), scope);
}

/** Asserts a 403 that names the missing scopes. */
export function assertLacksScope(response: ApiResponse, ...scopes: string[]): void {
  const message = `Insufficient scope; expected any of: ${scopes.join(',')}`;
  assertProblem(response, 403, message, 'insufficient_scope');
}

/** Returns all scopes except these. */
export function allScopesBut(...scopes: readonly string[]): string[] {
  return managementScopes.filter((scope) => !scopes.includes(scope));
}

async function request(
  url: string,
  method: string,
  body?: Body,
  headers: Headers = {},
): Promise<ApiResponse> {
  const streaming = body instanceof ReadableStream ? { duplex: 'half' } : {};
  const sent = body === undefined ? {} : { body };
  const response = await fetch(url, { method, headers, ...sent, ...streaming } as RequestInit);
  const text = await response.text();
  const json = response.headers.get('content-type')?.includes('json') === true && text !== '';
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: json ? JSON.parse(text) : undefined,
  };
}
