import { formatTime } from '../core/date.ts';
import {
  dismissal,
  dismissalCreate,
  dismissalParams,
  type DismissalShown,
} from '../schemas/dismissals.ts';
import { failurePreview } from '../schemas/failures.ts';
import type { Dismissal, Reopened } from '../store/port/dismissals.ts';
import type { Store } from '../store/port/store.ts';
import { conflict, type Problem } from './http/problem.ts';
import { type FailureWorkDeps, historyMsOf, previewOrBegin } from './failure-selection.ts';
import { noDismissal, orNotFound } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import type { ApiSettings } from './settings.ts';

const shared = { tag: 'Deliveries', lifecycle: 'Early Access', extension: true } as const;

interface DismissalDeps extends FailureWorkDeps {
  readonly settings: FailureWorkDeps['settings'] & Pick<ApiSettings, 'disableTotal'>;
}

/** Creates the operations of dismissals (docs/http-api.md#dismissals). */
export function dismissalOperations(deps: DismissalDeps): Operation[] {
  return [dismissFailures(deps), readDismissal(deps), reopenDismissal(deps)];
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
    handle: (call) =>
      previewOrBegin(deps, call, 'dismissals', (id) => shownBy(deps.store, call.tenant.id, id)),
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

function reopenDismissal({ store, failureSteps, settings }: DismissalDeps): Operation {
  return operation({
    ...shared,
    operationId: 'reopenDismissal',
    method: 'POST',
    path: '/dismissals/:dismissal_id/reopen',
    summary: 'Open the failures of a dismissal again',
    description:
      'Those that are as the dismissal left them and whose events are kept; nothing is sent. 409 too_many_failures where an enabled event stream would have as many open failures as disable it.',
    scopes: ['update:event_deliveries'],
    params: dismissalParams,
    success: 202,
    response: dismissal,
    errors: [404, 409],
    handle: async ({ tenant, params: { dismissal_id: id }, entry }) => {
      const { dismissals } = store.recording(entry(id));
      const result = await dismissals.reopen(tenant.id, id, settings.disableTotal);
      if (typeof result === 'object') throw reopenRefusal(result, settings.disableTotal);
      const body = await shownBy(store, tenant.id, id);
      if (result === 'accepted') {
        const historyMs = historyMsOf(settings);
        failureSteps.begin(id, () => store.dismissals.step(tenant.id, id, historyMs));
      }
      return { body };
    },
  });
}

function reopenRefusal(refusal: Exclude<Reopened, 'accepted' | 'unknown'>, limit: number): Problem {
  if (refusal.refused === 'running') {
    return conflict(
      'The dismissal is at work. Repeat the request when its status is done.',
      'dismissal_running',
    );
  }
  return conflict(
    `The event stream ${refusal.stream} would have ${limit} open failures or more, at which it is disabled. Disable it, then repeat the request: a disabled one takes any number, and redeliveries are sent to it.`,
    'too_many_failures',
  );
}

async function shownBy(
  store: Pick<Store, 'dismissals'>,
  tenant: number,
  id: string,
): Promise<DismissalShown> {
  return show(orNotFound(await store.dismissals.get(tenant, id), noDismissal, id));
}

function show(found: Dismissal): DismissalShown {
  const { id, status, total, dismissed, skipped, reopened, isAtLeast, createdAt, createdBy } =
    found;
  const created = { created_at: formatTime(createdAt), created_by: createdBy };
  const atLeast = isAtLeast ? ({ at_least: true } as const) : {};
  return { id, status, total, ...atLeast, dismissed, skipped, reopened, ...created };
}
