import type { FastifyInstance, onResponseHookHandler } from 'fastify';

/** Who counts answers and their time; see `Metrics` for one. */
export interface RequestMeter {
  /**
   * Called once for each route; what it answers is called for each answer. The route is a pattern
   * with names for its variable parts, never what was sent.
   */
  route(method: string, pattern: string): CountAnswer;
}

type CountAnswer = (status: number, durationMs: number) => void;

/** What stands for the path of a request that no route serves. */
const noRoute = 'none';

/**
 * Measures every request of the routes that are added from here on, and those that no route serves.
 * Each route has a hook of its own, which finds nothing and looks nothing up. A request whose client
 * has gone is not measured: it was given no answer.
 */
export function measureRequests(app: FastifyInstance, meter: RequestMeter): void {
  app.addHook('onRoute', (route) => {
    const method = [route.method].flat().join(' ');
    route.onResponse = counting(meter.route(method, route.url));
  });
  const unserved = new Map<string, onResponseHookHandler>();
  const countUnserved = (method: string): onResponseHookHandler => {
    const known = unserved.get(method) ?? counting(meter.route(method, noRoute));
    unserved.set(method, known);
    return known;
  };
  app.addHook('onResponse', function count(request, reply, done) {
    if (request.is404) countUnserved(request.method).call(this, request, reply, done);
    else done();
  });
}

/** Not an async function: that would cost every answer a promise. */
function counting(count: CountAnswer): onResponseHookHandler {
  return (_request, reply, done) => {
    count(reply.statusCode, reply.elapsedTime);
    done();
  };
}
