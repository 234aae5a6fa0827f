/** What an event loop had of the times in which it was held, each for itself. */
export interface Holds {
  readonly longestMs: number;
  /** The most that its thread computed in one; waiting for the disk or a core is the rest. */
  readonly computedMs: number;
}

export const noHolds: Holds = { longestMs: 0, computedMs: 0 };

export function worse(one: Holds, other: Holds): Holds {
  return {
    longestMs: Math.max(one.longestMs, other.longestMs),
    computedMs: Math.max(one.computedMs, other.computedMs),
  };
}
