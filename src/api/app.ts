import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import type { Keyring } from '../auth/keys.ts';
import type { TokenEndpoint } from '../auth/token.ts';
import type { Verifier } from '../auth/verify.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import type { Pulls } from '../pull/pulls.ts';
import type { Store } from '../store/port/store.ts';
import { createMemoryPool } from './http/memory-pool.ts';
import { createEventBodies } from './event-bodies.ts';
import { boundForwarded } from './http/forwarded.ts';
import { createAuthenticator } from './authenticate.ts';
import type { Log } from '../core/log.ts';
import { measureRoutes, measureUnserved, type RequestMetrics } from './http/request-metrics.ts';
import { type Route, serveNotFound } from './http/not-found.ts';
import { registerOauth } from './oauth.ts';
import { allOperations } from './operations.ts';
import type { Operation } from './operation.ts';
import { registerHealth } from './health.ts';
import { pooledRandom } from './http/random-pool.ts';
import { Problem } from './http/problem.ts';
import { createRateLimiter } from './http/rate.ts';
import { createReadiness } from './readiness.ts';
import { registerReference } from './reference/reference.ts';
import { createClientAddressReader, createSecureReader } from './http/client-address.ts';
import { whileOpen, type RouteHandler, sendProblem, serve, type ServeDeps } from './http/serve.ts';
import type { ApiSettings } from './settings.ts';
import {
  continueWhenRead,
  createBrokenRequestHandler,
  literalPath,
  serverLimits,
} from './http/server.ts';
import { createTenantDirectory } from './tenants.ts';
import { createTurnQueue } from './http/turn-queue.ts';
import { createUnreadResponses } from './http/unread.ts';
import type { TlsServer } from './http/tls.ts';

export interface AppDeps {
  readonly store: Store;
  readonly verifier: Pick<Verifier, 'verify'>;
  readonly tokenEndpoint: TokenEndpoint;
  readonly keyring: Pick<Keyring, 'jwks'>;
  readonly settings: ApiSettings;
  /** Ended when the app closes: they would hold it up for minutes. */
  readonly pulls: Pulls;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Pick<Log, 'error' | 'warn'>;
  /** False from the moment the process is to end: new requests are answered with 503. */
  readonly ready: () => boolean;
  /** What keeps this node from its work although the store answers, for `/readyz`; one sentence. */
  readonly obstacle: () => string | undefined;
  /** Of the program, as the reference page shows it. */
  readonly version: string;
  /** Makes the server, where it ends TLS itself. */
  readonly tls?: Pick<TlsServer, 'factory'> | undefined;
  /** Counts answers; absent where nobody asks for the numbers, and then nothing is measured. */
  readonly requestMetrics?: RequestMetrics | undefined;
}

/** Creates the management API and the token service; the caller lets it listen and closes it. */
export function buildApp(deps: AppDeps): FastifyInstance {
  const { store, settings, clock, log } = deps;
  const app = Fastify(serverOptions(deps));
  continueWhenRead(app.server);
  const measuring = deps.requestMetrics && { requestMetrics: deps.requestMetrics, clock };
  if (measuring !== undefined) measureRoutes(app, measuring);
  const tenants = createTenantDirectory({
    tenants: store.tenants,
    watch: store.watch.bind(store),
    clock,
  });
  const limiter = createRateLimiter({ clock, settings });
  const clientAddressOf = createClientAddressReader(settings.trustProxy);
  boundForwarded(app, { settings, clientAddressOf });
  const closing = closingOf(app);
  const open = (): boolean => deps.ready() && !closing();
  const authenticator = createAuthenticator({
    tenants,
    verifier: deps.verifier,
    limiter,
    clientAddressOf,
    clock,
    open,
  });
  const routes = routesOf(app);

  app.addHook('onReady', tenants.open);
  app.addHook('preClose', async () => deps.pulls.close());
  app.addHook('onClose', async () => tenants.close());
  leaveBodiesUnread(app);
  const { attributePrefix, limits } = settings;
  const eventBodies = createEventBodies({ attributePrefix, eventBytesMax: limits.eventBytesMax });
  app.addHook('onClose', eventBodies.close);
  const operations = allOperations({ ...deps, random: pooledRandom(deps.random), eventBodies });
  mount(app, operations, {
    authenticator,
    limiter,
    clock,
    log,
    open,
    bodyBytesMax: limits.bodyBytesMax,
    bodies: createMemoryPool({ bytesMax: limits.bodiesBytesMax }),
    unread: createUnreadResponses({
      bytesMax: limits.unreadBytesMax,
      pool: createMemoryPool({ bytesMax: limits.unreadOfAllBytesMax }),
    }),
    lists: createTurnQueue(listsAtOnce),
  });
  const isSecure = createSecureReader(settings.trustProxy);
  const { version } = deps;
  registerReference(app, {
    authenticator,
    log,
    operations,
    settings,
    clientAddressOf,
    isSecure,
    version,
  });
  registerHealth(app, { readiness: createReadiness(deps), log, open });
  registerOauth(app, { ...deps, tenants, limiter, clientAddressOf, open });
  const unserved = serveNotFound({ authenticator, limiter, clientAddressOf, clock, log, routes });
  const missing = measuring === undefined ? unserved : measureUnserved(unserved, measuring);
  app.setNotFoundHandler(missing);
  handleErrors(app, missing, log);
  return app;
}

function handleErrors(app: FastifyInstance, missing: RouteHandler, log: AppDeps['log']): void {
  app.setErrorHandler(async (error, request, reply) => {
    // Fastify judges the media type before it calls the handler of an unknown route.
    if (request.is404) return missing(request, reply);
    return whileOpen({ log }, async () => {
      throw error;
    })(request, reply);
  });
}

/** Of one list there may be some 40 MB in memory at a time. */
const listsAtOnce = { atOnce: 8, ofOwner: 2 };

function serverOptions({ tls, clock }: Pick<AppDeps, 'tls' | 'clock'>): FastifyServerOptions {
  return {
    ...serverLimits,
    ...(tls === undefined ? {} : { serverFactory: tls.factory }),
    // What cannot be decoded is taken literally: a path like any other, to be refused as one.
    rewriteUrl: ({ url = '/' }) => literalPath(url),
    frameworkErrors: (_error, _request, reply) => {
      void sendProblem(reply, new Problem(404, 'Not Found'));
    },
    clientErrorHandler: createBrokenRequestHandler({ clock }),
    // Requests that come on open connections while closing get 503 like every other.
    return503OnClosing: false,
  };
}

/** Whether the server has been told to close. */
function closingOf(app: FastifyInstance): () => boolean {
  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  return () => closing;
}

/** Collects the routes as they are added. */
function routesOf(app: FastifyInstance): readonly Route[] {
  const routes: Route[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    for (const name of [method].flat()) routes.push({ method: name, path: url });
  });
  return routes;
}

/** No body is read before the caller is authorized; each route reads its own. */
function leaveBodiesUnread(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _body, done) => done(null));
}

/**
 * Operations are served by the first hook of their route: Fastify goes on to judge the media type
 * of the body, which has its turn only after the caller is authorized.
 */
function mount(app: FastifyInstance, operations: readonly Operation[], deps: ServeDeps): void {
  for (const operation of operations) {
    app.route({
      method: operation.method,
      url: `/api/v2${operation.path}`,
      onRequest: serve(deps, operation),
      handler: () => Promise.reject(new Error('The hook has answered.')),
    });
  }
}
