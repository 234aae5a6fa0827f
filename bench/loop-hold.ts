/** Durations for which an event loop was held. */
export interface Holds {
  readonly longestMs: number;
  /** The longest computation within one hold; the rest is waiting for the disk or a core. */
  readonly computedMs: number;
}

export const noHolds: Holds = { longestMs: 0, computedMs: 0 };

export function worse(one: Holds, other: Holds): Holds {
  return {
    longestMs: Math.max(one.longestMs, other.longestMs),
    computedMs: Math.max(one.computedMs, other.computedMs),
  };
}
