import type { Clock, Timer } from '../../src/core/clock.ts';
import type { Plan, Step } from './plan.ts';
import type { Timeline } from './timeline.ts';

/** 2026-02-28T23:59:58.000Z: history is removed by whole days, and one ends soon. */
export const wallStart = 1_772_323_198_000;

/** A wall clock that faults set or stop. */
export interface WallClock {
  now(): number;
  jump(ms: number): void;
  /** Stops for `ms`, and continues from there. */
  stop(ms: number): void;
  /** Makes it correct again. */
  repair(): void;
}

export function createWallClock(timeline: Timeline): WallClock {
  let offsetMs = 0;
  let stopped = { at: 0, untilMs: 0 };
  const now = (): number =>
    timeline.nowMs < stopped.untilMs ? stopped.at : wallStart + timeline.nowMs + offsetMs;
  return {
    now,
    jump: (ms) => {
      offsetMs += ms;
      stopped.at += ms;
    },
    stop: (ms) => {
      if (timeline.nowMs < stopped.untilMs) return;
      stopped = { at: now(), untilMs: timeline.nowMs + ms };
      offsetMs -= ms;
    },
    repair: () => {
      offsetMs = 0;
      stopped = { at: 0, untilMs: 0 };
    },
  };
}

/** A clock that cannot be set. It and its timers stop while its machine is suspended. */
export interface MonotonicClock {
  elapsedMs(): number;
  after(delayMs: number, action: () => void): Timer;
  suspend(): void;
  resume(): void;
}

export function createMonotonicClock(timeline: Timeline): MonotonicClock {
  /** Total time of earlier suspensions. */
  let stoodMs = 0;
  let suspendedAtMs: number | undefined;
  /** Timers that became due during a suspension. */
  const waiting: (() => void)[] = [];
  const elapsedMs = (): number => (suspendedAtMs ?? timeline.nowMs) - stoodMs;
  return {
    elapsedMs,
    after: (delayMs, action) => {
      const atMs = elapsedMs() + Math.max(0, delayMs);
      let isCancelled = false;
      const fire = (): void => {
        if (isCancelled) return;
        if (suspendedAtMs !== undefined) waiting.push(fire);
        else if (elapsedMs() < atMs) timeline.after(atMs - elapsedMs(), fire);
        else action();
      };
      const scheduled = timeline.after(delayMs, fire);
      return {
        cancel: () => {
          isCancelled = true;
          scheduled.cancel();
        },
      };
    },
    suspend: () => {
      suspendedAtMs ??= timeline.nowMs;
    },
    resume: () => {
      if (suspendedAtMs === undefined) return;
      stoodMs += timeline.nowMs - suspendedAtMs;
      suspendedAtMs = undefined;
      for (const fire of waiting.splice(0)) fire();
    },
  };
}

/**
 * Returns timers whose actions `runOrHold` runs, now or when their process wakes. An action that is
 * cancelled while it is held never runs: an event loop forgets a timer until the turn of its action.
 */
export function holdingTimers(
  { after }: Pick<MonotonicClock, 'after'>,
  runOrHold: (action: () => void) => void,
): Clock['after'] {
  return (delayMs, action) => {
    let isCancelled = false;
    const run = (): void => {
      if (!isCancelled) action();
    };
    const timer = after(delayMs, () => runOrHold(run));
    const cancel = (): void => {
      isCancelled = true;
      timer.cancel();
    };
    return { cancel };
  };
}

/** The store's clock runs at this rate while its wall clock is behind; see `guarded-time.ts`. */
const slowRate = 0.9;
/** The store follows a step of its wall clock by at most this much at once… */
const followedMs = 60_000;
/** …and completely once the step has lasted this long. */
const stepLastsMs = 180_000;

/** Returns the factor by which a wait is longer by the clock of the store. */
export function stretchOf({ steps }: Plan): number {
  const isSet = ({ do: action }: Step): boolean =>
    action === 'jumpStoreClock' || action === 'stopStoreClock';
  return steps.some(isSet) ? 1 / slowRate : 1;
}

/** Checks every reading of the store's clock; returns what is wrong with it. */
export function createTimeCheck(timeline: Timeline) {
  let opened = 0;
  let last = { now: 0, atMs: 0 };
  /** When the wall clock of the store was last set, or set right. */
  let setAtMs = 0;
  let setBackMs = 0;
  return {
    /** The most that the clock was set back while the store was closed: rows wait longer by that. */
    get setBackMs() {
      return setBackMs;
    },
    wasSet: () => {
      setAtMs = timeline.nowMs;
    },
    /** `generation`: a store that is opened again starts with its wall clock. */
    check: (now: number, generation: number): string | undefined => {
      const { nowMs } = timeline;
      const before = last;
      const isNew = opened !== generation;
      opened = generation;
      last = { now, atMs: nowMs };
      const passedMs = now - before.now;
      if (isNew) {
        setBackMs = Math.max(setBackMs, nowMs - before.atMs - passedMs);
        return undefined;
      }
      const leastMs = Math.floor((nowMs - before.atMs) * slowRate) - 1;
      if (passedMs < leastMs) return `the store's clock went on by ${passedMs} ms`;
      const mayFollow = nowMs - setAtMs >= stepLastsMs;
      const mostMs = nowMs - before.atMs + followedMs + 1;
      const isTooMuch = !mayFollow && passedMs > mostMs;
      return isTooMuch ? `the store's clock followed a step of ${passedMs} ms` : undefined;
    },
  };
}
