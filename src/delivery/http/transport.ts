import { isIP, type LookupFunction, type Socket } from 'node:net';
import { Client } from 'undici';
import type { Clock } from '../../core/clock.ts';
import type { AttemptResult } from '../../core/retry.ts';
import { createConnect, type Connect, type Connected, type ConnectTarget } from './connect.ts';
import { createDeadlines } from './deadlines.ts';
import type { EgressRule } from './egress.ts';
import { Exchange, type ExchangeConnection } from './exchange.ts';
import { createConnectionPool, type Connection, type ConnectionPool } from './connection-pool.ts';
import { giveAddresses } from './lookup-function.ts';
import { type NameAnswer, type NameLookups, timedOut } from './name-lookups.ts';

/** A webhook, ready to be sent. */
export interface WebhookRequest {
  /** Whose webhook it is: its name lookup is charged to this tenant. */
  readonly tenant: number;
  /** `https://host[:port]`, as `URL.origin` gives it. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
  /** Name, value, name, value, …; without `Host`, `Connection` and `Content-Length`. */
  readonly headers: string[];
  readonly body: string;
}

/** An attempt under way. */
export interface PendingRequest {
  /** Never rejects. */
  readonly ended: Promise<AttemptResult>;
  /**
   * How long it waited until the lookup of its receiver's name could begin. The attempt's time is
   * counted from then on, and its duration should be, too. Mostly 0, see {@link Transport.prepare}.
   */
  readonly waitedMs: number;
  /** Cuts it off: it ends as `cancelled`, unless it has ended. */
  cancel(): void;
}

/** Sends webhooks. Whatever a receiver does, an attempt ends, and in time. */
export interface Transport {
  /**
   * Returns true when an attempt to this origin can begin without waiting for a name: a connection
   * is idle, the host is an address, or what the name resolved to is usable (also that it could not be
   * resolved, while that is valid; the attempt ends as such then). Otherwise looks the name up at the expense of
   * the tenant, and resolves when that has ended; never rejects. Cheap: it is called per attempt.
   */
  prepare(tenant: number, origin: string): true | Promise<void>;
  /**
   * Returns true when {@link Transport.prepare} would return true, and starts nothing: for a stream
   * whose lookup is under way while one of its connections may have become idle.
   */
  isReady(origin: string): boolean;
  /** Begins an attempt. One whose name has to be looked up first waits, see {@link PendingRequest.waitedMs}. */
  post(request: WebhookRequest): PendingRequest;
  /** Cuts off all attempts and ends all connections; what is posted afterwards is cancelled. */
  close(): Promise<void>;
}

/** A transport over HTTP, which keeps connections. */
export interface HttpTransport extends Transport {
  /** How many origins and connections it knows now, and how many of those are idle. */
  count(): { readonly origins: number; readonly connections: number; readonly idle: number };
}

export interface TransportDeps {
  readonly clock: Clock;
  readonly egress: EgressRule;
  readonly names: Pick<NameLookups, 'isReady' | 'last' | 'find' | 'prepare'>;
  /** For one attempt, from the start of a name lookup to the end of the answer's body. */
  readonly timeoutMs: number;
  /** Read of an answer's body; then the connection is dropped and the status decides. */
  readonly bodyBytesMax: number;
  /** Kept of it as text. */
  readonly textBytesMax: number;
  /** Connections that wait for the next request, over all origins. */
  readonly idleConnectionsMax?: number;
  readonly tls?: {
    /** Trusted instead of the authorities Node knows. */
    readonly ca?: string | undefined;
  };
}

/**
 * Sends webhooks and trusts no receiver: addresses are judged at connect, one time-out covers the
 * attempt, what is read is bounded, and redirects are answers like any other.
 *
 * It keeps its connections itself, over undici's `Client` (one connection, one request at a time),
 * because undici's pools cannot end a connection that is still being made, do not bound the idle
 * ones, and spend a fifth more processor time on each request.
 */
export function createTransport(deps: TransportDeps): HttpTransport {
  const { clock, names, bodyBytesMax, textBytesMax } = deps;
  const connect = createConnect(deps);
  const deadlines = createDeadlines<Exchange>({
    clock,
    afterMs: deps.timeoutMs,
    passed: (exchange) => exchange.cutOff('timeout'),
  });
  const lookUp: LookUp = (tenant, name, exchange, ended) => {
    const known = names.last(name);
    if (known !== undefined) return queueMicrotask(() => ended(known));
    const sinceMs = clock.elapsedMs();
    let isWaiting = true;
    const begun = (): void => {
      if (!isWaiting) return;
      isWaiting = false;
      timer.cancel();
      exchange?.resume(clock.elapsedMs() - sinceMs);
    };
    let isOver = false;
    const endOnce = (answer: NameAnswer): void => {
      if (!isOver) ended(answer);
      isOver = true;
    };
    const timer = clock.after(connectionWaitMaxMs, () => {
      begun();
      endOnce({ kind: 'failed', code: timedOut });
    });
    exchange?.pause();
    names.find(tenant, name, { first: true, begun, ended: endOnce });
  };
  const connections: ConnectionPool<HttpConnection> = createConnectionPool({
    open: (origin) => openConnection(origin, { connect, lookUp, connections }),
    idleMax: deps.idleConnectionsMax ?? idleConnectionsMax,
  });
  const exchangeDeps = { bodyBytesMax, textBytesMax, deadlines };
  let isClosed = false;
  return {
    prepare: (tenant, origin) => {
      if (connections.hasIdle(origin)) return true;
      const name = hostOf(origin);
      return isIP(name) === 0 ? names.prepare(tenant, name) : true;
    },
    isReady: (origin) => {
      if (connections.hasIdle(origin)) return true;
      const name = hostOf(origin);
      return isIP(name) !== 0 || names.isReady(name);
    },
    post: (request) => {
      const exchange = new Exchange(exchangeDeps);
      deadlines.add(exchange);
      if (isClosed) exchange.cancel();
      else send(request, exchange, connections);
      return exchange;
    },
    close: async () => {
      isClosed = true;
      for (const exchange of deadlines.items()) exchange.cancel();
      deadlines.close();
      await connections.close();
    },
    count: connections.count,
  };
}

/**
 * Calls `ended` with what a name resolved to; the time of the exchange stands still until its lookup
 * begins. The attempt was prepared, so this is for what has changed since: another attempt took the
 * idle connection, or the receiver ended it.
 */
type LookUp = (
  tenant: number,
  name: string,
  exchange: Exchange | undefined,
  ended: (answer: NameAnswer) => void,
) => void;

/**
 * An attempt waits this long for the start of a lookup, then it fails: it holds a slot, and its row is
 * claimed for little longer than the time of an attempt.
 */
const connectionWaitMaxMs = 2000;

/** The host of `scheme://host[:port]`, without the brackets of an IPv6 address. */
function hostOf(origin: string): string {
  const start = origin.indexOf('//') + 2;
  if (origin.startsWith('[', start)) return origin.slice(start + 1, origin.indexOf(']', start));
  const colon = origin.indexOf(':', start);
  return colon < 0 ? origin.slice(start) : origin.slice(start, colon);
}

/** When no other number is given: as many as attempts may be under way by default. */
const idleConnectionsMax = 1024;

/** How long an idle connection is kept. A receiver can shorten it (`Keep-Alive`), not lengthen. */
const idleMs = 10_000;

/** Of an answer; more is a protocol error. */
const headerBytesMax = 16_384;

function send(
  request: WebhookRequest,
  exchange: Exchange,
  connections: ConnectionPool<HttpConnection>,
): void {
  try {
    const connection = connections.take(request.origin);
    connection.exchange = exchange;
    connection.tenant = request.tenant;
    exchange.connection = connection;
    // The end of a kept connection may be under way to us, right behind the answer before. A turn
    // of the event loop brings it to light, while nothing of the request is written yet.
    if (connection.isKept) setImmediate(dispatch, connection, request, exchange);
    else dispatch(connection, request, exchange);
    connection.isKept = true;
  } catch (error) {
    // The origin is no URL of HTTP.
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

/** A connection through undici. */
interface HttpConnection extends Connection, ExchangeConnection {
  readonly client: Client;
  /** Whose exchange it carries. */
  tenant: number;
  /** It was used before. */
  isKept: boolean;
}

function openConnection(
  origin: string,
  {
    connect,
    lookUp,
    connections,
  }: {
    readonly connect: Connect;
    readonly lookUp: LookUp;
    readonly connections: ConnectionPool<HttpConnection>;
  },
): HttpConnection {
  let socket: Socket | undefined;
  const lookup: LookupFunction = (name, options, callback) =>
    lookUp(connection.tenant, name, connection.exchange, (answer) =>
      giveAddresses(answer, options, callback),
    );
  const client = new Client(origin, {
    connect: (target: ConnectTarget, connected: Connected) => {
      connection.phase = 'connecting';
      socket = connect(target, lookup, connected);
      // First, because the next one to hear of it may send the request.
      socket.prependOnceListener('connect', () => (connection.phase = 'securing'));
      socket.on('readable', () => connection.exchange?.countWire(socket?.bytesRead ?? 0));
    },
    pipelining: 1,
    keepAliveTimeout: idleMs,
    keepAliveMaxTimeout: idleMs,
    maxHeaderSize: headerBytesMax,
    // One time-out of ours covers the attempt.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const connection: HttpConnection = {
    origin,
    client,
    phase: 'connecting',
    exchange: undefined,
    tenant: 0,
    isKept: false,
    release: () => connections.release(connection),
    drop: () => connections.drop(connection),
    end: async () => {
      socket?.destroy();
      await client.destroy();
    },
  };
  client.on('disconnect', () => {
    // With an exchange that was not sent yet, undici connects again.
    if (connection.exchange === undefined) connection.drop();
  });
  return connection;
}
