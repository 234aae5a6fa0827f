import type { RandomBytes } from '../../core/clock.ts';

const poolBytes = 8192;

/** Draws random bytes in large portions: a call for a few bytes costs as much as one for thousands. */
export function pooledRandom(random: RandomBytes): RandomBytes {
  let pool: Uint8Array = new Uint8Array();
  let used = 0;
  return (count) => {
    if (count > poolBytes) return random(count);
    if (used + count > pool.length) {
      pool = random(poolBytes);
      used = 0;
    }
    used += count;
    return pool.subarray(used - count, used);
  };
}
