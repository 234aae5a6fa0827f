/** Alternating rounds of two measurements, and their statistics. */
import type { Progress } from './bench.ts';

/** What both sides gave, one value per round. */
export interface Sides<T> {
  readonly ours: readonly T[];
  /** The side that ours is compared with. */
  readonly theirs: readonly T[];
}

export type Rounds = Sides<number>;

/**
 * Measures `ours` and `theirs` alternately, so that a slow minute of the machine affects both. The
 * side that starts changes from round to round.
 */
export async function alternate<T>(
  rounds: number,
  ours: () => Promise<T>,
  theirs: () => Promise<T>,
  progress: Progress,
): Promise<Sides<T>> {
  const seen = { ours: [] as T[], theirs: [] as T[] };
  for (let round = 0; round < rounds; round++) {
    progress(`round ${round + 1} of ${rounds}`);
    const order = round % 2 === 0 ? (['ours', 'theirs'] as const) : (['theirs', 'ours'] as const);
    for (const side of order) seen[side].push(await (side === 'ours' ? ours : theirs)());
  }
  return seen;
}

/** Takes one number of each value. */
export function pick<T>({ ours, theirs }: Sides<T>, of: (value: T) => number): Rounds {
  return { ours: ours.map(of), theirs: theirs.map(of) };
}

/** Measures the parts one after the other, and returns all of their figures. */
export async function inTurn<Part, Figure>(
  parts: Iterable<Part>,
  measure: (part: Part) => Promise<readonly Figure[]>,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const part of parts) figures.push(...(await measure(part)));
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
