import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Requests of one connection that have no response yet. Few clients send a second one before the
 * response to the first; Node hands over all that one read of 64 KiB holds, some 2,000, in one turn.
 */
export const pipelinedMax = 64;

export interface RequestGuardDeps {
  /** Called for every connection that is closed. */
  readonly refuse: (socket: Socket) => void;
}

/**
 * Closes connections that send more requests at once than {@link pipelinedMax}, and hands over none
 * of those that are too many. Call it after the server has its listeners of requests.
 */
export function guardRequests(server: Server, { refuse }: RequestGuardDeps): void {
  const underWay = new WeakMap<Socket, number>();
  const isAdmitted = (socket: Socket, response: ServerResponse): boolean => {
    // Node goes on to the end of what it has read.
    if (socket.destroyed) return false;
    const present = underWay.get(socket) ?? 0;
    if (present >= pipelinedMax) {
      refuse(socket);
      socket.destroy();
      return false;
    }
    underWay.set(socket, present + 1);
    response.once('close', () => underWay.set(socket, (underWay.get(socket) ?? 0) - 1));
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
