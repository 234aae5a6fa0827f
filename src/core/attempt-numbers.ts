import { errorCodeOf } from './attempt-error.ts';
import type { Attempt } from './types.ts';

/**
 * Returns the number of each entry of a history within its cycle, oldest first; `undefined` for entries
 * that are no requests, and where the beginning of the cycle is not in `entries`. A cycle ends with a
 * success, and another one begins when the failure is redelivered or dismissed.
 *
 * @param isComplete whether the history has no entries before these
 */
export function attemptNumbers(
  entries: readonly Attempt[],
  isComplete: boolean,
): (number | undefined)[] {
  let last = isComplete ? 0 : undefined;
  return entries.map((entry) => {
    const { outcome } = entry;
    if (outcome === 'redelivered' || outcome === 'dismissed') {
      last = 0;
      return undefined;
    }
    if (outcome === 'failed' && errorCodeOf(entry) === 'stream_disabled') return undefined;
    const number = last === undefined ? undefined : last + 1;
    last = outcome === 'delivered' ? 0 : number;
    return number;
  });
}
