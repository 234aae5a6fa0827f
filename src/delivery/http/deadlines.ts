import type { Clock, Timer } from '../../core/clock.ts';

/** Things that each may take the same time: one timer for all of them. */
export interface Deadlines<T> {
  /** Starts the time of an item. */
  add(item: T): void;
  /** Takes the time of an item away until {@link resume}; it stays one of {@link items}. */
  pause(item: T): void;
  /** Starts the time of a paused item from the beginning. */
  resume(item: T): void;
  /** Ends its time; does nothing for one whose time is over. */
  delete(item: T): void;
  /** What has time left, oldest first; then what is paused. */
  items(): readonly T[];
  /** Stops the timer. */
  close(): void;
}

export interface DeadlinesDeps<T> {
  readonly clock: Clock;
  readonly afterMs: number;
  /** Called once for an item that was not deleted in time. */
  readonly passed: (item: T) => void;
}

/** Items pass for so long before others of the process have their turn. */
const turnMs = 1;

/**
 * Because all have the same time, the order of adding is the order of passing; the timer waits for
 * the oldest and is left alone when that one ends: with thousands of attempts a second it fires
 * once in a while, where a timer each would be set and cleared every time.
 */
export function createDeadlines<T extends object>(deps: DeadlinesDeps<T>): Deadlines<T> {
  const { clock, afterMs, passed } = deps;
  const startedMs = new Map<T, number>();
  const paused = new Set<T>();
  let timer: Timer | undefined;

  const look = (): void => {
    timer = undefined;
    const lookedMs = clock.elapsedMs();
    for (const [item, atMs] of startedMs) {
      const nowMs = clock.elapsedMs();
      // Items that were added at the same moment pass by the hundred: others have their turn between.
      const isOut = nowMs - lookedMs > turnMs;
      const leftMs = isOut ? 0 : atMs + afterMs - nowMs;
      if (isOut || leftMs > 0) {
        timer ??= clock.after(leftMs, look);
        return;
      }
      startedMs.delete(item);
      passed(item);
    }
  };
  const add = (item: T): void => {
    startedMs.set(item, clock.elapsedMs());
    timer ??= clock.after(afterMs, look);
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
