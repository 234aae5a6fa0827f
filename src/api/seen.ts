import type { Clock } from '../core/clock.ts';
import type { OwnershipStore, StreamRef } from '../store/port.ts';

const firstWaitMs = 1;
const longestWaitMs = 100;

/**
 * Waits until no node works by the stream as it was before a change, so that what was answered
 * holds: nothing more is sent to a disabled stream or to a former destination. Ends with the lease
 * of the stream's owner at the latest.
 */
export async function whenSeen(
  {
    ownership,
    clock,
  }: {
    readonly ownership: Pick<OwnershipStore, 'hasSeen'>;
    readonly clock: Pick<Clock, 'after'>;
  },
  stream: StreamRef,
): Promise<void> {
  for (let waitMs = firstWaitMs; !(await ownership.hasSeen(stream)); waitMs *= 2) {
    await new Promise<void>((resolve) => {
      clock.after(Math.min(waitMs, longestWaitMs), resolve);
    });
  }
}
