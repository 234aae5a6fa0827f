import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Clock } from '../../core/clock.ts';
import { partsOfTarget, statusOfHead } from '../../core/request-head.ts';
import type { ClientAddress } from './client-address.ts';
import { Problem, tooManyRequests } from './problem.ts';
import { rateHeaders, type RateLimiter, retryAfterSeconds } from './rate.ts';
import { sendProblem } from './respond.ts';

export interface RequestHeadDeps {
  readonly limiter: Pick<RateLimiter, 'takeOfAddress'>;
  readonly clientAddressOf: (request: IncomingMessage) => ClientAddress;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * Returns the target in origin form. The authority of an absolute target replaces the header `Host`
 * (RFC 9112 section 3.2.2). A target in neither form gets its 400 from {@link rejectInvalidHeads}.
 */
export function toOriginForm(request: IncomingMessage): string {
  const { url = '' } = request;
  if (url.startsWith('/')) return url;
  const { authority, path } = partsOfTarget(url) ?? { path: '/' };
  if (authority !== undefined) request.headers.host = authority;
  return path.startsWith('/') ? path : `/${path}`;
}

/**
 * Rejects requests whose head is not valid or needs what the server does not have, and closes their
 * connection: what follows them may not be the next request. They count against the bucket of their
 * address. To be called before anything else sees a request.
 */
export function rejectInvalidHeads(app: FastifyInstance, deps: RequestHeadDeps): void {
  const { limiter, clientAddressOf, clock } = deps;
  app.addHook('onRequest', (request, reply, done) => {
    const status = statusOf(request);
    if (status === undefined) return done();
    const rate = limiter.takeOfAddress(clientAddressOf(request.raw).address);
    const problem = rate.admitted
      ? new Problem(status, STATUS_CODES[status] ?? '')
      : tooManyRequests(retryAfterSeconds(rate));
    reply.raw.shouldKeepAlive = false;
    sendProblem(reply.headers(rateHeaders(rate, clock.now())), problem);
  });
}

function statusOf({ raw, originalUrl }: FastifyRequest): number | undefined {
  const { httpVersion, rawHeaders, headers } = raw;
  const status = statusOfHead({ httpVersion, rawHeaders, target: originalUrl });
  return status ?? (isExpectationKnown(httpVersion, headers.expect) ? undefined : 417);
}

/** RFC 9110 section 10.1.1: the only expectation is `100-continue`, and HTTP/1.0 has none. */
function isExpectationKnown(httpVersion: string, expect: string | undefined): boolean {
  return httpVersion === '1.0' || expect === undefined || expect.toLowerCase() === '100-continue';
}
