import { hourMs } from '../core/units.ts';
import type { LaggingStream } from '../store/port/upkeep.ts';

/** Percentages of the bound on lag that are reported. */
const STEPS = [90, 75, 50] as const;

/** The action for the lag of an enabled stream. */
export type LagDecision =
  | { readonly do: 'nothing' }
  /** Report that the lag has reached this percentage of the bound. */
  | { readonly do: 'report'; readonly percent: number }
  /** Record that a lower percentage, or none, counts as reported: the lag has fallen. */
  | { readonly do: 'note'; readonly percent: number }
  | { readonly do: 'disable' };

/**
 * Returns the action for the age of a stream's oldest event that is not settled.
 *
 * A clock that is ahead for a moment makes everything old at once. So a stream is disabled only some
 * time after the last report, when an operator could have acted on it.
 */
export function decideLag(
  lagMs: number,
  maxMs: number,
  { reportedPercent, reportedAgoMs }: Pick<LaggingStream, 'reportedPercent' | 'reportedAgoMs'>,
): LagDecision {
  const isWarned = reportedPercent >= STEPS[0] && reportedAgoMs >= warningOf(maxMs);
  if (lagMs >= maxMs) {
    if (isWarned) return { do: 'disable' };
    return reportedPercent >= STEPS[0] ? { do: 'nothing' } : { do: 'report', percent: STEPS[0] };
  }
  const percent = STEPS.find((step) => lagMs >= (maxMs * step) / 100) ?? 0;
  if (percent > reportedPercent) return { do: 'report', percent };
  return percent < reportedPercent ? { do: 'note', percent } : { do: 'nothing' };
}

/** Returns the shortest time from the last report to disabling. */
function warningOf(maxMs: number): number {
  return Math.min(6 * hourMs, maxMs / 20);
}

/** Returns the lag from which on a stream is checked. */
export function lagFloorOf(maxMs: number): number {
  return maxMs / 2;
}
