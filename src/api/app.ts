import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import type { Ed25519Jwk } from '../auth/key-use.ts';
import type { Keyring } from '../auth/keys.ts';
import type { TokenEndpoint } from '../auth/token.ts';
import type { Verifier } from '../auth/verify.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import type { ConsoleRole } from '../core/console-session.ts';
import type { InspectorMemory } from '../core/inspector.ts';
import { printable } from '../core/setting.ts';
import type { Log } from '../core/log.ts';
import type { UnknownHosts } from '../core/unknown-hosts.ts';
import type { Pulls } from '../pull/pulls.ts';
import type { Store } from '../store/port/store.ts';
import { createAuditRecorder } from './audit-recorder.ts';
import { createAuthenticator } from './authenticate.ts';
import { registerConsolePage } from './console-page.ts';
import { type ConsoleProvider, registerConsoleLogin } from './console-login.ts';
import { registerConsoleSession } from './console-session.ts';
import { createEventBodies } from './event-bodies.ts';
import { createPublisher } from './events.ts';
import { servePublishesFast } from './fast-publish.ts';
import { createHealthCaches } from './health-caches.ts';
import { registerHealth } from './health.ts';
import { createFailureSteps } from './failure-steps.ts';
import { ClientGone } from './http/body.ts';
import { createClientAddressReader, createSecureReader } from './http/client-address.ts';
import { declareExchanges, releaseExchange } from './http/exchange.ts';
import { boundForwarded } from './http/forwarded.ts';
import { createMemoryPool } from './http/memory-pool.ts';
import { rejectUnserved } from './http/not-found.ts';
import { literalPath } from './http/path.ts';
import { createErrorReader, type ErrorReader, noPath } from './http/problem.ts';
import { pooledRandom } from './http/random-pool.ts';
import { createRateLimiter } from './http/rate.ts';
import { rejectInvalidHeads, toOriginForm } from './http/request-head.ts';
import { createRouteCounts, measureRequests, type RequestMetrics } from './http/request-metrics.ts';
import { sendProblem } from './http/respond.ts';
import { serve, type ServeDeps } from './http/serve.ts';
import { serveExpectations, serverLimits } from './http/server.ts';
import type { TlsServer } from './http/tls.ts';
import { createTurnQueue } from './http/turn-queue.ts';
import { createUnreadResponses } from './http/unread.ts';
import {
  createBrokenRequestHandler,
  rejectTunnels,
  type UnservedDeps,
} from './http/unserved-connection.ts';
import { registerOauth } from './oauth.ts';
import type { NodeFacts } from './node-facts.ts';
import type { Operation } from './operation.ts';
import { allOperations } from './operations.ts';
import { createReadiness } from './readiness.ts';
import { createSessionReader } from './session-reader.ts';
import { registerReference } from './reference/reference.ts';
import type { ApiSettings } from './settings.ts';
import { createTenantLookup } from './tenants.ts';

export interface AppDeps {
  readonly store: Store;
  readonly verifier: Pick<Verifier, 'verify'>;
  readonly tokenEndpoint: TokenEndpoint;
  readonly keyring: Pick<Keyring, 'jwks'>;
  readonly webhookKeyring: Pick<Keyring<Ed25519Jwk>, 'jwks'>;
  readonly settings: ApiSettings;
  /** Filled with the hosts of requests that are the domain of no tenant. */
  readonly unknownHosts: UnknownHosts;
  /** What the inspectors of streams received on this node. */
  readonly inspector: InspectorMemory;
  /** The name of this node; absent where no other node can have the store. */
  readonly nodeId: string | undefined;
  /** Closed before the app: open pulls would delay that for minutes. */
  readonly pulls: Pulls;
  /** Closed together with them. */
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Pick<Log, 'error' | 'warn'>;
  /** False once the process is shutting down: new requests get 503. */
  readonly ready: () => boolean;
  /** Why this node is not ready although the store responds, for `/readyz`; one sentence. */
  readonly obstacle: () => string | undefined;
  readonly node: NodeFacts;
  /** Version of the program, shown on the reference page. */
  readonly version: string;
  /** Creates the server where Leat ends TLS. */
  readonly tls?: Pick<TlsServer, 'factory'> | undefined;
  /** The provider at which people sign in to the console; absent where none is configured. */
  readonly provider?: ConsoleProvider | undefined;
  /** Counts responses; absent where no metrics are served, and then nothing is measured. */
  readonly requestMetrics?: RequestMetrics | undefined;
}

const namesNoAddress =
  'a proxy of LEAT_TRUST_PROXY sends an X-Forwarded-For without an address: the clients behind it share one rate limit';

/**
 * Creates the management API and the token service; the caller starts and closes the listener. What
 * happens to a request in which order: docs/adr/0031-what-fastify-does-and-what-it-does-not.md.
 */
export function buildApp(deps: AppDeps): FastifyInstance {
  const { store, settings, clock, log } = deps;
  const limiter = createRateLimiter({ clock, settings });
  const app = Fastify(serverOptions({ ...deps, limiter }));
  // Here and not in the options: Fastify does not set it on a custom server.
  app.server.keepAliveTimeout = settings.keepAliveSeconds * 1000;
  serveExpectations(app.server);
  const tenants = createTenantLookup({
    tenants: store.tenants,
    watch: store.watch.bind(store),
    clock,
    settings,
    unknownHosts: deps.unknownHosts,
  });
  const clientAddressOf = createClientAddressReader(settings.trustProxy, (entry) =>
    log.warn({ entry: printable(entry).slice(0, 100) }, namesNoAddress),
  );
  const closing = closingOf(app);
  const open = (): boolean => deps.ready() && !closing.aborted;
  const random = pooledRandom(deps.random);
  const audit = createAuditRecorder({ store, clock, random, log });
  const isSecure = createSecureReader(settings.trustProxy);
  const roleOf = (mapping: string): ConsoleRole | undefined => deps.provider?.roleOf(mapping);
  const sessions = createSessionReader({ store, clock, limiter, isSecure, roleOf });
  const common = { ...deps, random, tenants, limiter, clientAddressOf, isSecure, open, audit };
  const authenticator = createAuthenticator({ ...common, sessions });
  const served = { ...common, sessions, authenticator };
  const { attributePrefix, limits } = settings;
  const eventBodies = createEventBodies({ attributePrefix, eventBytesMax: limits.eventBytesMax });
  const failureSteps = createFailureSteps({ clock, log });
  const healthCaches = createHealthCaches({ store, clock, closing, settings });
  const publish = createPublisher({ ...deps, random, eventBodies });
  const parts = { ...deps, ...healthCaches, random, eventBodies, failureSteps, tenants, publish };
  const operations = allOperations(parts);
  rejectTunnels(app.server, methodsOf(operations), { clock, limiter });

  // Every request passes these hooks in this order, then the phases of its route.
  const countOf = deps.requestMetrics && createRouteCounts(deps.requestMetrics);
  if (countOf !== undefined) measureRequests(app, { countOf, clock });
  rejectInvalidHeads(app, { limiter, clientAddressOf, clock });
  boundForwarded(app, { settings, clientAddressOf });
  rejectUnserved(app, served);
  leaveBodiesUnread(app);
  const readError = createErrorReader(deps);
  handleErrors(app, readError);

  const serving = { ...served, ...servingLimits(settings.limits) };
  declareExchanges(app);
  for (const operation of operations) serve(app, serving, operation);
  servePublishesFast(app, { ...serving, operations, publish, readError, countOf });
  registerReference(app, { ...served, operations });
  registerConsolePage(app, served);
  registerAvatar(app);
  const { provider } = deps;
  registerConsoleSession(app, { ...served, hasProvider: provider !== undefined });
  if (provider !== undefined) registerConsoleLogin(app, { ...served, provider });
  registerHealth(app, { ...served, readiness: createReadiness(deps) });
  registerOauth(app, served);

  app.addHook('onReady', tenants.open);
  app.addHook('preClose', async () => {
    deps.pulls.close();
  });
  app.addHook('onClose', async () => tenants.close());
  app.addHook('onClose', eventBodies.close);
  app.addHook('onClose', audit.close);
  app.addHook('onClose', failureSteps.close);
  return app;
}

/** Responds to the errors that the phases of a request throw. */
export function handleErrors(app: FastifyInstance, readError: ErrorReader): void {
  app.setErrorHandler((error, request, reply) => {
    releaseExchange(request);
    if (error instanceof ClientGone) {
      reply.hijack();
      return;
    }
    const { problem, headers } = readError(error);
    sendProblem(reply.headers(headers), problem);
  });
}

/** One list may take some 40 MB of memory. */
const listsAtOnce = { atOnce: 8, ofOwner: 2 };

function serverOptions({
  tls,
  ...unserved
}: UnservedDeps & Pick<AppDeps, 'tls'>): FastifyServerOptions {
  return {
    ...serverLimits,
    ...(tls === undefined ? {} : { serverFactory: tls.factory }),
    rewriteUrl: (request) => literalPath(toOriginForm(request)),
    frameworkErrors: (_error, request, reply) => {
      void sendProblem(reply, noPath(request.originalUrl));
    },
    clientErrorHandler: createBrokenRequestHandler(unserved),
    // Requests on open connections get our own 503 while closing.
    return503OnClosing: false,
    // No route has a schema of Fastify's; without these it loads two compilers.
    schemaController: { compilersFactory: { buildValidator: noSchema, buildSerializer: noSchema } },
  };
}

function noSchema(): never {
  throw new Error('Operations validate with their own schemas: http/serve.ts');
}

/** Returns the methods of the API, sorted. */
function methodsOf(operations: readonly Operation[]): string[] {
  return [...new Set(['HEAD', ...operations.map(({ method }) => method)])].toSorted();
}

/** Returns a signal that is aborted when the app begins to close. */
function closingOf(app: FastifyInstance): AbortSignal {
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  return closing.signal;
}

/** Leaves bodies to the routes: none is read before the caller is authorized. */
export function leaveBodiesUnread(app: FastifyInstance): void {
  // So there is no phase of parsing, which rejects media types and takes time even when it does nothing.
  for (const method of app.supportedMethods) {
    app.addHttpMethod(method, { hasBody: false, overrideExisting: true });
  }
}

/** What all operations together may take. */
function servingLimits(
  limits: ApiSettings['limits'],
): Pick<ServeDeps, 'bodyBytesMax' | 'bodies' | 'unread' | 'lists'> {
  const { bodyBytesMax, bodiesBytesMax, unreadBytesMax, unreadOfAllBytesMax } = limits;
  return {
    bodyBytesMax,
    bodies: createMemoryPool({ bytesMax: bodiesBytesMax }),
    unread: createUnreadResponses({
      bytesMax: unreadBytesMax,
      pool: createMemoryPool({ bytesMax: unreadOfAllBytesMax }),
    }),
    lists: createTurnQueue(listsAtOnce),
  };
}

/** Adds the default picture of users (docs/http-api.md#default-picture), which belongs to no tenant. */
function registerAvatar(app: FastifyInstance): void {
  app.get('/avatar.svg', async (_request, reply) => reply.headers(pictureHeaders).send(picture));
}

const pictureHeaders = {
  'content-type': 'image/svg+xml',
  'content-security-policy': "default-src 'none'; sandbox",
  'cache-control': 'public, max-age=86400',
  'x-content-type-options': 'nosniff',
};

/** A head and shoulders on grey. */
const picture =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 96 96" width="96" height="96">' +
  '<rect width="96" height="96" fill="#d0d4da"/><circle cx="48" cy="38" r="17" fill="#8b94a1"/>' +
  '<path d="M14 96c2-24 16-36 34-36s32 12 34 36z" fill="#8b94a1"/></svg>\n';
