import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { endWith } from './connection-guard.ts';
import type { Clock } from '../../core/clock.ts';
import { methodNotAllowed, Problem, problemBody } from './problem.ts';
import { rateHeaders, type RateLimiter } from './rate.ts';

export interface UnservedDeps {
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly limiter: Pick<RateLimiter, 'takeOfAddress'>;
}

/**
 * Creates the handler of connections without a complete, valid HTTP request: responds where possible
 * and ends the connection. Without a TLS session there is no way to respond.
 */
export function createBrokenRequestHandler(
  deps: UnservedDeps,
): (error: Error & { code?: string }, socket: Socket) => void {
  return (error, socket) => {
    const unanswerable = /^(?:ECONNRESET$|ERR_SSL_|ERR_TLS_)/.test(error.code ?? '');
    if (unanswerable) return void socket.destroy();
    // It ends already; its last response may still be on its way.
    if (!socket.writable) return socket.destroySoon();
    const status = statuses[error.code ?? ''] ?? 400;
    endWithProblem(socket, new Problem(status, STATUS_CODES[status] ?? ''), deps);
  };
}

const statuses: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** Rejects CONNECT with 405: its target is no path, so the methods are those of the whole API. */
export function rejectTunnels(
  server: Server,
  methods: readonly string[],
  deps: UnservedDeps,
): void {
  server.on('connect', (_request: IncomingMessage, socket: Socket) => {
    // Node has removed its own listener.
    socket.on('error', () => {});
    endWithProblem(socket, methodNotAllowed(methods), deps);
  });
}

/** Responds as the routes do; no header of a proxy is known to be valid, so the peer is the client. */
function endWithProblem(socket: Socket, problem: Problem, { clock, limiter }: UnservedDeps): void {
  const { status } = problem;
  const body = JSON.stringify(problemBody(problem));
  const now = clock.now();
  const headers = {
    date: new Date(now).toUTCString(),
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...rateHeaders(limiter.takeOfAddress(socket.remoteAddress ?? ''), now),
    ...problem.headers,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`;
  endWith(socket, `${line}\r\n${lines.join('')}\r\n${body}`, { clock });
}
