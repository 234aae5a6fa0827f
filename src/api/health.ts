import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Clock } from '../core/clock.ts';
import { isLoopbackAddress } from '../core/address.ts';
import { headerOf } from '../core/request-head.ts';
import type { NodeState } from '../store/port/ownership.ts';
import type { Authenticator } from './authenticate.ts';
import type { ClientAddress } from './http/client-address.ts';
import { unavailable } from './http/problem.ts';
import { admitByRate, type RateLimiter } from './http/rate.ts';
import { send } from './http/respond.ts';
import type { Readiness } from './readiness.ts';
import type { TenantLookup } from './tenants.ts';

export interface HealthDeps {
  readonly readiness: Readiness;
  /** Whether new requests are accepted. */
  readonly open: () => boolean;
  readonly tenants: Pick<TenantLookup, 'of'>;
  readonly authenticator: Pick<Authenticator, 'stillValid'>;
  readonly limiter: Pick<RateLimiter, 'takeOfProbe'>;
  readonly clientAddressOf: (request: FastifyRequest['raw']) => ClientAddress;
  readonly clock: Pick<Clock, 'now'>;
}

/** Adds the liveness and readiness probes (docs/http-api.md#health-and-readiness), which belong to no tenant. */
export function registerHealth(app: FastifyInstance, deps: HealthDeps): void {
  const { readiness, open, limiter, clientAddressOf, clock } = deps;
  app.get('/healthz', async (_request, reply) => send(reply, 200, { body: { status: 'ok' } }));
  app.get('/readyz', async (request, reply) => {
    const client = clientAddressOf(request.raw);
    admitByRate(reply, limiter.takeOfProbe(client.address), clock.now());
    const isDetailed = await maySeeDetails(deps, request, client);
    // Last, as the store may take its time for the caller and for the check.
    const checked = open() ? await readiness.check() : closing;
    const state = open() ? checked : closing;
    if (state.isReady) {
      const nodes = isDetailed ? { nodes: state.nodes.map(shown) } : {};
      return send(reply, 200, { body: { status: 'ok', ...nodes } });
    }
    const problem = unavailable(state.reason);
    if (isDetailed) throw problem;
    const { status, headers } = problem;
    return send(reply, status, { headers, body: { status: 'unavailable' } });
  });
}

const closing = { isReady: false, reason: undefined } as const;

/**
 * Details are for the machine itself and for callers that may read event streams. A client is on the
 * machine by its own address, not by that of a proxy.
 */
async function maySeeDetails(
  { tenants, authenticator }: HealthDeps,
  { raw }: FastifyRequest,
  { address, host, isProxy }: ClientAddress,
): Promise<boolean> {
  if (isLoopbackAddress(address) && !isProxy) return true;
  const tenant = tenants.of(host);
  const authorization = headerOf(raw, 'authorization');
  if (tenant === undefined || authorization === undefined) return false;
  try {
    return await authenticator.stillValid({ tenant }, authorization, readers);
  } catch {
    // While the store is not available nobody is known to hold a scope.
    return false;
  }
}

const readers = { operationId: 'readyz', scopes: ['read:event_streams'] };

/** The streams that a node owns; another one takes them over once its lease has ended. */
function shown({ id, streams, leaseMs, skewMs }: NodeState): Record<string, string | number> {
  return { id, streams, lease_ms: leaseMs, clock_skew_ms: skewMs };
}
