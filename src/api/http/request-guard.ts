import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../core/clock.ts';

/**
 * Requests of one connection that have no response yet. Few clients send a second one before the
 * response to the first; Node hands over all that one read of 64 KiB holds, some 2,000, in one turn.
 */
export const pipelinedMax = 64;

export interface RequestGuardDeps {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  /** Called for every connection that is closed for its requests. */
  readonly refuse: (socket: Socket) => void;
}

/** A connection that has sent a request. */
interface Connection {
  /** Requests without a response. */
  underWay: number;
  /** When the last response ended. */
  idleSinceMs: number;
  /** Polls whether it has been idle for too long; absent while nothing can be. */
  timer: Timer | undefined;
}

/**
 * Closes connections that send more requests at once than {@link pipelinedMax}, and hands over none
 * of those that are too many. Closes those whose next request has not come, with all of its headers,
 * by the time-outs for keep-alive and headers together: Node begins the former again with whatever
 * comes, for example blank lines, and the latter with the first byte of a request only. Those that get
 * idle while the server closes are closed. Call it after the server has its listeners of requests.
 */
export function guardRequests(server: Server, { clock, refuse }: RequestGuardDeps): void {
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
      // Node closed what was idle when this began, and lets other connections wait for a request.
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
    // One that runs already finds out by itself.
    if (connection.timer === undefined && !socket.destroyed) endIfIdle(socket, connection);
  };
  const isAdmitted = (socket: Socket, response: ServerResponse): boolean => {
    // Node goes on to the end of what it has read.
    if (socket.destroyed) return false;
    const connection = connectionOf(socket);
    if (connection.underWay >= pipelinedMax) {
      refuse(socket);
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
