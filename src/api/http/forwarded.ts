import type { FastifyInstance } from 'fastify';
import type { IncomingMessage } from 'node:http';
import { Counts } from '../../core/counts.ts';
import { addressKey } from '../../core/rate.ts';
import { Problem } from './problem.ts';
import type { ClientAddress } from './client-address.ts';
import { sendProblem } from './respond.ts';
import type { ApiSettings } from '../settings.ts';

export interface ForwardedDeps {
  readonly settings: Pick<ApiSettings, 'trustProxy' | 'maxConnectionsPerAddress'>;
  readonly clientAddressOf: (request: IncomingMessage) => ClientAddress;
}

/**
 * Limits the requests under way of one client of a trusted proxy to the number of connections that it
 * could have without the proxy; connections of a proxy are not counted, as they carry the requests of
 * many clients. Above it the response is 429 and the connection is closed with the body unread.
 */
export function boundForwarded(
  app: FastifyInstance,
  { settings, clientAddressOf }: ForwardedDeps,
): void {
  if (settings.trustProxy.length === 0) return;
  const counts = new Counts<string>();
  app.addHook('onRequest', (request, reply, done) => {
    const client = clientOf(clientAddressOf, request.raw);
    if (client === undefined) return done();
    if (counts.of(client) >= settings.maxConnectionsPerAddress) {
      reply.raw.shouldKeepAlive = false;
      sendProblem(reply, tooManyAtOnce());
      return;
    }
    counts.add(client, 1);
    reply.raw.once('close', () => counts.add(client, -1));
    done();
  });
}

/** Returns the key of a forwarded request's client; `undefined` for a request that came directly. */
function clientOf(
  clientAddressOf: (request: IncomingMessage) => ClientAddress,
  request: IncomingMessage,
): string | undefined {
  const { address } = clientAddressOf(request);
  return address === request.socket.remoteAddress ? undefined : addressKey(address);
}

function tooManyAtOnce(): Problem {
  const message = 'Too many requests of this address are under way.';
  return new Problem(429, message, 'too_many_requests', { 'retry-after': '1' });
}
