import type { Clock, Millis } from '../../core/clock.ts';
import { isSkewed, skewMaxMs, type StoreTime } from '../port/time.ts';

/** What is remembered from one reading to the next; instants have fractions. */
export interface GuardState {
  /** The guarded time at the last reading… */
  readonly now: Millis;
  /** …and the monotonic clock then. */
  readonly elapsedMs: number;
  /** By how much it may follow the wall clock forward at once. */
  readonly allowanceMs: number;
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
/** Of the allowance, for each millisecond: all of it comes back while a longer step has to last. */
const allowanceRate = skewMaxMs / stepLastsMs;

/**
 * The next reading of a clock that others can set. It never goes back. It follows the wall clock
 * forward at once by up to a minute in all, and by as much again every three minutes; it goes on a
 * little slower while the wall clock is behind. Once the two differ by more than a minute, in one
 * step or in several, the wall clock is not followed before that has lasted: a clock that is wrong
 * for seconds changes nothing, and a machine that slept, or got its time late, is followed in the end.
 */
export function nextReading(before: GuardState, wall: Millis, elapsedMs: number): GuardState {
  const passedMs = Math.max(0, elapsedMs - before.elapsedMs);
  const carried = before.now + passedMs;
  const skewMs = wall - carried;
  const slowed = Math.max(before.now + passedMs * slowRate, Math.min(wall, carried));
  const allowanceMs = Math.min(skewMaxMs, before.allowanceMs + passedMs * allowanceRate);
  if (!isSkewed(skewMs)) {
    if (skewMs < 0) return { now: slowed, elapsedMs, allowanceMs, step: undefined };
    const followedMs = Math.min(skewMs, allowanceMs);
    const now = carried + followedMs;
    return { now, elapsedMs, allowanceMs: allowanceMs - followedMs, step: undefined };
  }
  const isSame = before.step !== undefined && Math.abs(skewMs - before.step.skewMs) <= skewMaxMs;
  const step = isSame && before.step !== undefined ? before.step : { skewMs, sinceMs: elapsedMs };
  if (elapsedMs - step.sinceMs < stepLastsMs) return { now: carried, elapsedMs, allowanceMs, step };
  if (skewMs > 0) return { now: wall, elapsedMs, allowanceMs, step: undefined };
  // The longer it takes, the less the wall clock is behind.
  const less = { skewMs: wall - slowed, sinceMs: step.sinceMs };
  return { now: slowed, elapsedMs, allowanceMs, step: less };
}

/** The time of a store in a file of this process: its wall clock, guarded from the opening on. */
export function createGuardedTime(clock: Pick<Clock, 'now' | 'elapsedMs'>): StoreTime {
  let state: GuardState = {
    now: clock.now(),
    elapsedMs: clock.elapsedMs(),
    allowanceMs: skewMaxMs,
    step: undefined,
  };
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
