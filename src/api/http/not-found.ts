import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Authenticator } from '../authenticate.ts';
import { methodNotAllowed, notFound } from './problem.ts';
import { type RateLimiter, rateHeaders } from './rate.ts';
import type { ClientAddress } from './client-address.ts';
import type { Clock } from '../../core/clock.ts';

/** A route as the router knows it: parameters with a colon, a star at the end for any rest. */
interface Route {
  readonly method: string;
  readonly path: string;
}

export interface NotFoundDeps {
  readonly authenticator: Authenticator;
  readonly limiter: Pick<RateLimiter, 'takeOfAddress'>;
  readonly clientAddressOf: (request: FastifyRequest['raw']) => ClientAddress;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * Rejects requests that no route serves: 405 where the path exists with other methods, else 404.
 * Within the management API they count as requests like any other.
 */
export function rejectUnserved(app: FastifyInstance, deps: NotFoundDeps): void {
  const routes = routesOf(app);
  app.addHook('onRequest', async (request, reply) => {
    if (!request.is404) return;
    const path = (request.raw.url ?? '').replace(/\?.*$/s, '');
    if (/^\/api\/v2(?:\/|$)/.test(path)) await deps.authenticator.authenticate(request, reply);
    else if (/^\/oauth\/token\/?$/.test(path)) takeOfAddress(deps, request, reply);
    const methods = methodsOf(routes, path);
    throw methods.length === 0 ? notFound('Not Found') : methodNotAllowed(methods);
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

function takeOfAddress(
  { limiter, clientAddressOf, clock }: NotFoundDeps,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const rate = limiter.takeOfAddress(clientAddressOf(request.raw).address);
  reply.headers(rateHeaders(rate, clock.now()));
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
