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

type CountResponse = (status: number, durationMs: number) => void;

export interface RequestMetricsDeps {
  readonly requestMetrics: RequestMetrics;
  readonly clock: Pick<Clock, 'elapsedMs'>;
}

/** The route of a request that no route serves. */
const noRoute = 'none';

/**
 * Measures every request until its response is handed to the connection. Not by `onResponse`, which
 * adds two listeners to each response and comes at the end of a pull.
 */
export function measureRequests(
  app: FastifyInstance,
  { requestMetrics, clock }: RequestMetricsDeps,
): void {
  const counts = new Map<string, CountResponse>();
  const countOf = (method: string, pattern: string): CountResponse => {
    const key = `${method} ${pattern}`;
    const count = counts.get(key) ?? requestMetrics.route(method, pattern);
    counts.set(key, count);
    return count;
  };
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
