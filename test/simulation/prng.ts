import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

/** Seeded randomness: the same seed gives the same rolls, on every machine. */
export interface Prng {
  /** A whole number from `from` to `to`, both included. */
  between(from: number, to: number): number;
  /** True in `share` of all rolls, 0 to 1. */
  chance(share: number): boolean;
  pick<T>(choices: readonly [T, ...T[]]): T;
  /** The choices that a coin each leaves; at least one. */
  some<T>(choices: readonly [T, ...T[]]): T[];
}

const million = 1_000_000;

/** Dice for one purpose; those of another purpose with the same seed roll differently. */
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

/** FNV-1a over the purpose, begun with the seed. */
function mixed(seed: number, purpose: string): number {
  let hash = (0x811c9dc5 ^ seed) | 0;
  for (const character of `${seed} ${purpose}`) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  return hash | 0;
}
