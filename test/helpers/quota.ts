/** A number of events that publishers share: it bounds a load whatever the speed of the machine. */
export interface Quota {
  /** Permits this many more events. */
  add(events: number): void;
  /** Events that are permitted and not taken yet. */
  readonly left: number;
  /** Takes up to `eventsMax`, waiting until there are any; returns 0 once `until` is aborted. */
  take(eventsMax: number, until: AbortSignal): Promise<number>;
}

export function createQuota(events = 0): Quota {
  let left = events;
  let added = Promise.withResolvers<void>();
  const takeNow = (eventsMax: number): number => {
    const taken = Math.min(left, eventsMax);
    left -= taken;
    return taken;
  };
  return {
    get left() {
      return left;
    },
    add: (more) => {
      left += more;
      added.resolve();
      added = Promise.withResolvers();
    },
    take: async (eventsMax, until) => {
      const aborted = Promise.withResolvers<void>();
      until.addEventListener('abort', () => aborted.resolve(), { once: true });
      while (!until.aborted) {
        const taken = takeNow(eventsMax);
        if (taken > 0) return taken;
        await Promise.race([added.promise, aborted.promise]);
      }
      return 0;
    },
  };
}
