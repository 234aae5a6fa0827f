import type { Clock } from '../core/clock.ts';

/** Ends after `delayMs`, or at once when aborted. */
export function pause(
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
