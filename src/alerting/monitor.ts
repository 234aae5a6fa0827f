import type { Tenant } from '../core/types.ts';
import { createYield } from '../core/sleep.ts';
import type { AlertStanding } from '../store/port/alert-state.ts';
import type { Store } from '../store/port/store.ts';
import { createClockSteps } from './clock-steps.ts';
import type { AlertDispatcher, SendRun } from './dispatcher.ts';
import type { RaisedAlert, SystemAlerts } from './system-alerts.ts';
import { checkTenant, mayBeSkipped, type TenantCheckDeps } from './tenant-check.ts';
import type { Clock } from '../core/clock.ts';

export interface MonitorDeps extends Omit<TenantCheckDeps, 'steps'> {
  readonly store: TenantCheckDeps['store'] & { readonly tenants: Pick<Store['tenants'], 'list'> };
  readonly dispatcher: AlertDispatcher;
  /** Conditions to report along with the failures; raising one starts a check at once. */
  readonly system: SystemAlerts;
  /** Receives why a check failed; the next one reports what this one did not. */
  readonly report: (error: unknown) => void;
}

/** Checks the failures of every tenant and sends alerts: docs/monitoring.md#alerts. */
export interface Monitor {
  /** Checks each tenant when it is due, until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

/** Rounds in the time from one check of a tenant to the next: tenants that are due soon share one. */
const roundsMax = 60;

/** Tenants per query of their standing. */
const tenantsAtOnce = 100;

export function createMonitor(deps: MonitorDeps): Monitor {
  const { store, clock, dispatcher, settings, system, report } = deps;
  const steps = createClockSteps(clock, settings.everyMs);
  const times = createCheckTimes(clock);
  /** Rises with each round: a round may run out of time to send, so each starts with another tenant. */
  let first = 0;

  /** Checks the tenants that are due. Returns the milliseconds until the next round. */
  const runRound = async (signal: AbortSignal): Promise<number> => {
    const tenants = await store.tenants.list();
    const run = dispatcher.startRun(signal);
    first = (first + 1) % Math.max(1, tenants.length);
    const yieldToOthers = createYield(clock);
    const raisedFor = (tenant: Tenant): readonly RaisedAlert[] =>
      system.queued(tenant, tenant === tenants[0]);
    const due = [...tenants.slice(first), ...tenants.slice(0, first)].filter(
      (tenant) => times.isDue(tenant) || raisedFor(tenant).length > 0,
    );
    for (let index = 0; index < due.length && !signal.aborted; index += tenantsAtOnce) {
      const batch = due.slice(index, index + tenantsAtOnce);
      const standings = await store.alertState.standings(batch.map(({ id }) => id));
      for (const [at, tenant] of batch.entries()) {
        if (signal.aborted) break;
        const raised = raisedFor(tenant);
        times.checked(tenant, await check(tenant, standings[at], raised, run, signal));
        await yieldToOthers(signal);
      }
    }
    return Math.max(times.untilNext(tenants), settings.everyMs / roundsMax);
  };

  const check = async (
    tenant: Tenant,
    standing: AlertStanding | undefined,
    raised: readonly RaisedAlert[],
    run: SendRun,
    signal: AbortSignal,
  ): Promise<number> => {
    if (raised.length === 0 && mayBeSkipped(standing)) return settings.everyMs;
    return checkTenant({ ...deps, steps }, tenant, raised, run, signal).catch(reportFailure);
  };

  const reportFailure = (error: unknown): number => {
    report(error);
    return settings.everyMs;
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        const seen = system.raised;
        const waitMs = await runRound(signal).catch(reportFailure);
        await system.wait(clock, waitMs, seen, signal);
      }
    },
  };
}

/** When this process checks each tenant next, by elapsed time; a new tenant is due at once. */
interface CheckTimes {
  isDue(tenant: Tenant): boolean;
  /** Records that the tenant was checked and is due again after `dueInMs`. */
  checked(tenant: Tenant, dueInMs: number): void;
  /** Returns how long until one of the tenants is due, and forgets all others. */
  untilNext(tenants: readonly Tenant[]): number;
}

function createCheckTimes(clock: Pick<Clock, 'elapsedMs'>): CheckTimes {
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
