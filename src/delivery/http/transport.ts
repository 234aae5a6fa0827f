import { isIP } from 'node:net';
import type { Clock } from '../../core/clock.ts';
import { isInspectorOrigin } from '../../core/inspector.ts';
import type { SendResult } from '../../core/retry.ts';
import type { SlowStart } from './shortages.ts';
import { createConnect } from './connect.ts';
import { Timeouts } from './deadlines.ts';
import type { BlockedFound, EgressRule } from './egress.ts';
import { Exchange } from './exchange.ts';
import { createLookup, type HttpConnection, openConnection } from './http-connection.ts';
import { UnaskedResponse } from './early-response.ts';
import { CertificateExpired } from './transport-error.ts';
import { createConnectionPool, type ConnectionPool } from './connection-pool.ts';
import type { Inspector } from './inspector.ts';
import type { NameLookups } from './name-lookups.ts';
import { type RequestNeeds, routeOf } from './route.ts';
import { UnaskedOrigins } from './unasked-origins.ts';

/** The request of a webhook. */
export interface WebhookRequest extends RequestNeeds {
  /** The name lookup is charged to this tenant. */
  readonly tenant: number;
  readonly stream: string;
  /** `https://host[:port]`, as `URL.origin` gives it. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
  /** Name, value, name, value, …; without `Host`, `Connection` and `Content-Length`. */
  readonly headers: string[];
  /** Name of the header with the authorization, in any case. */
  readonly secretHeader: string;
  /** Instead of {@link TransportDeps.timeoutMs}. */
  readonly timeoutMs?: number | undefined;
  readonly body: string;
}

/** An attempt under way. */
export interface PendingRequest {
  /** Never rejects. */
  readonly ended: Promise<SendResult>;
  /**
   * How long it waited for the start of its name lookup. The time and the duration of the attempt
   * count from then on. Mostly 0, see {@link Transport.prepare}.
   */
  readonly waitedMs: number;
  /** The access tokens that the response may hold; absent without any. */
  readonly tokens?: readonly string[];
  /** Ends it as `cancelled`, unless it has ended. */
  cancel(): void;
}

/** Sends webhooks. Every attempt ends in time, also with a hostile receiver. */
export interface Transport {
  /**
   * Returns true when an attempt to this origin can begin without waiting for a name lookup or an
   * access token: a connection is idle, the host is an address, or the last result of the lookup is
   * usable (also a failure while it is valid: the attempt ends with it then); the same for the token.
   * Otherwise looks the name up, or fetches the token, charged to the tenant, and resolves when that
   * has ended; never rejects. Where this node is short of something that a new connection needs, it
   * resolves after a while, without a lookup. Cheap, as it is called per attempt.
   */
  prepare(tenant: number, origin: string, needs?: RequestNeeds): true | Promise<void>;
  /**
   * Returns true when {@link Transport.prepare} would return true; starts no lookup. For a stream
   * whose lookup is under way while one of its connections may have become idle.
   */
  isReady(origin: string, needs?: RequestNeeds): boolean;
  /**
   * Begins an attempt. One whose name has to be looked up first waits, see
   * {@link PendingRequest.waitedMs}.
   */
  post(request: WebhookRequest): PendingRequest;
  /** Cancels all attempts and ends all connections; later posts are cancelled at once. */
  close(): Promise<void>;
}

/** A transport over HTTP with persistent connections. */
export interface HttpTransport extends Transport {
  /** Returns the number of routes, connections and idle connections. */
  count(): { readonly routes: number; readonly connections: number; readonly idle: number };
  /** Returns the number of idle connections of a route. */
  idle(route: string): number;
}

export interface TransportDeps {
  readonly clock: Clock;
  readonly egress: EgressRule;
  readonly names: Pick<NameLookups, 'isReady' | 'last' | 'find' | 'prepare'>;
  /** Receives the requests whose origin is an inspector, before anything else is done with them. */
  readonly inspector: Pick<Inspector, 'post'>;
  /** Holds back attempts that need a new connection; absent where they are held back elsewhere. */
  readonly shortage?: SlowStart | undefined;
  /** For one attempt, from the start of a name lookup to the end of the response's body. */
  readonly timeoutMs: number;
  /**
   * Bytes of a response's body that are read; then the connection is dropped and the status
   * decides.
   */
  readonly bodyBytesMax: number;
  /** Bytes of it that are kept as text. */
  readonly textBytesMax: number;
  /**
   * A connection carries no request that begins later than this after it was opened, and up to a tenth less, so
   * that those that were opened together are not replaced together. A receiver that has moved to other
   * addresses is reached there then.
   */
  readonly connectionMs: number;
  /** Idle connections, over all origins. */
  readonly idleConnectionsMax?: number;
  /** Called when the number of idle connections of a route has changed. */
  readonly idleChanged?: (route: string) => void;
  /** Called when an attempt ended because its name has no allowed address. */
  readonly blockedFound?: BlockedFound | undefined;
  /** Each connection to one of these carries one request. */
  readonly unasked?: UnaskedOrigins;
  readonly tls?: {
    /** Trusted instead of the authorities of Node. */
    readonly ca?: string | undefined;
  };
}

/**
 * Creates a transport that trusts no receiver: addresses are checked at connect, one timeout covers
 * the attempt, the bytes that are read are bounded, and redirects are responses like any other.
 *
 * It has its own pool over undici's `Client` (one connection, one request at a time), because
 * undici's pools cannot end a connection that is still being made, do not bound idle connections,
 * and need a fifth more processor time per request.
 */
export function createTransport(deps: TransportDeps): HttpTransport {
  const { clock, names, inspector, bodyBytesMax, textBytesMax, shortage } = deps;
  const connect = createConnect(deps);
  const timeouts = new Timeouts<Exchange>(clock, (exchange) => exchange.cutOff('timeout'));
  const lookup = createLookup(deps);
  let opened = 0;
  const lifeMs = (): number => {
    opened += 1;
    return deps.connectionMs * (1 - (opened % lives) / lives / 10);
  };
  const { unasked = new UnaskedOrigins(clock) } = deps;
  const connections: ConnectionPool<HttpConnection, WebhookRequest> = createConnectionPool({
    open: (route, request) => {
      const timeoutMs = request.timeoutMs ?? deps.timeoutMs;
      const about = { clock, connect, lookup, lifeMs, timeoutMs, unasked, connections };
      return openConnection(route, request, about);
    },
    isReusable: ({ origin, endsMs }) => clock.elapsedMs() < endsMs && !unasked.has(origin),
    idleMax: deps.idleConnectionsMax ?? idleConnectionsMax,
    idleChanged: deps.idleChanged,
  });
  // A response under way may be one of those that were not asked for.
  unasked.listen((origin, { isNew }) => {
    const asked = isNew ? connections.all().filter((each) => each.isAsked) : [];
    for (const { exchange } of asked.filter((each) => each.origin === origin)) {
      exchange?.onResponseError(undefined, new UnaskedResponse());
    }
  });
  let isClosed = false;
  return {
    prepare: (tenant, origin, needs) => {
      if (connections.idle(routeOf(origin, needs)) > 0 || isInspectorOrigin(origin)) return true;
      if (shortage?.isOpen === false) return shortage.wait();
      const name = hostOf(origin);
      return isIP(name) === 0 ? names.prepare(tenant, name) : true;
    },
    isReady: (origin, needs) => {
      if (connections.idle(routeOf(origin, needs)) > 0 || isInspectorOrigin(origin)) return true;
      const name = hostOf(origin);
      return shortage?.isOpen !== false && (isIP(name) !== 0 || names.isReady(name));
    },
    post: (request) => {
      const timeoutMs = request.timeoutMs ?? deps.timeoutMs;
      const deadlines = timeouts.of(timeoutMs);
      const exchange = new Exchange({ bodyBytesMax, textBytesMax, deadlines });
      deadlines.add(exchange);
      if (isClosed) exchange.cancel();
      else if (hasExpired(request, clock)) {
        exchange.onResponseError(undefined, new CertificateExpired());
      } else if (isInspectorOrigin(request.origin)) inspector.post(request, exchange, timeoutMs);
      else send(request, exchange, { connections, shortage });
      return exchange;
    },
    close: async () => {
      isClosed = true;
      for (const exchange of timeouts.items()) exchange.cancel();
      timeouts.close();
      await connections.close();
    },
    count: connections.count,
    idle: connections.idle,
  };
}

/** Different lives of connections. */
const lives = 16;

function hasExpired({ identity }: RequestNeeds, clock: Pick<Clock, 'now'>): boolean {
  return identity !== undefined && identity.expiresAt <= clock.now();
}

/** Returns the host of `scheme://host[:port]`, without the brackets of an IPv6 address. */
function hostOf(origin: string): string {
  const start = origin.indexOf('//') + 2;
  if (origin.startsWith('[', start)) return origin.slice(start + 1, origin.indexOf(']', start));
  const colon = origin.indexOf(':', start);
  return colon < 0 ? origin.slice(start) : origin.slice(start, colon);
}

/** The default: the number of attempts that may be under way by default. */
const idleConnectionsMax = 1024;

function send(
  request: WebhookRequest,
  exchange: Exchange,
  {
    connections,
    shortage,
  }: {
    readonly connections: ConnectionPool<HttpConnection, WebhookRequest>;
    readonly shortage: SlowStart | undefined;
  },
): void {
  try {
    const connection = connections.take(routeOf(request.origin, request), request);
    connection.exchange = exchange;
    connection.tenant = request.tenant;
    if (!connection.isReused) shortage?.began();
    exchange.connection = connection;
    // A receiver may have closed an idle connection right after its last response. One turn of the
    // event loop shows that before any of the request is written.
    if (connection.isReused) setImmediate(dispatch, connection, request, exchange);
    else dispatch(connection, request, exchange);
    connection.isReused = true;
  } catch (error) {
    // The origin is no HTTP URL.
    exchange.onResponseError(undefined, error);
  }
}

function dispatch(
  connection: HttpConnection,
  { path, headers, body }: WebhookRequest,
  exchange: Exchange,
): void {
  connection.client.dispatch({ path, method: 'POST', headers, body, blocking: false }, exchange);
}
