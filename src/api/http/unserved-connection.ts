import { type Server, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../core/clock.ts';
import {
  createBrokenRequestListener,
  endTunnels,
  hugeExtensions,
  hugeHeader,
} from './last-response.ts';
import { methodNotAllowed, Problem, problemBody } from './problem.ts';
import { rateHeaders, type RateLimiter } from './rate.ts';

export interface UnservedDeps {
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly limiter: Pick<RateLimiter, 'takeOfAddress'>;
}

/** Creates the handler of connections without a complete, valid HTTP request. */
export function createBrokenRequestHandler(
  deps: UnservedDeps,
): ReturnType<typeof createBrokenRequestListener> {
  return createBrokenRequestListener((status, socket) => {
    return textOf(
      socket,
      new Problem(status, messages[status] ?? STATUS_CODES[status] ?? ''),
      deps,
    );
  }, deps);
}

const messages: Readonly<Partial<Record<number, string>>> = {
  413: hugeExtensions,
  431: hugeHeader,
};

/** Rejects CONNECT with 405: its target is no path, so the methods are those of the whole API. */
export function rejectTunnels(
  server: Server,
  methods: readonly string[],
  deps: UnservedDeps,
): void {
  endTunnels(server, (socket) => textOf(socket, methodNotAllowed(methods), deps), deps);
}

/**
 * Returns a response like those of the routes. No header of a proxy is known to be valid, so the peer
 * is the client.
 */
function textOf(socket: Socket, problem: Problem, { clock, limiter }: UnservedDeps): string {
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
  return `${line}\r\n${lines.join('')}\r\n${body}`;
}
