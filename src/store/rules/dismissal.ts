import type { DeliveryState, Offset } from '../../core/types.ts';
import type { HistoryEvent } from '../rows/attempts.ts';

/**
 * Returns which open failures may be dismissed, and how many are left. The row of one above the cursor
 * is what keeps the next owner from sending its event again.
 */
export function splitForDismissal(
  open: readonly (HistoryEvent & { readonly state: DeliveryState })[],
  cursor: Offset,
): {
  readonly dismissed: readonly HistoryEvent[];
  readonly redelivering: number;
  readonly above: number;
} {
  const failed = open.filter(({ state }) => state === 'failed');
  const dismissed = failed.filter(({ offset }) => (offset ?? 0) <= cursor);
  return {
    dismissed,
    redelivering: open.length - failed.length,
    above: failed.length - dismissed.length,
  };
}
