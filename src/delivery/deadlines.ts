import type { Clock, Timer } from '../core/clock.ts';

/** Things that each may take the same time: one timer for all of them. */
export interface Deadlines<T> {
  /** Starts the time of an item. */
  add(item: T): void;
  /** Ends its time; does nothing for one whose time is over. */
  delete(item: T): void;
  /** What has time left, oldest first. */
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

/**
 * Because all have the same time, the order of adding is the order of passing; the timer waits for
 * the oldest and is left alone when that one ends: with thousands of attempts a second it fires
 * once in a while, where a timer each would be set and cleared every time.
 */
export function createDeadlines<T extends object>(deps: DeadlinesDeps<T>): Deadlines<T> {
  const { clock, afterMs, passed } = deps;
  const startedMs = new Map<T, number>();
  let timer: Timer | undefined;

  const look = (): void => {
    timer = undefined;
    for (const [item, atMs] of startedMs) {
      const leftMs = atMs + afterMs - clock.elapsedMs();
      if (leftMs > 0) {
        timer ??= clock.after(leftMs, look);
        return;
      }
      startedMs.delete(item);
      passed(item);
    }
  };
  return {
    add: (item) => {
      startedMs.set(item, clock.elapsedMs());
      timer ??= clock.after(afterMs, look);
    },
    delete: (item) => void startedMs.delete(item),
    items: () => [...startedMs.keys()],
    close: () => timer?.cancel(),
  };
}
