import type { Clock, Timer } from '../core/clock.ts';
import { Deque } from './deque.ts';
import type { Flight } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/** Sees to it that no attempt holds the cursor of its stream up for long. */
export interface Parking {
  /** A fresh attempt has begun. */
  watch(flight: Flight): void;
  /** An event of the flight's stream has settled. */
  settled(flight: Flight): void;
  close(): void;
}

/**
 * An attempt is parked, that is it gets a row so that the cursor can pass it, after a while or as
 * soon as many later events of its stream have settled. There is one timer for the node, and none
 * while nothing is under way.
 */
export function createParking(deps: {
  readonly clock: Clock;
  readonly settings: Pick<DeliverySettings, 'parkAfterMs' | 'parkAfterEvents'>;
  /** Settles the flight in the window by giving it a row. */
  readonly park: (flight: Flight) => void;
}): Parking {
  const { clock, settings } = deps;
  /** By their start. Settled ones are dropped when they come to the front. */
  const watched = new Deque<Flight>();
  let timer: Timer | undefined;

  const oldest = (): Flight | undefined => {
    while (watched.at(0)?.settled) watched.shift();
    return watched.at(0);
  };
  const plan = (): void => {
    const flight = oldest();
    if (timer !== undefined || flight === undefined) return;
    const inMs = flight.startedMs + settings.parkAfterMs - clock.elapsedMs();
    timer = clock.after(Math.max(0, inMs), parkOld);
  };
  const parkOld = (): void => {
    timer = undefined;
    const since = clock.elapsedMs() - settings.parkAfterMs;
    for (let flight = oldest(); flight && flight.startedMs <= since; flight = oldest()) {
      deps.park(flight);
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
