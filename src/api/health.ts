import type { FastifyInstance } from 'fastify';
import type { NodeState } from '../store/port/ownership.ts';
import { unavailable } from './http/problem.ts';
import type { Readiness } from './readiness.ts';
import { send } from './http/respond.ts';

export interface HealthDeps {
  readonly readiness: Readiness;
  /** Whether new requests are accepted. */
  readonly open: () => boolean;
}

/** Adds the liveness and readiness probes (docs/http-api.md#health-and-readiness), which belong to no tenant. */
export function registerHealth(app: FastifyInstance, { readiness, open }: HealthDeps): void {
  app.get('/healthz', async (_request, reply) => send(reply, 200, { body: { status: 'ok' } }));
  app.get('/readyz', async (_request, reply) => {
    if (!open()) throw unavailable();
    const state = await readiness.check();
    if (!state.isReady) throw unavailable(state.reason);
    return send(reply, 200, { body: { status: 'ok', nodes: state.nodes.map(shown) } });
  });
}

/** The streams that a node owns; another one takes them over once its lease has ended. */
function shown({ id, streams, leaseMs, skewMs }: NodeState): Record<string, string | number> {
  return { id, streams, lease_ms: leaseMs, clock_skew_ms: skewMs };
}
