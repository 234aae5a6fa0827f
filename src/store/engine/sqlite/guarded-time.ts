import type { Clock, Millis } from '../../../core/clock.ts';
import { isSkewed, skewMaxMs, type StoreTime } from '../../port/time.ts';

/** The state between two readings; instants have fractions. */
export interface GuardState {
  /** The guarded time at the last reading… */
  readonly now: Millis;
  /** …and the monotonic clock then. */
  readonly elapsedMs: number;
  /** How far it may still follow the wall clock forward at once. */
  readonly allowanceMs: number;
  /** A step of the wall clock that is not followed yet. */
  readonly step: Step | undefined;
}

interface Step {
  /** How far the wall clock was ahead when the step was first seen… */
  readonly skewMs: number;
  /** …and the monotonic clock then. */
  readonly sinceMs: number;
}

/** A step of more than a minute is followed after this time. */
export const stepLastsMs = 180_000;
/** The rate of time while the wall clock is late: the two converge, and delays hardly change. */
const slowRate = 0.9;
/** Allowance per millisecond: all of it is restored in the time that a longer step has to last. */
const allowanceRate = skewMaxMs / stepLastsMs;

/**
 * Returns the next reading of a clock that others can set. It never goes back. It follows the wall
 * clock forward at once by up to a minute in total, and by as much again every three minutes; it
 * runs slightly slower while the wall clock is late. Once the two differ by more than a minute, in
 * one step or in several, the wall clock is followed only after that has lasted: a clock that is
 * wrong for seconds changes nothing, and a machine that slept, or got its time late, is followed in
 * the end.
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
  // The longer this takes, the less late the wall clock is.
  const less = { skewMs: wall - slowed, sinceMs: step.sinceMs };
  return { now: slowed, elapsedMs, allowanceMs, step: less };
}

/**
 * Creates the time of a store in a file of this process: its wall clock, guarded from the opening
 * on.
 */
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
