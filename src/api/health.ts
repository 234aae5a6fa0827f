import type { FastifyInstance } from 'fastify';
import { actions } from '../schemas/actions.ts';
import type { NodeState } from '../store/port/ownership.ts';
import { type Operation, operation } from './operation.ts';
import { unavailable } from './http/problem.ts';
import type { Readiness } from './readiness.ts';
import { whileOpen, send, type ServeDeps } from './http/serve.ts';

export interface HealthDeps {
  readonly readiness: Readiness;
  readonly log: ServeDeps['log'];
  /** Whether new requests are taken. */
  readonly open: () => boolean;
}

/** Adds what belongs to no tenant: whether the process lives and works, and the default picture. */
export function registerHealth(app: FastifyInstance, { readiness, log, open }: HealthDeps): void {
  app.get('/healthz', async (_request, reply) => send(reply, 200, { body: { status: 'ok' } }));
  app.get(
    '/readyz',
    whileOpen({ log }, async (_request, reply) => {
      if (!open()) throw unavailable();
      const state = await readiness.check();
      if (!state.isReady) throw unavailable(state.reason);
      return send(reply, 200, { body: { status: 'ok', nodes: state.nodes.map(shown) } });
    }),
  );
  app.get('/avatar.svg', async (_request, reply) => reply.headers(avatarHeaders).send(avatar));
}

/** Who works for how many streams; a node whose lease has ended is about to lose them. */
function shown({ id, streams, leaseMs, skewMs }: NodeState): Record<string, string | number> {
  return { id, streams, lease_ms: leaseMs, clock_skew_ms: skewMs };
}

/** The list of actions, which is always empty: clients that export a tenant ask for it. */
export function actionOperations(): Operation[] {
  return [
    operation({
      operationId: 'listActions',
      method: 'GET',
      path: '/actions/actions',
      summary: 'List actions (there are none)',
      tag: 'Actions',
      scopes: ['read:actions', 'read:event_streams'],
      lifecycle: 'Early Access',
      success: 200,
      response: actions,
      errors: [],
      handle: () => ({ body: { actions: [], total: 0, page: 0, per_page: 100 } }),
    }),
  ];
}

const avatarHeaders = {
  'content-type': 'image/svg+xml',
  'content-security-policy': "default-src 'none'; sandbox",
  'cache-control': 'public, max-age=86400',
  'x-content-type-options': 'nosniff',
};

/** A head and shoulders on grey. */
const avatar =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 96 96" width="96" height="96">' +
  '<rect width="96" height="96" fill="#d0d4da"/><circle cx="48" cy="38" r="17" fill="#8b94a1"/>' +
  '<path d="M14 96c2-24 16-36 34-36s32 12 34 36z" fill="#8b94a1"/></svg>\n';
