import { formatTime } from '../core/date.ts';
import {
  dismissal,
  dismissalCreate,
  dismissalParams,
  type DismissalShown,
} from '../schemas/dismissals.ts';
import { failurePreview } from '../schemas/failures.ts';
import type { Dismissal } from '../store/port/dismissals.ts';
import type { Store } from '../store/port/store.ts';
import { type FailureWorkDeps, previewOrBegin } from './failure-selection.ts';
import { noDismissal, orNotFound } from './not-found.ts';
import { type Operation, operation } from './operation.ts';

const shared = { tag: 'Deliveries', lifecycle: 'Early Access', extension: true } as const;

/** Creates the operations of dismissals (docs/http-api.md#dismissals). */
export function dismissalOperations(deps: FailureWorkDeps): Operation[] {
  return [dismissFailures(deps), readDismissal(deps)];
}

function dismissFailures(deps: FailureWorkDeps): Operation {
  return operation({
    ...shared,
    operationId: 'dismissEventDeliveries',
    method: 'POST',
    path: '/dismissals',
    summary: 'Close open failures without sending them',
    description:
      'Of all event streams, or of those named. Takes the failures that are open when it is accepted; those that are being redelivered are skipped. With `dry_run` nothing changes: 200 with what the request would match.',
    scopes: ['update:event_deliveries'],
    body: { schema: dismissalCreate, required: true },
    success: 202,
    response: dismissal,
    response200: failurePreview,
    errors: [404, 409],
    handle: async (call) => {
      const result = await previewOrBegin(deps, call, 'dismissals');
      if ('preview' in result) return { status: 200, body: result.preview };
      return { body: await shownBy(deps.store, call.tenant.id, result.id) };
    },
  });
}

function readDismissal({ store }: FailureWorkDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readDismissal',
    method: 'GET',
    path: '/dismissals/:dismissal_id',
    summary: 'Read a dismissal and its progress',
    scopes: ['read:event_deliveries'],
    params: dismissalParams,
    success: 200,
    response: dismissal,
    errors: [404],
    handle: async ({ tenant, params }) => ({
      body: await shownBy(store, tenant.id, params.dismissal_id),
    }),
  });
}

async function shownBy(
  store: Pick<Store, 'dismissals'>,
  tenant: number,
  id: string,
): Promise<DismissalShown> {
  return show(orNotFound(await store.dismissals.get(tenant, id), noDismissal));
}

function show(found: Dismissal): DismissalShown {
  const { id, status, total, dismissed, skipped, isAtLeast, createdAt, createdBy } = found;
  const created = { created_at: formatTime(createdAt), created_by: createdBy };
  const atLeast = isAtLeast ? ({ at_least: true } as const) : {};
  return { id, status, total, ...atLeast, dismissed, skipped, ...created };
}
