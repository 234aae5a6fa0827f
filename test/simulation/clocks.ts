import type { Timer } from '../../src/core/clock.ts';
import type { Plan, Step } from './plan.ts';
import type { Timeline } from './timeline.ts';

/** 2026-02-28T23:59:58.000Z: history is removed by whole days, and one ends soon. */
export const wallStart = 1_772_323_198_000;

/** A clock that somebody sets. */
export interface WallClock {
  now(): number;
  jump(ms: number): void;
  /** Stands still for so long, and goes on from there. */
  stand(ms: number): void;
  /** Right again. */
  repair(): void;
}

export function createWallClock(timeline: Timeline): WallClock {
  let offsetMs = 0;
  let stands = { at: 0, untilMs: 0 };
  const now = (): number =>
    timeline.nowMs < stands.untilMs ? stands.at : wallStart + timeline.nowMs + offsetMs;
  return {
    now,
    jump: (ms) => {
      offsetMs += ms;
      stands.at += ms;
    },
    stand: (ms) => {
      if (timeline.nowMs < stands.untilMs) return;
      stands = { at: now(), untilMs: timeline.nowMs + ms };
      offsetMs -= ms;
    },
    repair: () => {
      offsetMs = 0;
      stands = { at: 0, untilMs: 0 };
    },
  };
}

/** A clock that nobody sets, but that stands still while its machine is suspended; so do its timers. */
export interface MonotonicClock {
  elapsedMs(): number;
  after(delayMs: number, action: () => void): Timer;
  suspend(): void;
  resume(): void;
}

export function createMonotonicClock(timeline: Timeline): MonotonicClock {
  /** For how long it has stood still before. */
  let stoodMs = 0;
  let suspendedAtMs: number | undefined;
  /** Whose time would have come meanwhile. */
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
      const appointment = timeline.after(delayMs, fire);
      return {
        cancel: () => {
          isCancelled = true;
          appointment.cancel();
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

/** A wall clock that is behind the store's is waited for at this rate; see `guarded-time.ts`. */
const slowRate = 0.9;
/** Of a step of the wall clock the store follows so much at once… */
const followedMs = 60_000;
/** …and all of it once the step has lasted so long. */
const stepLastsMs = 180_000;

/** How much longer a wait takes by the clock of the store than it is. */
export function stretchOf({ steps }: Plan): number {
  const isSet = ({ do: doing }: Step): boolean => doing === 'storeJump' || doing === 'storeStand';
  return steps.some(isSet) ? 1 / slowRate : 1;
}

/** Looks at every reading of the store's clock, and says what is wrong with one. */
export function createTimeCheck(timeline: Timeline) {
  let opened = 0;
  let last = { now: 0, atMs: 0 };
  /** When the wall clock of the store was last set, or set right. */
  let setAtMs = 0;
  let setBackMs = 0;
  return {
    /** By how much the clock was set back at most while the store was closed: rows wait longer by it. */
    get setBackMs() {
      return setBackMs;
    },
    wasSet: () => {
      setAtMs = timeline.nowMs;
    },
    /** `generation`: a store that is opened again begins with what its wall clock says. */
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
