import { backoffMs } from '../core/backoff.ts';
import type { Clock } from '../core/clock.ts';
import { isOfSealed } from '../core/errors.ts';
import type { RecordingStore } from '../store/port/audit-log.ts';
import type { Store } from '../store/port/store.ts';
import type { StreamRef } from '../core/types.ts';
import { sleep } from '../core/sleep.ts';

const backoff = { firstMs: 1, maxMs: 100 };

export interface WaitForOwnerDeps {
  readonly store: {
    readonly streams: Pick<Store['streams'], 'update' | 'delete'>;
    readonly ownership: Pick<Store['ownership'], 'hasSeen'>;
  };
  readonly clock: Pick<Clock, 'after'>;
}

/**
 * Waits until the node that delivers the stream has applied a change, so that nothing is sent to a
 * disabled stream or to a former destination after the response. Takes at most as long as the lease of
 * that node.
 */
export async function waitForOwner(
  { store, clock }: WaitForOwnerDeps,
  stream: StreamRef,
): Promise<void> {
  for (let polls = 1; !(await store.ownership.hasSeen(stream)); polls += 1) {
    await sleep(clock, backoffMs(polls, backoff));
  }
}

/**
 * Removes the stream if it exists; `recording` has the entry of that. Disables it first and waits for
 * its owner, because the ownership of a removed stream is unknown.
 */
export async function removeStream(
  deps: WaitForOwnerDeps,
  { tenant, stream }: StreamRef,
  recording: Pick<RecordingStore, 'streams'>,
): Promise<void> {
  const { streams } = deps.store;
  try {
    const disabled = await streams.update(tenant, stream, (before) => ({
      after: before.status === 'disabled' ? before : { ...before, status: 'disabled' },
    }));
    if ('updated' in disabled) await waitForOwner(deps, { tenant, stream });
  } catch (error) {
    // A stream whose secrets do not open is not delivered, and can only be deleted.
    if (!isOfSealed(error)) throw error;
  }
  await recording.streams.delete(tenant, stream);
}
