import type { Clock, Millis } from '../../core/clock.ts';
import { isSkewed, skewMaxMs, type StoreTime } from '../port-time.ts';

/** What is remembered from one reading to the next; instants have fractions. */
export interface GuardState {
  /** The guarded time at the last reading… */
  readonly now: Millis;
  /** …and the monotonic clock then. */
  readonly elapsedMs: number;
  /** A step of the wall clock that is not followed. */
  readonly step: Step | undefined;
}

interface Step {
  /** By how much the wall clock was ahead when the step was first seen… */
  readonly skewMs: number;
  /** …and the monotonic clock then. */
  readonly sinceMs: number;
}

/** A step of more than a minute is followed once it has lasted so long. */
export const stepLastsMs = 180_000;
/** How fast time goes on while the wall clock is behind: it comes nearer, and delays hardly change. */
const slowRate = 0.9;

/**
 * The next reading of a clock that others can set. It never goes back. It follows the wall clock
 * forward by up to a minute at once, and goes on a little slower while the wall clock is behind. A
 * step of more than a minute is not followed before it has lasted: a clock that is wrong for seconds
 * changes nothing, and a machine that slept, or got its time late, is followed in the end.
 */
export function nextReading(before: GuardState, wall: Millis, elapsedMs: number): GuardState {
  const passedMs = Math.max(0, elapsedMs - before.elapsedMs);
  const carried = before.now + passedMs;
  const skewMs = wall - carried;
  const slowed = Math.max(before.now + passedMs * slowRate, Math.min(wall, carried));
  if (!isSkewed(skewMs)) {
    return { now: skewMs >= 0 ? wall : slowed, elapsedMs, step: undefined };
  }
  const isSame = before.step !== undefined && Math.abs(skewMs - before.step.skewMs) <= skewMaxMs;
  const step = isSame && before.step !== undefined ? before.step : { skewMs, sinceMs: elapsedMs };
  if (elapsedMs - step.sinceMs < stepLastsMs) return { now: carried, elapsedMs, step };
  if (skewMs > 0) return { now: wall, elapsedMs, step: undefined };
  // The longer it takes, the less the wall clock is behind.
  return { now: slowed, elapsedMs, step: { skewMs: wall - slowed, sinceMs: step.sinceMs } };
}

/** The time of a store in a file of this process: its wall clock, guarded from the opening on. */
export function createGuardedTime(clock: Pick<Clock, 'now' | 'elapsedMs'>): StoreTime {
  let state: GuardState = { now: clock.now(), elapsedMs: clock.elapsedMs(), step: undefined };
  let skews = 0;
  const read = (): Millis => {
    const wasStep = state.step !== undefined;
    const wall = clock.now();
    state = nextReading(state, wall, clock.elapsedMs());
    if (state.step !== undefined && !wasStep) skews += 1;
    return wall;
  };
  return {
    now: () => {
      read();
      return Math.floor(state.now);
    },
    skewMs: () => Math.round(read() - state.now),
    get skews() {
      return skews;
    },
  };
}
