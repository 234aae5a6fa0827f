import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../core/clock.ts';

/**
 * Requests of one connection without a response. Few clients pipeline; Node emits all requests of one
 * read of 64 KiB, some 2,000, in one turn of the event loop.
 */
export const pipelinedMax = 64;

export interface RequestGuardDeps {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  /** Called for every connection that is closed for its requests. */
  readonly reject: (socket: Socket) => void;
}

/** A connection that has sent a request, or what is none. */
interface Connection {
  /** Requests without a response. */
  underWay: number;
  /** When the last response ended. */
  idleSinceMs: number;
  /** Checks whether it has been idle for too long; absent while a request is under way. */
  timer: Timer | undefined;
  /** The latest response, while it or its request is incomplete. */
  latest: ServerResponse | undefined;
  /** Whether it ends after a response that was sent: RFC 9112 section 9.6. */
  isEnding: boolean;
  /** What follows its requests is not valid; reported once no more requests than these are under way. */
  failure: { readonly underWayMax: number; readonly report: () => void } | undefined;
}

/**
 * Closes connections with more requests under way than {@link pipelinedMax}; the excess requests are
 * not served. Closes connections whose next request is not complete with its headers within the
 * timeouts for keep-alive and headers together: Node restarts the former with every byte, blank lines
 * included, and starts the latter with the first byte of a request. Closes connections that become
 * idle while the server closes. Serves the requests of a connection one after the other, see {@link inTurn},
 * and keeps errors in the order of its responses, see {@link orderErrors}. Call it after the server has its listeners.
 */
export function guardRequests(server: Server, { clock, reject }: RequestGuardDeps): void {
  const connectionOf = trackConnections();
  const leave = createLeave(server, clock);
  // One listener for all responses: they are many.
  function onClose(this: ServerResponse): void {
    leave(connectionOf(this.req.socket), this);
  }
  const isAdmitted = (request: IncomingMessage, response: ServerResponse): boolean => {
    const { socket } = request;
    // Node emits the rest of what it has read.
    if (socket.destroyed) return false;
    const connection = connectionOf(socket);
    const { latest } = connection;
    if (connection.isEnding || latest?.shouldKeepAlive === false) return false;
    if (connection.underWay >= pipelinedMax) {
      reject(socket);
      socket.destroy();
      return false;
    }
    // Leat upgrades nothing. Node then drops the bytes that follow in the same read.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false;
    connection.underWay += 1;
    connection.latest = response;
    response.on('close', onClose);
    return true;
  };
  intercept<[IncomingMessage, ServerResponse]>(
    server,
    'request',
    (serve) => (request, response) => {
      if (isAdmitted(request, response)) inTurn(response, () => serve(request, response));
    },
  );
  orderErrors(server, connectionOf);
}

/**
 * Calls `serve` once the response before this one on its connection was written: requests that change something
 * take effect in the order in which a client pipelines them (RFC 9112 section 9.3.2). Node assigns the
 * socket to one response at a time, before it emits the request where none is before it.
 */
function inTurn(response: ServerResponse, serve: () => void): void {
  if (response.socket !== null) return serve();
  // Later: Node is about to write what the response has so far.
  response.once('socket', (socket) =>
    queueMicrotask(() => {
      if (!socket.destroyed) serve();
    }),
  );
}

type ConnectionOf = (socket: Socket) => Connection;

function trackConnections(): ConnectionOf {
  const connections = new WeakMap<Socket, Connection>();
  return (socket) => {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const connection: Connection = {
      underWay: 0,
      idleSinceMs: 0,
      timer: undefined,
      latest: undefined,
      isEnding: false,
      failure: undefined,
    };
    connections.set(socket, connection);
    socket.once('close', () => stopTimer(connection));
    return connection;
  };
}

/** Creates the function to call when a response ends. */
function createLeave(
  server: Server,
  clock: RequestGuardDeps['clock'],
): (connection: Connection, response: ServerResponse) => void {
  const endIfIdle = (socket: Socket, connection: Connection): void => {
    connection.timer = undefined;
    if (connection.underWay > 0) return;
    if (!server.listening) {
      // Node closed connections that were idle when closing began, but not those idle from now on.
      socket.destroySoon();
      return;
    }
    const idleMs = clock.elapsedMs() - connection.idleSinceMs;
    const leftMs = server.keepAliveTimeout + server.headersTimeout - idleMs;
    if (leftMs <= 0) socket.destroy();
    else connection.timer = clock.after(leftMs, () => endIfIdle(socket, connection));
  };
  return (connection, response) => {
    const { socket, complete } = response.req;
    connection.underWay -= 1;
    if (connection.latest === response) {
      connection.isEnding = !response.shouldKeepAlive;
      // An idle connection needs no memory for what it has sent.
      if (complete) connection.latest = undefined;
    }
    connection.idleSinceMs = clock.elapsedMs();
    reportFailure(connection);
    if (!server.listening) stopTimer(connection);
    // A timer that runs already will check.
    if (connection.timer === undefined && !socket.destroyed) endIfIdle(socket, connection);
  };
}

/**
 * Reports an error in what follows complete requests after their responses, and only once: before
 * them, its response would be taken for theirs. The rest of a request that has its response already
 * gets none.
 */
function orderErrors(server: Server, connectionOf: ConnectionOf): void {
  intercept<[NodeJS.ErrnoException, Socket]>(
    server,
    'clientError',
    (listener) => (error, socket) => {
      if (socket.destroyed || !isOfMessage(error)) return listener(error, socket);
      const connection = connectionOf(socket);
      // The parser repeats its error for each further read.
      if (connection.failure !== undefined) return;
      const { latest } = connection;
      const isIncomplete = latest?.req.complete === false;
      const report = (): void => {
        if (isIncomplete && latest.headersSent) socket.destroySoon();
        else listener(error, socket);
      };
      connection.failure = { underWayMax: isIncomplete ? 1 : 0, report };
      reportFailure(connection);
    },
  );
  intercept<[IncomingMessage, Socket, Buffer]>(
    server,
    'connect',
    (serve) => (request, socket, head) => {
      // Node cannot send the responses under way any more.
      if (connectionOf(socket).underWay > 0) socket.destroy();
      else serve(request, socket, head);
    },
  );
}

/** Replaces the listeners of an event by one that may call them. */
function intercept<A extends unknown[]>(
  server: Server,
  event: string,
  listenerAround: (callListeners: (...args: A) => void) => (...args: A) => void,
): void {
  const listeners = server.listeners(event);
  if (listeners.length === 0) return;
  const callListeners = (...args: A): void => {
    for (const listener of listeners) listener.apply(server, args);
  };
  server.removeAllListeners(event).on(event, listenerAround(callListeners));
}

/** Whether a message cannot be parsed or is late; otherwise the connection is broken. */
function isOfMessage({ code = '' }: NodeJS.ErrnoException): boolean {
  return code.startsWith('HPE_') || code === 'ERR_HTTP_REQUEST_TIMEOUT';
}

function reportFailure(connection: Connection): void {
  const { underWay, failure } = connection;
  if (failure === undefined || underWay > failure.underWayMax) return;
  connection.failure = reported;
  failure.report();
}

const reported = { underWayMax: -1, report: (): void => {} };

function stopTimer(connection: Connection): void {
  connection.timer?.cancel();
  connection.timer = undefined;
}
