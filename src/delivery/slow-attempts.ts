import type { Clock, Timer } from '../core/clock.ts';
import { Deque } from '../log/deque.ts';
import type { InFlightAttempt } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/** Notices slow attempts, and sees to it that none holds the cursor of its stream up for long. */
export interface SlowAttempts {
  /** An attempt has begun. */
  watch(flight: InFlightAttempt): void;
  /** An event of the flight's stream has settled. */
  settled(flight: InFlightAttempt): void;
  close(): void;
}

/**
 * An attempt is slow after a while. A fresh one is parked then, that is it gets a row so that the
 * cursor can pass it, or earlier as soon as many later events of its stream have settled. There is
 * one timer for the node, and none while nothing is under way.
 */
export function createSlowAttempts(deps: {
  readonly clock: Clock;
  readonly settings: Pick<DeliverySettings, 'parkAfterMs' | 'parkAfterEvents'>;
  /** The attempt is slow from now on. */
  readonly slow: (flight: InFlightAttempt) => void;
  /** Settles the flight in the window by giving it a row. */
  readonly park: (flight: InFlightAttempt) => void;
}): SlowAttempts {
  const { clock, settings } = deps;
  /** By their start. Those that ended are dropped when they come to the front. */
  const watched = new Deque<InFlightAttempt>();
  let timer: Timer | undefined;

  const oldest = (): InFlightAttempt | undefined => {
    while (watched.at(0)?.ended) watched.shift();
    return watched.at(0);
  };
  const plan = (): void => {
    const flight = oldest();
    if (timer !== undefined || flight === undefined) return;
    const inMs = flight.startedMs + settings.parkAfterMs - clock.elapsedMs();
    timer = clock.after(Math.max(0, inMs), check);
  };
  const check = (): void => {
    timer = undefined;
    const since = clock.elapsedMs() - settings.parkAfterMs;
    for (let flight = oldest(); flight && flight.startedMs <= since; flight = oldest()) {
      watched.shift();
      deps.slow(flight);
    }
    plan();
  };

  return {
    watch: (flight) => {
      watched.push(flight);
      plan();
    },
    settled: ({ runner: { window } }) => {
      oldest();
      while (window.settledLater >= settings.parkAfterEvents) {
        const flight = window.oldest();
        if (flight === undefined) return;
        deps.park(flight);
      }
    },
    close: () => timer?.cancel(),
  };
}
