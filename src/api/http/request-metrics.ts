import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../core/clock.ts';
import type { RouteHandler } from './serve.ts';

/** Who counts answers and their time; see `Metrics` for one. */
export interface RequestMetrics {
  /**
   * Called once for each route; what it answers is called for each answer. The route is a pattern
   * with names for its variable parts, never what was sent.
   */
  route(method: string, pattern: string): CountResponse;
}

type CountResponse = (status: number, durationMs: number) => void;

export interface RequestMetricsDeps {
  readonly requestMetrics: RequestMetrics;
  readonly clock: Pick<Clock, 'elapsedMs'>;
}

/** What stands for the path of a request that no route serves. */
const noRoute = 'none';

/**
 * Measures every request of the routes that are added from here on: what answers a route is put
 * into a function that knows its counter and looks nothing up. Not by `onResponse`, for which each
 * answer gets two listeners of its own.
 */
export function measureRoutes(app: FastifyInstance, deps: RequestMetricsDeps): void {
  app.addHook('onRoute', (route) => {
    const method = [route.method].flat().join(' ');
    const count = deps.requestMetrics.route(method, route.url);
    const { onRequest, handler } = route;
    // Operations are served by the one hook of their route.
    if (typeof onRequest === 'function') {
      route.onRequest = timed(onRequest as Answering, () => count, deps);
    } else route.handler = timed(handler as Answering, () => count, deps);
  });
}

/** Measures what serves the requests that no route does. */
export function measureUnserved(serve: RouteHandler, deps: RequestMetricsDeps): RouteHandler {
  const counts = new Map<string, CountResponse>();
  return timed(
    serve,
    (method) => {
      const count = counts.get(method) ?? deps.requestMetrics.route(method, noRoute);
      counts.set(method, count);
      return count;
    },
    deps,
  );
}

type Answering = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

/** A client that has gone got no answer, and there is none to count. */
function timed(
  answer: Answering,
  countOf: (method: string) => CountResponse,
  { clock }: RequestMetricsDeps,
): Answering {
  return async (request, reply) => {
    const startedMs = clock.elapsedMs();
    const answered = await answer(request, reply);
    if (reply.raw.headersSent) {
      countOf(request.method)(reply.statusCode, clock.elapsedMs() - startedMs);
    }
    return answered;
  };
}
