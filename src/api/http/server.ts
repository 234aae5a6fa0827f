import type { Server, ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import { endWith } from './connection-guard.ts';
import type { Clock } from '../../core/clock.ts';
import { Problem, problemBody } from './problem.ts';

/** Limit of the request line and headers, and so of every path parameter. */
const headerBytesMax = 16_384;

const http: ServerOptions = {
  maxHeaderSize: headerBytesMax,
  /** From the connection or the first byte of a request to the end of its headers. */
  headersTimeout: 16_000,
  /** Both timeouts take effect at most this much later. */
  connectionsCheckingInterval: 2_000,
};

/** Limits of the HTTP server. */
export const serverLimits = {
  http,
  /**
   * From the first byte of a request to the last byte of its body; the response does not count.
   */
  requestTimeout: 30_000,
  /** Timeout of a connection without traffic. */
  connectionTimeout: 120_000,
  keepAliveTimeout: 72_000,
  routerOptions: {
    maxParamLength: headerBytesMax,
    // Operations take the query from the URL, see `queryOf`.
    querystringParser: (): Record<string, never> => ({}),
  },
};

/**
 * Leaves `Expect: 100-continue` to the reader of bodies: a client must not send its body before it is
 * authorized.
 */
export function continueWhenRead(server: Server): void {
  server.on('checkContinue', (request, response) => server.emit('request', request, response));
}

/**
 * Creates the handler of connections without a complete, valid HTTP request: responds where possible
 * and ends the connection. Without a TLS session there is no way to respond.
 */
export function createBrokenRequestHandler(deps: {
  readonly clock: Pick<Clock, 'after'>;
}): (error: Error & { code?: string }, socket: Socket) => void {
  return (error, socket) => {
    const unanswerable = /^(?:ECONNRESET$|ERR_SSL_|ERR_TLS_)/.test(error.code ?? '');
    if (unanswerable || !socket.writable || socket.bytesWritten > 0) {
      socket.destroy();
      return;
    }
    const [status, reason] = statuses[error.code ?? ''] ?? [400, 'Bad Request'];
    const body = JSON.stringify(problemBody(new Problem(status, reason)));
    const response =
      `HTTP/1.1 ${status} ${reason}\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `cache-control: no-store\r\nx-content-type-options: nosniff\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`;
    endWith(socket, response, deps);
  };
}

const statuses: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'Payload Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};
