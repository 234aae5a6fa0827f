import type { Clock } from './clock.ts';

/** Ends after `delayMs`, or at once when aborted. */
export function sleep(
  clock: Pick<Clock, 'after'>,
  delayMs: number,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const timer = clock.after(delayMs, done);
    signal.addEventListener('abort', done, { once: true });
    function done(): void {
      timer.cancel();
      signal.removeEventListener('abort', done);
      resolve();
    }
  });
}

/** Of work without a break; whatever else the process has to do waits no longer for it. */
const STRETCH_MS = 5;

/**
 * For work of many small steps that would otherwise go on at one stretch: a store in a file answers
 * without giving way. To be awaited after each step; lets everything else that is ready go first
 * where enough was done since it last did.
 */
export function createYield(
  clock: Pick<Clock, 'after' | 'elapsedMs'>,
): (signal: AbortSignal) => Promise<void> {
  let restedMs = clock.elapsedMs();
  return async (signal) => {
    if (clock.elapsedMs() - restedMs < STRETCH_MS) return;
    await sleep(clock, 0, signal);
    restedMs = clock.elapsedMs();
  };
}
