import type { Clock, Timer } from '../core/clock.ts';
import { Deque } from '../log/deque.ts';
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
 * stream have settled. One timer serves the node; there is none while no attempt is under way.
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
  /** In order of their start. Attempts that ended are removed when they get to the front. */
  const watched = new Deque<InFlightAttempt>();
  let timer: Timer | undefined;

  const oldest = (): InFlightAttempt | undefined => {
    while (watched.at(0)?.ended) watched.shift();
    return watched.at(0);
  };
  const plan = (): void => {
    const attempt = oldest();
    if (timer !== undefined || attempt === undefined) return;
    const inMs = attempt.startedMs + settings.parkAfterMs - clock.elapsedMs();
    timer = clock.after(Math.max(0, inMs), check);
  };
  const check = (): void => {
    timer = undefined;
    const since = clock.elapsedMs() - settings.parkAfterMs;
    for (let attempt = oldest(); attempt && attempt.startedMs <= since; attempt = oldest()) {
      watched.shift();
      deps.slow(attempt);
    }
    plan();
  };

  return {
    watch: (attempt) => {
      watched.push(attempt);
      plan();
    },
    settled: ({ runner: { window } }) => {
      oldest();
      while (window.settledLater >= settings.parkAfterEvents) {
        const entry = window.oldest();
        const attempt = entry && 'key' in entry ? entry.attempt : entry;
        // An event that waits behind its key holds up nothing: those after it are not repeated.
        if (attempt === undefined) return;
        deps.park(attempt);
      }
    },
    close: () => timer?.cancel(),
  };
}
