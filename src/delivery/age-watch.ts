import type { Clock, Timer } from '../core/clock.ts';
import { Deque } from '../log/deque.ts';

/** Tells of items that go on for longer than a time. */
export interface AgeWatch<Item> {
  /** Watches an item that began after all that are watched, or with the last of them. */
  watch(item: Item): void;
  /** Forgets the oldest items that are over. */
  trim(): void;
  close(): void;
}

/** Creates the watch. One timer serves all items; there is none while no item is watched. */
export function createAgeWatch<Item>(deps: {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  readonly ageMs: number;
  /** Monotonic. */
  readonly beganMs: (item: Item) => number;
  readonly isOver: (item: Item) => boolean;
  /** The item has gone on for `ageMs`. Called once for each, in their order. */
  readonly expired: (item: Item) => void;
}): AgeWatch<Item> {
  const { clock, ageMs, beganMs, isOver } = deps;
  /** In order. Those that are over are removed when they get to the front. */
  const watched = new Deque<Item>();
  let timer: Timer | undefined;

  const trim = (): void => {
    for (let first = watched.at(0); first && isOver(first); first = watched.at(0)) watched.shift();
  };
  const oldest = (): Item | undefined => {
    trim();
    return watched.at(0);
  };
  const plan = (): void => {
    const first = oldest();
    if (timer !== undefined || first === undefined) return;
    // Rounded up: a fraction of a millisecond may not move the clock.
    const leftMs = Math.ceil(beganMs(first) + ageMs - clock.elapsedMs());
    timer = clock.after(Math.max(0, leftMs), check);
  };
  const check = (): void => {
    timer = undefined;
    const sinceMs = clock.elapsedMs() - ageMs;
    for (let first = oldest(); first && beganMs(first) <= sinceMs; first = oldest()) {
      watched.shift();
      deps.expired(first);
    }
    plan();
  };

  return {
    watch: (item) => {
      watched.push(item);
      plan();
    },
    trim,
    close: () => timer?.cancel(),
  };
}
