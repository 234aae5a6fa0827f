import type { Server, ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import { endWith } from './connection-guard.ts';
import type { Clock } from '../../core/clock.ts';
import { Problem, problemBody } from './problem.ts';

/** Longest request line and headers, which also bounds every path parameter. */
const headerBytesMax = 16_384;

const http: ServerOptions = {
  maxHeaderSize: headerBytesMax,
  /** From the connection or the first byte of a request to the end of its headers. */
  headersTimeout: 16_000,
  /** Both time-outs take effect this much later at most. */
  connectionsCheckingInterval: 2_000,
};

/** Bounds of the HTTP server. */
export const serverLimits = {
  http,
  /**
   * From the first byte of a request to the last of its body. A stream of events that is sent as a
   * response is not part of it.
   */
  requestTimeout: 30_000,
  /** A connection on which nothing moves. */
  connectionTimeout: 120_000,
  keepAliveTimeout: 72_000,
  routerOptions: {
    maxParamLength: headerBytesMax,
    // Parsed by the schema of the route.
    querystringParser: (text: string): { readonly text: string } => ({ text }),
  },
};

/**
 * Lets the reader of a body answer a client that asks before it sends one (`Expect: 100-continue`),
 * so that it is not told to go on before its turn.
 */
export function continueWhenRead(server: Server): void {
  server.on('checkContinue', (request, response) => server.emit('request', request, response));
}

/** A path whose percent-encoding cannot be decoded, with its percent signs taken literally. */
export function literalPath(url: string): string {
  if (!url.includes('%')) return url;
  const at = url.indexOf('?');
  const path = at === -1 ? url : url.slice(0, at);
  try {
    decodeURIComponent(path);
    return url;
  } catch {
    return path.replaceAll('%', '%25') + url.slice(path.length);
  }
}

/**
 * Creates the handler of connections that bring no complete, valid HTTP request: responds as far as
 * possible and ends the connection. Without a TLS session there is nothing to respond through.
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
