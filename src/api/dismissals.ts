import type { Clock, RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { makeId } from '../core/ids.ts';
import { sleep } from '../core/sleep.ts';
import {
  dismissal,
  dismissalCreate,
  dismissalParams,
  type DismissalShown,
} from '../schemas/dismissals.ts';
import { failurePreview, type SelectionSent } from '../schemas/failures.ts';
import type { Dismissal, StreamDismissal } from '../store/port/dismissals.ts';
import type { FailureSelection } from '../store/port/failures.ts';
import type { Store } from '../store/port/store.ts';
import { previewOf, requireStreams, selectionOf } from './failure-selection.ts';
import { conflict } from './http/problem.ts';
import { noDismissal, orNotFound } from './not-found.ts';
import { type Call, type Operation, operation } from './operation.ts';

export interface DismissalDeps {
  readonly store: Pick<Store, 'streams' | 'dismissals' | 'recording'>;
  readonly clock: Pick<Clock, 'after'>;
  readonly random: RandomBytes;
}

const shared = { tag: 'Deliveries', lifecycle: 'Early Access', extension: true } as const;

/** Creates the operations of dismissals (docs/http-api.md#dismissals). */
export function dismissalOperations(deps: DismissalDeps): Operation[] {
  return [dismissFailures(deps), readDismissal(deps)];
}

function dismissFailures(deps: DismissalDeps): Operation {
  return operation({
    ...shared,
    operationId: 'dismissEventDeliveries',
    method: 'POST',
    path: '/dismissals',
    summary: 'Close open failures without sending them',
    description:
      'Of all event streams, or of those named. Failures that are being redelivered are skipped. With `dry_run` nothing changes: 200 with what the request would match.',
    scopes: ['update:event_deliveries'],
    body: { schema: dismissalCreate, required: true },
    success: 202,
    response: dismissal,
    response200: failurePreview,
    errors: [404, 409],
    handle: async (call) => {
      const { tenant, body } = call;
      const filter = selectionOf(body);
      await requireStreams(deps.store, tenant.id, body);
      const { dismissals } = deps.store;
      const streams = await dismissals.streams(tenant.id, body.event_stream_ids);
      if (body.dry_run === true) {
        return { status: 200, body: await previewOf(deps.store, call, streams, filter) };
      }
      return { body: showDismissal(await dismissAll(deps, call, streams, filter)) };
    },
  });
}

function readDismissal({ store }: DismissalDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readDismissal',
    method: 'GET',
    path: '/dismissals/:dismissal_id',
    summary: 'Read the result of a dismissal',
    scopes: ['read:event_deliveries'],
    params: dismissalParams,
    success: 200,
    response: dismissal,
    errors: [404],
    handle: async ({ tenant, params }) => {
      const found = await store.dismissals.get(tenant.id, params.dismissal_id);
      return { body: showDismissal(orNotFound(found, noDismissal)) };
    },
  });
}

type DismissalCall = Call<unknown, unknown, SelectionSent>;

/** Dismisses the failures of one stream after the other, and stores what became of them. */
async function dismissAll(
  deps: DismissalDeps,
  { tenant, caller, now, entry }: DismissalCall,
  streams: readonly string[],
  filter: FailureSelection,
): Promise<Dismissal> {
  const id = makeId('dsm_', now, deps.random);
  const sum = { dismissed: 0, skipped: 0 };
  for (const stream of streams) {
    const dismissOnce = async (): Promise<StreamDismissal> => {
      const recording = deps.store.recording(entry(id));
      const result = await recording.dismissals.dismiss(tenant.id, stream, filter);
      if ('refused' in result) throw olderNodes();
      return result;
    };
    const { dismissed, redelivering, above } = await dismissPassed(deps, dismissOnce);
    sum.dismissed += dismissed;
    sum.skipped += redelivering + above;
  }
  const createdBy = caller.clientId;
  return deps.store.dismissals.add({ tenant: tenant.id, id, ...sum, createdBy });
}

/** Failures that the cursor has not passed: it usually does within a second. */
const passing = { tries: 10, everyMs: 200 };

/** Repeats a dismissal while failures are above the cursor, for two seconds at most. */
async function dismissPassed(
  { clock }: DismissalDeps,
  dismissOnce: () => Promise<StreamDismissal>,
): Promise<StreamDismissal> {
  let last = await dismissOnce();
  let { dismissed } = last;
  for (let tries = 0; last.above > 0 && tries < passing.tries; tries += 1) {
    await sleep(clock, passing.everyMs);
    last = await dismissOnce();
    dismissed += last.dismissed;
  }
  return { ...last, dismissed };
}

function olderNodes(): Error {
  return conflict(
    'Nodes of an older version are running, which cannot read dismissals. Update all nodes, then repeat the request.',
    'older_nodes',
  );
}

function showDismissal(result: Dismissal): DismissalShown {
  const { id, dismissed, skipped, createdAt, createdBy } = result;
  const total = dismissed + skipped;
  const created = { created_at: formatTime(createdAt), created_by: createdBy };
  return { id, status: 'done', total, dismissed, skipped, ...created };
}
