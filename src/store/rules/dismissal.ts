import type { Millis } from '../../core/clock.ts';
import type { DeliveryState, Offset } from '../../core/types.ts';
import type { HistoryEvent } from '../rows/attempts.ts';

/** How long a dismissal waits for cursors to pass its failures: they usually do within a second. */
const passingMs = 2000;

/** An open failure. */
export type Open = HistoryEvent & { readonly state: DeliveryState };

/**
 * Returns which open failures may be dismissed, and how many are skipped. The row of one above the cursor
 * is what keeps the next owner from sending its event again.
 */
export function splitForDismissal<Failure extends Open>(
  open: readonly Failure[],
  cursor: Offset,
): { readonly dismissed: readonly Failure[]; readonly skipped: number } {
  const dismissed = open.filter(
    (failure) => failure.state === 'failed' && isPassed(failure, cursor),
  );
  return { dismissed, skipped: open.length - dismissed.length };
}

/**
 * Returns the index of the first failure that a dismissal waits for, because the cursor has not passed it
 * yet; -1 if there is none, or it has waited long enough.
 */
export function firstToWaitFor(
  open: readonly Open[],
  cursor: Offset,
  { acceptedAt, now }: { readonly acceptedAt: Millis; readonly now: Millis },
): number {
  // The clock may have been set back.
  if (Math.abs(now - acceptedAt) >= passingMs) return -1;
  return open.findIndex((failure) => failure.state === 'failed' && !isPassed(failure, cursor));
}

function isPassed({ offset }: HistoryEvent, cursor: Offset): boolean {
  return (offset ?? 0) <= cursor;
}
