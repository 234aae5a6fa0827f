/** Whether a figure differs from that of an earlier run, by the rounds of both. */
import type { Better } from './bench.ts';
import { median } from './rounds.ts';

/** Differences that chance makes less often than this count. */
export const chanceMax = 0.01;
/** With fewer rounds on both sides chance could separate even rounds without any overlap. */
export const roundsMin = 5;
/** A benchmark with more values than this gives those of single requests, which are no rounds. */
const roundsMax = 40;

export interface Comparison {
  readonly change:
    | 'faster'
    | 'slower'
    | 'higher'
    | 'lower'
    | 'within the spread'
    | 'too few rounds'
    | 'no rounds';
  /** The median now, divided by that of before. */
  readonly ratio: number;
  /** How often chance alone makes such a difference; absent where it is not computed. */
  readonly chance: number | undefined;
}

/**
 * Compares the rounds of two runs by their ranks (exact two-sided Wilcoxon rank-sum test): it assumes
 * nothing about the distribution, and one odd round changes little. `better` is absent where it is not
 * known which direction is.
 */
export function compare(
  before: readonly number[],
  now: readonly number[],
  better: Better | undefined,
): Comparison {
  const ratio = median(now) / median(before);
  const counts = [before.length, now.length];
  if (Math.max(...counts) > roundsMax) return { change: 'no rounds', ratio, chance: undefined };
  const chance = chanceOf(before, now);
  if (chance >= chanceMax) {
    const change = Math.min(...counts) < roundsMin ? 'too few rounds' : 'within the spread';
    return { change, ratio, chance };
  }
  const direction = meanRank(now, before) > meanRank(before, now) ? 'higher' : 'lower';
  if (better === undefined) return { change: direction, ratio, chance };
  return { change: direction === better ? 'faster' : 'slower', ratio, chance };
}

/**
 * Returns the share (0..1) of all ways to choose `a.length` of the values whose sum of ranks is at least
 * as far from the expected one as that of `a`. Equal values share the mean of their ranks.
 */
export function chanceOf(a: readonly number[], b: readonly number[]): number {
  const all = [...a, ...b];
  // Twice the rank is a whole number, also for a mean of two.
  const doubled = all.map((value) => doubledRank(value, all));
  const expected = a.length * (all.length + 1);
  const distance = Math.abs(sum(doubled.slice(0, a.length)) - expected);
  let far = 0;
  let ways = 0;
  for (const [total, count] of subsetSums(doubled, a.length)) {
    ways += count;
    if (Math.abs(total - expected) >= distance) far += count;
  }
  return far / ways;
}

/** Returns how many subsets of `size` values have each sum. */
function subsetSums(values: readonly number[], size: number): Map<number, number> {
  const bySize = Array.from({ length: size + 1 }, () => new Map<number, number>());
  bySize[0]?.set(0, 1);
  for (const value of values) {
    // From the largest size on, so that each value is taken once at most.
    for (let taken = size; taken > 0; taken -= 1) {
      const into = bySize[taken];
      for (const [total, count] of bySize[taken - 1] ?? []) {
        into?.set(total + value, (into.get(total + value) ?? 0) + count);
      }
    }
  }
  return bySize[size] ?? new Map<number, number>();
}

function doubledRank(value: number, all: readonly number[]): number {
  const below = all.filter((other) => other < value).length;
  const equal = all.filter((other) => other === value).length;
  return 2 * below + equal + 1;
}

function meanRank(of: readonly number[], others: readonly number[]): number {
  const all = [...of, ...others];
  return sum(of.map((value) => doubledRank(value, all))) / of.length;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
