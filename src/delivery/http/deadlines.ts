import type { Clock, Timer } from '../../core/clock.ts';

/** Items that all have the same time limit, with one timer for all of them. */
export interface Deadlines<T> {
  /** Starts the time of an item. */
  add(item: T): void;
  /** Stops the time of an item until {@link resume}; it stays one of {@link items}. */
  pause(item: T): void;
  /** Starts the time of a paused item from the beginning. */
  resume(item: T): void;
  /** Removes an item; does nothing when its time is over. */
  delete(item: T): void;
  /** Returns the items that have time left, oldest first; then the paused ones. */
  items(): readonly T[];
  /** Stops the timer. */
  close(): void;
}

export interface DeadlinesDeps<T> {
  readonly clock: Clock;
  readonly afterMs: number;
  /** Called once for an item that was not deleted in time. */
  readonly expired: (item: T) => void;
}

/** How long expired items are passed before the event loop runs. */
const turnMs = 1;

/**
 * Creates the deadlines. As all items have the same limit, they expire in the order of adding. The
 * timer waits for the oldest and is not reset when that one ends: with thousands of attempts a
 * second it fires rarely, where one timer per item would be set and cleared for each.
 */
export function createDeadlines<T extends object>(deps: DeadlinesDeps<T>): Deadlines<T> {
  const { clock, afterMs, expired } = deps;
  const startedMs = new Map<T, number>();
  const paused = new Set<T>();
  let timer: Timer | undefined;

  const check = (): void => {
    timer = undefined;
    const checkedMs = clock.elapsedMs();
    for (const [item, atMs] of startedMs) {
      const nowMs = clock.elapsedMs();
      // Items that were added together expire by the hundred: the event loop runs in between.
      const isOut = nowMs - checkedMs > turnMs;
      const leftMs = isOut ? 0 : atMs + afterMs - nowMs;
      if (isOut || leftMs > 0) {
        timer ??= clock.after(leftMs, check);
        return;
      }
      startedMs.delete(item);
      expired(item);
    }
  };
  const add = (item: T): void => {
    startedMs.set(item, clock.elapsedMs());
    timer ??= clock.after(afterMs, check);
  };
  return {
    add,
    pause: (item) => {
      if (startedMs.delete(item)) paused.add(item);
    },
    resume: (item) => {
      if (paused.delete(item)) add(item);
    },
    delete: (item) => {
      if (!startedMs.delete(item)) paused.delete(item);
    },
    items: () => [...startedMs.keys(), ...paused],
    close: () => timer?.cancel(),
  };
}

/** The deadlines of items with different time limits: one {@link Deadlines} for each limit. */
export class Timeouts<T extends object> {
  readonly #clock: Clock;
  readonly #expired: (item: T) => void;
  readonly #byLimit = new Map<number, Deadlines<T>>();

  constructor(clock: Clock, expired: (item: T) => void) {
    this.#clock = clock;
    this.#expired = expired;
  }

  /** Returns the deadlines of items with this time limit. */
  of(afterMs: number): Deadlines<T> {
    const known = this.#byLimit.get(afterMs);
    if (known !== undefined) return known;
    const created = createDeadlines({ clock: this.#clock, afterMs, expired: this.#expired });
    this.#byLimit.set(afterMs, created);
    return created;
  }

  items(): readonly T[] {
    return [...this.#byLimit.values()].flatMap((deadlines) => deadlines.items());
  }

  close(): void {
    for (const deadlines of this.#byLimit.values()) deadlines.close();
  }
}
