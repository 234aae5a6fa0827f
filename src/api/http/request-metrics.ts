import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Clock } from '../../core/clock.ts';

/** Counts responses and their durations; `Metrics` implements it. */
export interface RequestMetrics {
  /**
   * Called once for each route; the function it returns is called for each response. The route is a
   * pattern with names for its variable parts, never what was sent.
   */
  route(method: string, pattern: string): CountResponse;
}

/** Counts a response of a route. */
export type CountResponse = (status: number, durationMs: number) => void;

export interface RequestMetricsDeps {
  readonly countOf: ReturnType<typeof createRouteCounts>;
  readonly clock: Pick<Clock, 'elapsedMs'>;
}

/** The route of a request that no route serves. */
const noRoute = 'none';

/** Creates the function that returns the counter of a route, the same one each time. */
export function createRouteCounts(
  requestMetrics: RequestMetrics,
): (method: string, pattern: string) => CountResponse {
  const counts = new Map<string, CountResponse>();
  return (method, pattern) => {
    const key = `${method} ${pattern}`;
    const count = counts.get(key) ?? requestMetrics.route(method, pattern);
    counts.set(key, count);
    return count;
  };
}

/**
 * Measures every request until its response is handed to the connection. Not by `onResponse`, which
 * adds two listeners to each response and comes at the end of a pull.
 */
export function measureRequests(
  app: FastifyInstance,
  { countOf, clock }: RequestMetricsDeps,
): void {
  app.decorateRequest('startedMs', 0);
  app.decorateRequest('countResponse', function (this: FastifyRequest, status: number) {
    const pattern = this.is404 ? noRoute : (this.routeOptions.url ?? noRoute);
    const startedMs = this.getDecorator<number>('startedMs');
    countOf(this.method, pattern)(status, clock.elapsedMs() - startedMs);
  });
  app.addHook('onRoute', ({ method, url }) => {
    for (const name of [method].flat()) countOf(name, url);
  });
  app.addHook('onRequest', (request, _reply, done) => {
    request.setDecorator('startedMs', clock.elapsedMs());
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    countResponse(request, reply.statusCode);
    done(null, payload);
  });
}

/** Counts a response that is written to the connection directly; Fastify's others count themselves. */
export function countResponse(request: FastifyRequest, status: number): void {
  (request as Measured).countResponse?.(status);
}

type Measured = FastifyRequest & { countResponse?(status: number): void };
