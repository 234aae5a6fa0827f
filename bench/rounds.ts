/** Alternating rounds of two measurements, and their statistics. */

export interface Rounds {
  /** Figures of the measured side, one per round. */
  readonly ours: readonly number[];
  /** Figures of the side it is compared with. */
  readonly theirs: readonly number[];
}

/**
 * Measures `ours` and `theirs` alternately, so that a slow minute of the machine affects both. The
 * side that starts changes from round to round.
 */
export async function alternate(
  rounds: number,
  ours: () => Promise<number>,
  theirs: () => Promise<number>,
  progress: (text: string) => void,
): Promise<Rounds> {
  const figures = { ours: [] as number[], theirs: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    progress(`round ${round + 1} of ${rounds}`);
    const order = round % 2 === 0 ? (['ours', 'theirs'] as const) : (['theirs', 'ours'] as const);
    for (const side of order) figures[side].push(await (side === 'ours' ? ours : theirs)());
  }
  return figures;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Returns the value that `share` (0..1) of the values do not exceed; nearest rank. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  if (share === 0.5 && sorted.length % 2 === 0) {
    return ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2;
  }
  return sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1] ?? NaN;
}

/** Returns the ratio of each round; their median is compared with the limit. */
export function ratios(rounds: Rounds): number[] {
  return rounds.ours.map((figure, round) => figure / (rounds.theirs[round] ?? NaN));
}
