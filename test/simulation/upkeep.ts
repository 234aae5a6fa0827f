import { StoreUnavailable } from '../../src/core/errors.ts';
import type { Clock } from '../../src/core/clock.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import type { Store } from '../../src/store/port/store.ts';
import type { UpkeepStore } from '../../src/store/port/upkeep.ts';
import type { Prng } from './prng.ts';
import type { Simulation } from './simulation.ts';

/** Who does the upkeep, as nodes that share a store agree on it. */
export interface UpkeepLease {
  leader: string | undefined;
  untilMs: number;
}

/** Share of the steps that find a lock taken, and of those that fail. */
const busyShare = 0.15;
const failingShare = 0.1;

/** Commands of a process; each runs alone, and what it did is noted right after it. */
export type InTurn = <A extends unknown[], T>(
  what: string,
  run: (...args: A) => Promise<T>,
  note?: (answer: T, ...args: A) => void,
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
  /** A step whose lock is not to be had leaves its work to a later one; any may fail. */
  const step =
    <A extends unknown[]>(run: (...args: A) => Promise<number>) =>
    (...args: A): Promise<number> => {
      if (prng.chance(busyShare)) return Promise.resolve(0);
      if (prng.chance(failingShare)) return Promise.reject(new StoreUnavailable('too slow'));
      return run(...args);
    };
  const { log, deliveries, replays, upkeep } = store;
  const steps = {
    log: { prune: step(log.prune) },
    deliveries: { pruneAttempts: step(deliveries.pruneAttempts) },
    replays: { prune: step(replays.prune) },
    upkeep: { ...upkeep, releaseKept: step(upkeep.releaseKept), shrink: step(upkeep.shrink) },
  };
  const report = (error: unknown, what: string): void => {
    if (!(error instanceof StoreUnavailable)) {
      simulation.oracle.break('unexpected', `${what}: ${String(error)}`);
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

/** The upkeep commands of a process, with a lease between processes and notes in the ledger. */
export function upkeepStore(
  { sharedStore, oracle, timeline, upkeepLease: lease }: Simulation,
  inTurn: InTurn,
): UpkeepStore {
  const { upkeep } = sharedStore.store;
  return {
    ...upkeep,
    lead: inTurn('lead', (leader, leaseMs) => {
      const isFree = lease.leader === leader || lease.untilMs <= timeline.nowMs;
      if (isFree) Object.assign(lease, { leader, untilMs: timeline.nowMs + leaseMs });
      return Promise.resolve(isFree);
    }),
    resign: inTurn('resign', (leader) => {
      if (lease.leader === leader) lease.untilMs = 0;
      return Promise.resolve();
    }),
    tenantsToPrune: inTurn('tenantsToPrune', upkeep.tenantsToPrune),
    dropEvents: inTurn('dropEvents', upkeep.dropEvents),
    releaseKept: inTurn('releaseKept', upkeep.releaseKept, () => oracle.tables.checkKept()),
    shrink: inTurn('shrink', upkeep.shrink),
    lagging: inTurn('lagging', upkeep.lagging),
    noteLag: inTurn('noteLag', upkeep.noteLag),
    disableLagging: inTurn('disableLagging', upkeep.disableLagging, (isDisabled, { stream }) => {
      if (isDisabled) oracle.disabledForLag(stream);
    }),
  };
}
