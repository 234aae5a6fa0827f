import type { Socket } from 'node:net';
import { InvalidResponse } from './transport-error.ts';

/** The peer sent bytes before any request was written: no request can have caused them. */
export class EarlyResponse extends InvalidResponse {
  constructor() {
    super('response before the request');
  }
}

/** The peer sent bytes without a request on another connection: this response may be no response either. */
export class UnaskedResponse extends InvalidResponse {
  constructor() {
    super('response without a request');
  }
}

/**
 * Calls `ready` once the event loop has read what the peer of a new connection has sent so far; ends the
 * connection with {@link EarlyResponse} when that was something. Calls nothing when the socket was destroyed
 * meanwhile.
 */
export function whenSilent(socket: Socket, ready: () => void): void {
  const check = (): void => {
    if (socket.destroyed) return;
    if (socket.readableLength > 0) socket.destroy(new EarlyResponse());
    else ready();
  };
  afterPoll(check);
}

/**
 * Calls `action` once the event loop has read what has arrived: the first immediate runs before the next poll,
 * the second one after it.
 */
export function afterPoll(action: () => void): void {
  setImmediate(() => setImmediate(action));
}
