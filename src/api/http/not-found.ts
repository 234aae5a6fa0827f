import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Authenticator } from '../authenticate.ts';
import { methodNotAllowed, noPath } from './problem.ts';
import type { RateState } from '../../core/rate.ts';
import { admitByRate, type RateLimiter } from './rate.ts';
import type { ClientAddress } from './client-address.ts';
import type { Clock } from '../../core/clock.ts';

/** A route as the router knows it: parameters with a colon, a star at the end for any rest. */
interface Route {
  readonly method: string;
  readonly path: string;
}

export interface NotFoundDeps {
  readonly authenticator: Authenticator;
  readonly limiter: Pick<RateLimiter, 'takeOfAddress' | 'takeOfProbe' | 'takeOfVerifier'>;
  readonly clientAddressOf: (request: FastifyRequest['raw']) => ClientAddress;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * Rejects requests that no route serves: 405 where the path exists with other methods, else 404. They
 * draw on the bucket of their path.
 */
export function rejectUnserved(app: FastifyInstance, deps: NotFoundDeps): void {
  const routes = routesOf(app);
  app.addHook('onRequest', async (request, reply) => {
    if (!request.is404) return;
    const path = (request.raw.url ?? '').replace(/\?.*$/s, '');
    if (/^\/api\/v2(?:\/|$)/.test(path)) await deps.authenticator.authenticate(request, reply);
    else takeOfBucket(deps, path, request, reply);
    const methods = methodsOf(routes, path);
    throw methods.length === 0 ? noPath(request.originalUrl) : methodNotAllowed(methods);
  });
}

/** Collects the routes as they are added. */
function routesOf(app: FastifyInstance): readonly Route[] {
  const routes: Route[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    for (const name of [method].flat()) routes.push({ method: name, path: url });
  });
  return routes;
}

/** Returns the methods of a path, sorted; none when no route has it. */
function methodsOf(routes: readonly Route[], path: string): string[] {
  const segments = decode(path).split('/');
  const methods = routes.filter((route) => fits(route.path.split('/'), segments));
  return [...new Set(methods.map(({ method }) => method))].toSorted();
}

/** Liveness probes and the picture of users have no bucket. */
const unlimited = /^\/(?:healthz|avatar\.svg)$/;

function takeOfBucket(
  { limiter, clientAddressOf, clock }: NotFoundDeps,
  path: string,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  if (unlimited.test(path)) return;
  const { address } = clientAddressOf(request.raw);
  admitByRate(reply, takeOf(limiter, path, address), clock.now());
}

function takeOf(limiter: NotFoundDeps['limiter'], path: string, address: string): RateState {
  if (path === '/readyz') return limiter.takeOfProbe(address);
  if (path.startsWith('/.well-known/')) return limiter.takeOfVerifier(address);
  return limiter.takeOfAddress(address);
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  const isOpen = pattern.at(-1) === '*' && segments.length > pattern.length;
  if (isOpen) return fits(pattern, segments.slice(0, pattern.length));
  return (
    pattern.length === segments.length &&
    pattern.every(
      (part, index) =>
        part === '*' || (part.startsWith(':') ? segments[index] !== '' : part === segments[index]),
    )
  );
}

function decode(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}
