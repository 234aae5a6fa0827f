import type { Server, ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import { Problem, problemBody } from './problem.ts';

/** Longest request line and headers, which also bounds every path parameter. */
const headerBytesMax = 16_384;

const http: ServerOptions = {
  maxHeaderSize: headerBytesMax,
  /** Headers that do not come in time end the connection: a stranger cannot hold it open. */
  headersTimeout: 15_000,
  connectionsCheckingInterval: 5_000,
};

/** Bounds of the HTTP server. */
export const serverLimits = {
  http,
  /** From the first byte of a request to the last of its body. */
  requestTimeout: 60_000,
  /** A connection on which nothing moves. */
  connectionTimeout: 120_000,
  keepAliveTimeout: 72_000,
  routerOptions: { maxParamLength: headerBytesMax },
};

/** Connections at once; what comes above is closed. */
const connectionsMax = 20_000;

/**
 * Bounds the server itself. A client that asks before it sends a body (`Expect: 100-continue`) is
 * answered by whoever reads the body, not before its turn.
 */
export function boundServer(server: Server): void {
  server.maxConnections = connectionsMax;
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
 * Answers what is no HTTP request, as far as it can be answered, and closes the connection. Where
 * TLS did not come about there is nothing to answer through.
 */
export function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  const unanswerable = /^(?:ECONNRESET$|ERR_SSL_|ERR_TLS_)/.test(error.code ?? '');
  if (unanswerable || !socket.writable || socket.bytesWritten > 0) {
    socket.destroy();
    return;
  }
  const [status, reason] = statuses[error.code ?? ''] ?? [400, 'Bad Request'];
  const body = JSON.stringify(problemBody(new Problem(status, reason)));
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `cache-control: no-store\r\nx-content-type-options: nosniff\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

const statuses: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'Payload Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};
