import type { Clock } from './clock.ts';

/** Resolves after `delayMs`, or at once when aborted. */
export function sleep(
  clock: Pick<Clock, 'after'>,
  delayMs: number,
  signal?: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const timer = clock.after(delayMs, done);
    signal?.addEventListener('abort', done, { once: true });
    function done(): void {
      timer.cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    }
  });
}

/** Longest time that such work blocks the event loop. */
const BLOCKING_MS_MAX = 5;

/**
 * Creates a function to await after each step of a long task: after 5 ms of work it yields to the event
 * loop. A SQLite store never does so itself: its commands run synchronously.
 */
export function createYield(
  clock: Pick<Clock, 'after' | 'elapsedMs'>,
): (signal: AbortSignal) => Promise<void> {
  let yieldedMs = clock.elapsedMs();
  return async (signal) => {
    if (clock.elapsedMs() - yieldedMs < BLOCKING_MS_MAX) return;
    await sleep(clock, 0, signal);
    yieldedMs = clock.elapsedMs();
  };
}
