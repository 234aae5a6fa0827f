import { randomBytes } from 'node:crypto';
import type { Clock, RandomBytes } from './core/clock.ts';

/** The clock of the machine; no other code reads it. */
export const systemClock: Clock = {
  now: () => Date.now(),
  elapsedMs: () => performance.now(),
  after: (delayMs, action) => {
    let timer: NodeJS.Timeout;
    const schedule = (leftMs: number): void => {
      const laterMs = leftMs - timeoutMsMax;
      timer =
        laterMs > 0
          ? setTimeout(() => schedule(laterMs), timeoutMsMax)
          : setTimeout(action, Math.max(0, leftMs));
    };
    schedule(delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

/** `setTimeout` treats a longer delay as 1 ms, so longer delays are split. */
const timeoutMsMax = 2 ** 31 - 1;

/** The randomness of the machine. */
export const systemRandom: RandomBytes = (count) => randomBytes(count);
