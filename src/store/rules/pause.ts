import type { Millis } from '../../core/clock.ts';
import type { Run } from '../rows/runs.ts';

/** Returns how long a stream has been paused in total, its present pause included. */
export function pausedFor({ pausedAt, pausedMs }: PausedRun, now: Millis): number {
  return pausedAt === null ? pausedMs : pausedMs + Math.max(0, now - pausedAt);
}

/** Returns the run of a stream that is resumed; the same one if it is not paused. */
export function resumedAt(run: Run, now: Millis): Run {
  return run.pausedAt === null ? run : { ...run, pausedAt: null, pausedMs: pausedFor(run, now) };
}

/** Returns which rows may be claimed; every other row waits. A redelivery always may be. */
export function claimable({ status, pausedAt }: Pick<Run, 'status' | 'pausedAt'>): {
  /** First deliveries and those of a replay. */
  readonly all: boolean;
  readonly tests: boolean;
} {
  const tests = status === 'enabled';
  return { all: tests && pausedAt === null, tests };
}

type PausedRun = Pick<Run, 'pausedAt' | 'pausedMs'>;
