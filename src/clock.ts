import { randomBytes } from 'node:crypto';
import type { Clock, RandomBytes } from './core/clock.ts';

/** The machine's own clock: the one place that reads it. */
export const systemClock: Clock = {
  now: () => Date.now(),
  elapsedMs: () => performance.now(),
  after: (delayMs, action) => {
    const timer = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

/** The machine's own randomness. */
export const systemRandom: RandomBytes = (count) => randomBytes(count);
