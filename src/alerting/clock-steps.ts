import type { Clock } from '../core/clock.ts';

/** How the clock of this process was set since its last look at a tenant. */
export interface ClockSteps {
  /** How the clock is set now. */
  mark(): number;
  /** A look that began at this mark is complete. */
  checked(tenant: number, mark: number): void;
  /** By how much it was set back since; 0 as well where no look is known. */
  backMs(tenant: number): number;
}

/** What clocks are slewed by from look to look is less, and `lookbackMs` is more. */
const STEP_MIN_MS = 1000;

export function createClockSteps(clock: Clock): ClockSteps {
  const marks = new Map<number, number>();
  const mark = (): number => clock.now() - clock.elapsedMs();
  return {
    mark,
    checked: (tenant, now) => {
      marks.set(tenant, now);
    },
    backMs: (tenant) => {
      const backMs = (marks.get(tenant) ?? -Infinity) - mark();
      return backMs >= STEP_MIN_MS ? Math.ceil(backMs) : 0;
    },
  };
}
