import type { Clock, Millis } from '../core/clock.ts';

/** Measures by how much the wall clock was set back since the last check of a tenant. */
export interface ClockSteps {
  /** Returns the wall clock less the elapsed time: it changes only when the wall clock is set. */
  mark(): number;
  /** Records that the check that began at this mark is complete. */
  checked(tenant: number, mark: number): void;
  /**
   * Returns by how much the clock was set back since the last check, which began at `lastCheckAt`.
   * When another process made that check, the result is an upper bound: the time between two checks
   * is added, as reporting some failures twice is better than missing them.
   */
  setBackMs(tenant: number, lastCheckAt: Millis | undefined): number;
}

/** A clock is slewed by less from check to check, and `reportedWindowMs` is more. */
const STEP_MIN_MS = 1000;

/** @param everyMs the time between two checks of a tenant */
export function createClockSteps(clock: Clock, everyMs: number): ClockSteps {
  const marks = new Map<number, number>();
  const mark = (): number => clock.now() - clock.elapsedMs();
  return {
    mark,
    checked: (tenant, now) => {
      marks.set(tenant, now);
    },
    setBackMs: (tenant, lastCheckAt = 0) => {
      const stepMs = (marks.get(tenant) ?? -Infinity) - mark();
      if (stepMs >= STEP_MIN_MS) return Math.ceil(stepMs);
      const now = clock.now();
      return now < lastCheckAt ? lastCheckAt - now + everyMs : 0;
    },
  };
}
