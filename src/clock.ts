import { randomBytes } from 'node:crypto';
import type { Clock, RandomBytes } from './core/clock.ts';

/** The machine's own clock: the one place that reads it. */
export const systemClock: Clock = {
  now: () => Date.now(),
  elapsedMs: () => performance.now(),
  after: (delayMs, action) => {
    let timer: NodeJS.Timeout;
    const wait = (leftMs: number): void => {
      const laterMs = leftMs - timeoutMsMax;
      timer =
        laterMs > 0
          ? setTimeout(() => wait(laterMs), timeoutMsMax)
          : setTimeout(action, Math.max(0, leftMs));
    };
    wait(delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

/** `setTimeout` takes a longer delay for none at all: it is waited for in pieces. */
const timeoutMsMax = 2 ** 31 - 1;

/** The machine's own randomness. */
export const systemRandom: RandomBytes = (count) => randomBytes(count);
