/** Percentages of the bound on lag that are reported. */
const STEPS = [90, 75, 50] as const;

/** What to do about the lag of an enabled stream. */
export type LagDecision =
  | { readonly do: 'nothing' }
  /** Report that this percentage of the bound is reached. */
  | { readonly do: 'report'; readonly percent: number }
  /** The lag has fallen: a lower percentage, or none, counts as reported. */
  | { readonly do: 'note'; readonly percent: number }
  | { readonly do: 'disable' };

/**
 * Decides by the age of a stream's oldest event that is not settled.
 *
 * @param told the percentage that was reported last, 0 for none
 */
export function decideLag(lagMs: number, maxMs: number, told: number): LagDecision {
  if (lagMs >= maxMs) return { do: 'disable' };
  const percent = STEPS.find((step) => lagMs >= (maxMs * step) / 100) ?? 0;
  if (percent > told) return { do: 'report', percent };
  return percent < told ? { do: 'note', percent } : { do: 'nothing' };
}

/** Lag from here on is looked at. */
export function lagFloorOf(maxMs: number): number {
  return maxMs / 2;
}
