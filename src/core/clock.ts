/**
 * Time as an argument: `main.ts` passes the system clock, tests and the simulation pass a manual one.
 * No other code reads the time of the machine.
 */
export interface Clock {
  /** Wall clock, milliseconds since the epoch. May jump. */
  now(): Millis;
  /** Monotonic milliseconds since some fixed point; for durations and leases. */
  elapsedMs(): number;
  /** Calls `action` once, `delayMs` from now, unless cancelled. */
  after(delayMs: number, action: () => void): Timer;
}

/** An instant in milliseconds since the epoch. */
export type Millis = number;

/**
 * Returns the instant of a change: now, but later than the change before it. Commands that wait for each
 * other may have read the time in another order than they commit, and clocks have ties.
 */
export function timeOfChange(before: Millis, now: Millis): Millis {
  return Math.max(now, before + 1);
}

/** A pending call of {@link Clock.after}. Cancelling one that has run has no effect. */
export interface Timer {
  cancel(): void;
}

/** Randomness as an argument: `count` fresh bytes from a cryptographic source. */
export type RandomBytes = (count: number) => Uint8Array;
