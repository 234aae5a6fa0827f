import { formatTime } from '../core/date.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import { failurePreview } from '../schemas/failures.ts';
import {
  redeliveries,
  redeliveriesQuery,
  redeliveryCreate,
  redeliveryParams,
  redeliveryProgress,
  type RedeliveryShown,
} from '../schemas/redeliveries.ts';
import { compile } from '../schemas/schema.ts';
import type { Redelivery } from '../store/port/redeliveries.ts';
import type { Store } from '../store/port/store.ts';
import { type FailureWorkDeps, historyMsOf, previewOrBegin } from './failure-selection.ts';
import { noRedelivery, orNotFound } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { nextOf, pageOf } from './page.ts';
import type { ApiSettings } from './settings.ts';

export interface RedeliveryDeps extends FailureWorkDeps {
  readonly settings: FailureWorkDeps['settings'] & Pick<ApiSettings, 'limits'>;
}

const shared = { tag: 'Deliveries', lifecycle: 'Early Access', extension: true } as const;

/** Creates the operations of redeliveries of many failures (docs/http-api.md#redeliveries). */
export function redeliveryOperations(deps: RedeliveryDeps): Operation[] {
  return [start(deps), list(deps), read(deps), cancel(deps)];
}

function start(deps: RedeliveryDeps): Operation {
  return operation({
    ...shared,
    operationId: 'startRedelivery',
    method: 'POST',
    path: '/redeliveries',
    summary: 'Redeliver failures of many event streams',
    description:
      'Takes the failures that are open when it is accepted. Those that are being redelivered already are skipped. With `dry_run` nothing changes: 200 with what the request would match.',
    scopes: ['update:event_deliveries'],
    body: { schema: redeliveryCreate, required: true },
    success: 202,
    response: redeliveryProgress,
    response200: failurePreview,
    errors: [404, 409],
    handle: (call) =>
      previewOrBegin(deps, call, 'redeliveries', (id) => shownBy(deps.store, call.tenant.id, id)),
  });
}

function list({ store, settings }: RedeliveryDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listRedeliveries',
    method: 'GET',
    path: '/redeliveries',
    summary: 'List redeliveries, newest first',
    scopes: ['read:event_deliveries'],
    query: redeliveriesQuery,
    isList: true,
    success: 200,
    response: redeliveries,
    handle: async ({ tenant, query }) => {
      const page = pageOf(query, settings.limits, isRedeliveryId);
      const { items, next } = await store.redeliveries.list(tenant.id, page);
      return { body: { redeliveries: items.map(show), ...nextOf(next) } };
    },
  });
}

const isRedeliveryId = compile(redeliveryParams.properties.redelivery_id);

function read({ store }: RedeliveryDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readRedelivery',
    method: 'GET',
    path: '/redeliveries/:redelivery_id',
    summary: 'Read a redelivery and its progress',
    scopes: ['read:event_deliveries'],
    params: redeliveryParams,
    success: 200,
    response: redeliveryProgress,
    errors: [404],
    handle: async ({ tenant, params }) => ({
      body: await shownBy(store, tenant.id, params.redelivery_id),
    }),
  });
}

function cancel({ store, settings }: RedeliveryDeps): Operation {
  return operation({
    ...shared,
    operationId: 'cancelRedelivery',
    method: 'DELETE',
    path: '/redeliveries/:redelivery_id',
    summary: 'Cancel a redelivery',
    description:
      'What has not begun stays a failure and counts as skipped; what has begun goes on. One that is over does not change.',
    scopes: ['update:event_deliveries'],
    params: redeliveryParams,
    success: 204,
    errors: [404],
    handle: async ({ tenant, params, entry }) => {
      const { redelivery_id: id } = params;
      const result = await store.recording(entry(id)).redeliveries.cancel(tenant.id, id);
      if (result === 'unknown') throw noRedelivery(id);
      // What has not begun by now does not begin after the response.
      if (result !== 'over') await cancelRest(store, tenant.id, id, historyMsOf(settings));
      return {};
    },
  });
}

async function cancelRest(
  { redeliveries: steps }: Pick<Store, 'redeliveries'>,
  tenant: number,
  id: string,
  historyMs: number,
): Promise<void> {
  // A synchronous engine does not yield by itself.
  while ((await steps.step(tenant, id, historyMs)) !== 'done') await yieldToEventLoop();
}

async function shownBy(
  store: Pick<Store, 'redeliveries'>,
  tenant: number,
  id: string,
): Promise<RedeliveryShown> {
  return show(orNotFound(await store.redeliveries.get(tenant, id), noRedelivery, id));
}

function show(found: Redelivery): RedeliveryShown {
  const { id, status, total, delivered, failed, skipped, isAtLeast, createdAt, createdBy } = found;
  const remaining = total - delivered - failed - skipped;
  const created = { created_at: formatTime(createdAt), created_by: createdBy };
  const atLeast = isAtLeast ? ({ at_least: true } as const) : {};
  return { id, status, total, ...atLeast, delivered, failed, skipped, remaining, ...created };
}
