import type { Clock } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';

/** When this process checks each tenant next, by elapsed time; a new tenant is due at once. */
export interface CheckTimes {
  isDue(tenant: Tenant): boolean;
  /** Records that the tenant was checked and is due again after `dueInMs`. */
  checked(tenant: Tenant, dueInMs: number): void;
  /** Returns how long until one of the tenants is due, and forgets all others. */
  untilNext(tenants: readonly Tenant[]): number;
}

export function createCheckTimes(clock: Pick<Clock, 'elapsedMs'>): CheckTimes {
  let times = new Map<number, number>();
  let known: readonly Tenant[] = [];
  return {
    isDue: ({ id }) => (times.get(id) ?? -Infinity) <= clock.elapsedMs(),
    checked: ({ id }, dueInMs) => {
      times.set(id, clock.elapsedMs() + dueInMs);
    },
    untilNext: (tenants) => {
      if (tenants !== known) {
        times = new Map(tenants.flatMap(({ id }) => entryOf(id, times.get(id))));
        known = tenants;
      }
      let next = Infinity;
      for (const { id } of tenants) next = Math.min(next, times.get(id) ?? -Infinity);
      return Math.max(0, next - clock.elapsedMs());
    },
  };
}

function entryOf(id: number, time: number | undefined): [number, number][] {
  return time === undefined ? [] : [[id, time]];
}
