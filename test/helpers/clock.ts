import type { Clock, Timer } from '../../src/core/clock.ts';

/** A clock that only `advance` and `move` change. */
export interface ManualClock extends Clock {
  /**
   * Runs pending microtasks, then moves the time: runs each timer at its instant, and the microtasks
   * that it leads to before the next timer.
   */
  advance(ms: number): Promise<void>;
  /** Moves the time at once and runs the timers that are due, without waiting for the work that they start. */
  move(ms: number): void;
  /** Pending calls of `after`. */
  readonly pending: number;
}

interface Pending {
  readonly at: number;
  readonly action: () => void;
}

export function createManualClock(startMillis = 1_772_357_400_000): ManualClock {
  let elapsedMs = 0;
  // In the order of the calls: timers of the same instant run in this order.
  const timers = new Set<Pending>();

  const nextUntil = (endMs: number): Pending | undefined => {
    let next: Pending | undefined;
    for (const timer of timers)
      if (timer.at <= endMs && timer.at < (next?.at ?? Infinity)) next = timer;
    return next;
  };

  return {
    now: () => startMillis + elapsedMs,
    elapsedMs: () => elapsedMs,
    after: (delayMs, action): Timer => {
      const timer = { at: elapsedMs + Math.max(0, delayMs), action };
      timers.add(timer);
      return {
        cancel: () => {
          timers.delete(timer);
        },
      };
    },
    advance: async (ms) => {
      const endMs = elapsedMs + ms;
      await turn();
      for (let timer = nextUntil(endMs); timer !== undefined; timer = nextUntil(endMs)) {
        timers.delete(timer);
        elapsedMs = Math.max(elapsedMs, timer.at);
        timer.action();
        await turn();
      }
      elapsedMs = endMs;
    },
    move: (ms) => {
      const endMs = elapsedMs + ms;
      for (let timer = nextUntil(endMs); timer !== undefined; timer = nextUntil(endMs)) {
        timers.delete(timer);
        elapsedMs = Math.max(elapsedMs, timer.at);
        timer.action();
      }
      elapsedMs = endMs;
    },
    get pending() {
      return timers.size;
    },
  };
}

/** Runs all pending microtasks, and those that they lead to. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
