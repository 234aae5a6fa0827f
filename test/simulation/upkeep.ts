import { StoreUnavailable } from '../../src/core/errors.ts';
import type { Clock } from '../../src/core/clock.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import type { Store } from '../../src/store/port/store.ts';
import type { UpkeepStore } from '../../src/store/port/upkeep.ts';
import type { Prng } from './prng.ts';
import type { Simulation } from './simulation.ts';

/** The lease of the node that does the upkeep. */
export interface UpkeepLease {
  leader: string | undefined;
  untilMs: number;
}

/** Share of the steps that find a lock taken. */
const busyShare = 0.15;
/** Share of the steps that fail. */
const failingShare = 0.1;

/** Wraps a store command: runs it exclusively and notes its result right after it. */
export type Exclusive = <A extends unknown[], T>(
  what: string,
  run: (...args: A) => Promise<T>,
  note?: (result: T, ...args: A) => void,
) => (...args: A) => Promise<T>;

/** Runs the upkeep of one process until it is aborted, if the plan has any. */
export function runUpkeep(
  simulation: Simulation,
  options: {
    readonly name: string;
    readonly store: Store;
    readonly clock: Clock;
    readonly prng: Prng;
    readonly signal: AbortSignal;
  },
): void {
  const { name, store, clock, prng, signal } = options;
  const settings = simulation.plan.upkeep;
  if (settings === undefined) return;
  /** Makes some steps find their lock taken, which leaves the work to a later step, and some fail. */
  const step =
    <A extends unknown[]>(run: (...args: A) => Promise<number>) =>
    (...args: A): Promise<number> => {
      if (prng.chance(busyShare)) return Promise.resolve(0);
      if (prng.chance(failingShare)) return Promise.reject(new StoreUnavailable('too slow'));
      return run(...args);
    };
  const { log, deliveries, replays, dismissals, redeliveries, eventLog, auditLog, upkeep } = store;
  const { consoleSessions } = store;
  const steps = {
    log: { prune: step(log.prune) },
    deliveries: { pruneAttempts: step(deliveries.pruneAttempts) },
    replays: { prune: step(replays.prune) },
    redeliveries: { ...redeliveries, prune: step(redeliveries.prune) },
    eventLog: { prune: step(eventLog.prune) },
    dismissals: { ...dismissals, prune: step(dismissals.prune) },
    deliveryStats: store.deliveryStats,
    auditLog,
    consoleSessions,
    upkeep: { ...upkeep, releaseKept: step(upkeep.releaseKept), shrink: step(upkeep.shrink) },
  };
  const report = (error: unknown, what: string): void => {
    if (!(error instanceof StoreUnavailable)) {
      simulation.oracle.violate('unexpected', `${what}: ${String(error)}`);
    }
  };
  const working = createUpkeep({
    store: steps,
    clock,
    settings,
    leader: name,
    mayWork: () => true,
    alerts: {
      raise: ({ kind, sentence }, onStored) => {
        simulation.note(name, `alert ${kind}: ${sentence}`);
        onStored?.();
      },
    },
    report,
    log: { info: (about) => simulation.note(name, `upkeep: ${JSON.stringify(about)}`) },
  });
  working.run(signal).catch((error: unknown) => report(error, 'upkeep'));
}

/** Returns the upkeep commands of a process, with a lease between processes; the oracle notes their results. */
export function upkeepStore(
  { sharedStore, oracle, timeline, upkeepLease: lease }: Simulation,
  exclusive: Exclusive,
): UpkeepStore {
  const { upkeep } = sharedStore.store;
  return {
    ...upkeep,
    lead: exclusive('lead', (leader, leaseMs) => {
      const isFree = lease.leader === leader || lease.untilMs <= timeline.nowMs;
      if (isFree) Object.assign(lease, { leader, untilMs: timeline.nowMs + leaseMs });
      return Promise.resolve(isFree);
    }),
    resign: exclusive('resign', (leader) => {
      if (lease.leader === leader) lease.untilMs = 0;
      return Promise.resolve();
    }),
    tenantsToPrune: exclusive('tenantsToPrune', upkeep.tenantsToPrune),
    dropEvents: exclusive('dropEvents', upkeep.dropEvents),
    releaseKept: exclusive('releaseKept', upkeep.releaseKept, () => oracle.tables.checkKept()),
    shrink: exclusive('shrink', upkeep.shrink),
    lagging: exclusive('lagging', upkeep.lagging),
    noteLag: exclusive('noteLag', upkeep.noteLag),
    expiringCertificates: exclusive('expiringCertificates', upkeep.expiringCertificates),
    noteCertificate: exclusive('noteCertificate', upkeep.noteCertificate),
    disableLagging: exclusive('disableLagging', upkeep.disableLagging, (isDisabled, { stream }) => {
      if (isDisabled) oracle.disabledForLag(stream);
    }),
  };
}
