import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../core/clock.ts';

export interface LastResponseDeps {
  readonly clock: Pick<Clock, 'after'>;
}

/** Time that a peer has to close its side after the last response. */
const lingerMs = 2_000;

/**
 * Creates the listener of `clientError`: ends connections without a complete, valid HTTP request, with
 * the response that `textOf` returns for a status. Without a TLS session there is no way to respond.
 */
export function createBrokenRequestListener(
  textOf: (status: BrokenStatus, socket: Socket) => string,
  deps: LastResponseDeps,
): (error: NodeJS.ErrnoException, socket: Socket) => void {
  return ({ code = '' }, socket) => {
    const isUnanswerable = /^(?:ECONNRESET$|ERR_SSL_|ERR_TLS_)/.test(code);
    if (isUnanswerable) return void socket.destroy();
    // It ends already; its last response may still be on its way.
    if (!socket.writable) return socket.destroySoon();
    endWith(socket, textOf(statuses[code] ?? 400, socket), deps);
  };
}

/** Status of the response to a message that Node's parser rejects, or that did not arrive in time. */
export type BrokenStatus = 400 | 408 | 413 | 431;

/** The message of 413, which chunk extensions alone cause; the limit is that of Node's parser. */
export const hugeExtensions = 'Payload Too Large: the limit of chunk extensions is 16384 bytes';

/** The message of 431; the limit is `maxHeaderSize` of both APIs. */
export const hugeHeader =
  'Request Header Fields Too Large: the limit of request line and headers is 16384 bytes';

const statuses: Readonly<Record<string, BrokenStatus>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** Ends the connection of each CONNECT with the response that `textOf` returns. */
export function endTunnels(
  server: Server,
  textOf: (socket: Socket) => string,
  deps: LastResponseDeps,
): void {
  server.on('connect', (_request: IncomingMessage, socket: Socket) => {
    // Node has removed its own listener.
    socket.on('error', () => {});
    endWith(socket, textOf(socket), deps);
  });
}

/**
 * Sends a last response and ends the connection. A peer that keeps sending is disconnected after
 * {@link lingerMs}: otherwise a byte now and then would hold the connection. Disconnecting at once
 * could discard the response in flight (RFC 9112 section 9.6).
 */
function endWith(socket: Socket, response: string, { clock }: LastResponseDeps): void {
  const cutOff = clock.after(lingerMs, () => socket.destroy());
  socket.once('close', () => cutOff.cancel());
  socket.end(response, 'latin1');
}
