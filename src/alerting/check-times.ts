import type { Clock } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';

/** When this process checks each tenant again, by elapsed time; at once where it never did. */
export interface CheckTimes {
  isDue(tenant: Tenant): boolean;
  /** The tenant was checked, and is to be checked again after so long. */
  checked(tenant: Tenant, againInMs: number): void;
  /** Returns how long until one of the tenants is due, and forgets all others. */
  untilNext(tenants: readonly Tenant[]): number;
}

export function createCheckTimes(clock: Pick<Clock, 'elapsedMs'>): CheckTimes {
  let times = new Map<number, number>();
  let known: readonly Tenant[] = [];
  return {
    isDue: ({ id }) => (times.get(id) ?? -Infinity) <= clock.elapsedMs(),
    checked: ({ id }, againInMs) => {
      times.set(id, clock.elapsedMs() + againInMs);
    },
    untilNext: (tenants) => {
      if (tenants !== known) {
        times = new Map(tenants.flatMap(({ id }) => pairOf(id, times.get(id))));
        known = tenants;
      }
      let next = Infinity;
      for (const { id } of tenants) next = Math.min(next, times.get(id) ?? -Infinity);
      return Math.max(0, next - clock.elapsedMs());
    },
  };
}

function pairOf(id: number, time: number | undefined): [number, number][] {
  return time === undefined ? [] : [[id, time]];
}
