import assert from 'node:assert/strict';
import { dayMs } from '../../../src/core/units.ts';
import type { NewFailureWork } from '../../../src/store/port/failure-work.ts';
import type { FailureSelection } from '../../../src/store/port/failures.ts';
import type { Store } from '../../../src/store/port/store.ts';

let made = 0;

/** Accepts a request about many failures, and works on it in at most `steps` steps. Returns its id. */
export async function startWork(
  store: Pick<Store, 'redeliveries' | 'dismissals'>,
  kind: 'redeliveries' | 'dismissals',
  request: Partial<NewFailureWork> & Pick<NewFailureWork, 'tenant'>,
  steps = Infinity,
): Promise<string> {
  made += 1;
  const id = `${kind === 'redeliveries' ? 'rdl' : 'dsm'}_${String(made).padStart(22, '0')}`;
  const base = { streams: undefined, selection: {}, createdBy: 'robot' };
  assert.equal(await store[kind].create({ ...base, ...request, id }), 'accepted');
  for (let done = 0; done < steps; done += 1) {
    if ((await store[kind].step(request.tenant, id, dayMs)) !== 'more') break;
  }
  return id;
}

/** Dismisses failures of one stream, and returns how many were dismissed and skipped. */
export async function dismissFailures(
  store: Pick<Store, 'redeliveries' | 'dismissals'>,
  tenant: number,
  stream: string,
  selection: FailureSelection = {},
): Promise<{ readonly dismissed: number; readonly skipped: number }> {
  const id = await startWork(store, 'dismissals', { tenant, streams: [stream], selection });
  const found = await store.dismissals.get(tenant, id);
  assert.ok(found);
  const { status, total, dismissed, skipped } = found;
  if (status === 'done') assert.equal(total, dismissed + skipped);
  return { dismissed, skipped };
}
