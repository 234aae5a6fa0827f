import { backoffMs } from '../core/backoff.ts';
import type { Clock } from '../core/clock.ts';
import { isOfSealed, StoreUnavailable } from '../core/errors.ts';
import type { RecordingStore } from '../store/port/audit-log.ts';
import type { Store } from '../store/port/store.ts';
import type { StreamRef } from '../core/types.ts';
import { sleep } from '../core/sleep.ts';
import { Problem } from './http/problem.ts';

const backoff = { firstMs: 1, maxMs: 100 };

/** More than the lease of a node: that of an owner that has died ends first. */
export const ownerWaitMs = 11_000;

export interface WaitForOwnerDeps {
  readonly store: {
    readonly streams: Pick<Store['streams'], 'update' | 'delete'>;
    readonly ownership: Pick<Store['ownership'], 'hasSeen'>;
  };
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
}

/**
 * Waits until the node that delivers the stream has applied a change, so that nothing is sent to a
 * disabled stream or to a former destination after the response. Takes little longer than the lease of
 * that node: then, or when the store is away, it throws 503 `owner_unconfirmed`. `stored` is a sentence
 * on what the store has.
 */
export async function waitForOwner(
  { store, clock }: WaitForOwnerDeps,
  stream: StreamRef,
  stored = 'The change is stored.',
): Promise<void> {
  const endMs = clock.elapsedMs() + ownerWaitMs;
  for (let polls = 1; !(await hasSeen(store, stream, stored)); polls += 1) {
    if (clock.elapsedMs() >= endMs) throw unconfirmed(stored);
    await sleep(clock, backoffMs(polls, backoff));
  }
}

async function hasSeen(
  { ownership }: WaitForOwnerDeps['store'],
  stream: StreamRef,
  stored: string,
): Promise<boolean> {
  try {
    return await ownership.hasSeen(stream);
  } catch (error) {
    throw error instanceof StoreUnavailable ? unconfirmed(stored) : error;
  }
}

/** Returns the problem of a change that is stored, and that its owner may not have read yet. */
function unconfirmed(stored: string): Problem {
  const rest =
    'The node that sends for the event stream has not confirmed it: until it does, it may';
  return new Problem(503, `${stored} ${rest} send by the former state.`, 'owner_unconfirmed', {
    'retry-after': '1',
  });
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
    const stored = 'The event stream is disabled and not deleted: send the request again.';
    if ('updated' in disabled) await waitForOwner(deps, { tenant, stream }, stored);
  } catch (error) {
    // A stream whose secrets do not open is not delivered, and can only be deleted.
    if (!isOfSealed(error)) throw error;
  }
  await recording.streams.delete(tenant, stream);
}
