import type { Clock } from '../core/clock.ts';
import { createAgeWatch } from './age-watch.ts';
import type { InFlightAttempt } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/**
 * Detects slow attempts and parks them, so that none holds up the cursor of its stream for long.
 */
export interface SlowAttempts {
  /** Watches an attempt that has begun. */
  watch(attempt: InFlightAttempt): void;
  /** Parks attempts of this one's stream when too many later events have settled. */
  settled(attempt: InFlightAttempt): void;
  close(): void;
}

/**
 * Creates the watch. An attempt is slow after `parkAfterMs`; a fresh one is parked then (it gets a
 * row, so that the cursor can pass it), or earlier, once `parkAfterEvents` later events of its
 * stream have settled.
 */
export function createSlowAttempts(deps: {
  readonly clock: Clock;
  readonly settings: Pick<DeliverySettings, 'parkAfterMs' | 'parkAfterEvents'>;
  /** The attempt is slow from now on. */
  readonly slow: (attempt: InFlightAttempt) => void;
  /** Gives the attempt a row and settles it in the window. */
  readonly park: (attempt: InFlightAttempt) => void;
}): SlowAttempts {
  const { clock, settings } = deps;
  const watch = createAgeWatch<InFlightAttempt>({
    clock,
    ageMs: settings.parkAfterMs,
    beganMs: ({ startedMs }) => startedMs,
    isOver: ({ ended }) => ended,
    expired: deps.slow,
  });

  return {
    watch: watch.watch,
    settled: ({ runner: { window } }) => {
      watch.trim();
      while (window.settledLater >= settings.parkAfterEvents) {
        const entry = window.oldest();
        const attempt = entry && 'key' in entry ? entry.attempt : entry;
        // An event that waits behind its key holds up nothing: those after it are not repeated.
        if (attempt === undefined) return;
        deps.park(attempt);
      }
    },
    close: watch.close,
  };
}
