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

/** A connection that has sent a request. */
interface Connection {
  /** Requests without a response. */
  underWay: number;
  /** When the last response ended. */
  idleSinceMs: number;
  /** Checks whether it has been idle for too long; absent while a request is under way. */
  timer: Timer | undefined;
}

/**
 * Closes connections with more requests under way than {@link pipelinedMax}; the excess requests are
 * not served. Closes connections whose next request is not complete with its headers within the
 * timeouts for keep-alive and headers together: Node restarts the former with every byte, blank lines
 * included, and starts the latter with the first byte of a request. Closes connections that become
 * idle while the server closes. Call it after the server has its listeners of requests.
 */
export function guardRequests(server: Server, { clock, reject }: RequestGuardDeps): void {
  const connections = new WeakMap<Socket, Connection>();
  const connectionOf = (socket: Socket): Connection => {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const connection = { underWay: 0, idleSinceMs: 0, timer: undefined };
    connections.set(socket, connection);
    socket.once('close', () => stopTimer(connection));
    return connection;
  };
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
  const leave = (socket: Socket, connection: Connection): void => {
    connection.underWay -= 1;
    connection.idleSinceMs = clock.elapsedMs();
    if (!server.listening) stopTimer(connection);
    // A timer that runs already will check.
    if (connection.timer === undefined && !socket.destroyed) endIfIdle(socket, connection);
  };
  const isAdmitted = (socket: Socket, response: ServerResponse): boolean => {
    // Node emits the rest of what it has read.
    if (socket.destroyed) return false;
    const connection = connectionOf(socket);
    if (connection.underWay >= pipelinedMax) {
      reject(socket);
      socket.destroy();
      return false;
    }
    connection.underWay += 1;
    response.once('close', () => leave(socket, connection));
    return true;
  };
  for (const event of ['request', 'checkExpectation']) {
    const listeners = server.listeners(event);
    if (listeners.length === 0) continue;
    const handOver = (request: IncomingMessage, response: ServerResponse): void => {
      if (!isAdmitted(request.socket, response)) return;
      for (const listener of listeners) listener.call(server, request, response);
    };
    server.removeAllListeners(event).on(event, handOver);
  }
}

function stopTimer(connection: Connection): void {
  connection.timer?.cancel();
  connection.timer = undefined;
}
