import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

/** Seeded random numbers: the same seed gives the same numbers on every machine. */
export interface Prng {
  /** Returns a whole number from `from` to `to`, both included. */
  between(from: number, to: number): number;
  /** Returns true in `share` of all calls, 0 to 1. */
  chance(share: number): boolean;
  pick<T>(choices: readonly [T, ...T[]]): T;
  /** Returns a random subset, each choice with probability one half; at least one. */
  some<T>(choices: readonly [T, ...T[]]): T[];
}

const million = 1_000_000;

/** Creates a generator for one purpose; another purpose with the same seed gives other numbers. */
export function createPrng(seed: number, purpose: string): Prng {
  const generator = xoroshiro128plus(mixed(seed, purpose));
  const between = (from: number, to: number): number => uniformInt(generator, from, to);
  const pick = <T>(choices: readonly [T, ...T[]]): T =>
    choices[between(0, choices.length - 1)] ?? choices[0];
  return {
    between,
    chance: (share) => share > 0 && between(1, million) <= share * million,
    pick,
    some: (choices) => {
      const left = choices.filter(() => between(0, 1) === 1);
      return left.length > 0 ? left : [pick(choices)];
    },
  };
}

/** Returns the FNV-1a hash of the purpose, started with the seed. */
function mixed(seed: number, purpose: string): number {
  let hash = (0x811c9dc5 ^ seed) | 0;
  // With two digits at least: one alone would take back what the seed has changed.
  for (const character of `${String(seed).padStart(2, '0')} ${purpose}`) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  return hash | 0;
}
