import type { Clock } from '../core/clock.ts';
import type { Store } from '../store/port/store.ts';
import { watchLag } from './lag.ts';
import { sleep } from '../core/sleep.ts';
import type { SystemAlerts } from '../alerting/system-alerts.ts';

export interface UpkeepSettings {
  /**
   * Events published longer ago leave the log, once every enabled stream has passed them; replays
   * that were over longer ago are forgotten.
   */
  readonly eventRetentionMs: number;
  /** Attempts of delivered events made longer ago are forgotten, day by day. */
  readonly attemptRetentionMs: number;
  /** An enabled stream whose oldest event that is not settled is older is disabled. */
  readonly lagMaxMs: number;
  /** From the end of one round to the next; a round lasts no longer than this. */
  readonly everyMs: number;
  /** Lease on the upkeep of the store; another node takes over when it has expired. */
  readonly leaseMs: number;
  /** Rows of one step. */
  readonly stepRows: number;
}

export interface UpkeepDeps {
  readonly store: {
    readonly log: Pick<Store['log'], 'prune'>;
    readonly deliveries: Pick<Store['deliveries'], 'pruneAttempts'>;
    readonly replays: Pick<Store['replays'], 'prune'>;
    readonly upkeep: Store['upkeep'];
  };
  readonly clock: Clock;
  readonly settings: UpkeepSettings;
  /** Name of this process, other than that of every other one. */
  readonly leader: string;
  /** False while this process must not decide what is old. */
  readonly mayWork: () => boolean;
  readonly alerts: Pick<SystemAlerts, 'raise'>;
  /** Receives why a step was cut short; the same kind of step goes on in the next round. */
  readonly report: (error: unknown, what: string) => void;
  /** Receives what was done, once per round and kind of step that did something. */
  readonly log: { info(about: object, message: string): void };
}

/** Keeps the store within its retention. */
export interface Upkeep {
  /** Works at once and then from time to time, until aborted. Ends after the step under way. */
  run(signal: AbortSignal): Promise<void>;
}

/** Work of one kind, and of one tenant where it is about one. */
interface Job {
  readonly what: string;
  /** Returns how much was done; 0 when nothing is left to do now. */
  readonly step: () => Promise<number>;
}

export function createUpkeep(deps: UpkeepDeps): Upkeep {
  const { store, clock, settings, leader, mayWork, report } = deps;
  const lag = watchLag(deps);
  const tenants = createTenantTurns(deps);

  const round = async (signal: AbortSignal): Promise<void> => {
    if (!mayWork()) return;
    const lease = await takeLease(deps);
    if (lease === undefined) return;
    const goOn = async (): Promise<boolean> => !signal.aborted && mayWork() && lease.renew();
    await store.upkeep.prepare().catch((error: unknown) => report(error, 'prepare'));
    await work(deps, await jobsOf(deps, lag, tenants), goOn, signal);
    await work(deps, laterJobsOf(deps), goOn, signal);
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        await round(signal).catch((error: unknown) => report(error, 'round'));
        await sleep(clock, settings.everyMs, signal);
      }
      await store.upkeep.resign(leader).catch((error: unknown) => report(error, 'resign'));
    },
  };
}

interface Lease {
  /** Renews it when a good part of its time is over. False when another process has taken over. */
  renew(): Promise<boolean>;
}

async function takeLease({
  store,
  clock,
  settings,
  leader,
}: UpkeepDeps): Promise<Lease | undefined> {
  let takenMs = clock.elapsedMs();
  if (!(await store.upkeep.lead(leader, settings.leaseMs))) return undefined;
  return {
    renew: async () => {
      const nowMs = clock.elapsedMs();
      if (nowMs - takenMs < settings.leaseMs / 3) return true;
      takenMs = nowMs;
      return store.upkeep.lead(leader, settings.leaseMs);
    },
  };
}

/** Jobs that have one turn together: many tenants do not keep the other work waiting. */
type Jobs = readonly Job[];

async function jobsOf(
  deps: UpkeepDeps,
  lag: () => Promise<number>,
  tenants: TenantTurns,
): Promise<Jobs[]> {
  const { store, settings } = deps;
  const take = settings.stepRows;
  const events = { olderThanMs: settings.eventRetentionMs, take };
  const attempts = { olderThanMs: settings.attemptRetentionMs, take };
  return [
    [{ what: 'lag', step: lag }],
    [{ what: 'history', step: () => store.deliveries.pruneAttempts(attempts) }],
    // The record of a replay is kept as long as the events that it sent.
    [{ what: 'replays', step: () => store.replays.prune(events) }],
    (await tenants.list()).map((tenant) => ({
      what: `events of tenant ${tenant}`,
      step: () => {
        tenants.begin(tenant);
        return store.log.prune(tenant, { ...events, take: settings.stepRows * 1000 });
      },
    })),
  ];
}

/** What follows from the jobs before. */
function laterJobsOf({ store, settings }: UpkeepDeps): Jobs[] {
  const take = settings.stepRows;
  const events = { olderThanMs: settings.eventRetentionMs, take };
  return [
    [{ what: 'days of events', step: () => store.upkeep.dropEvents(events) }],
    [{ what: 'kept', step: () => store.upkeep.releaseKept({ take }) }],
    [{ what: 'file', step: () => store.upkeep.shrink() }],
  ];
}

/**
 * Whose turn it is to be pruned. A round may end before every tenant had a turn, and some are listed
 * in every round without anything to prune: each round goes on after the last turn of the one before.
 */
interface TenantTurns {
  /** Ids of the tenants to prune, in the order of their turns. */
  list(): Promise<number[]>;
  /** Notes that a tenant has its turn, whatever becomes of it. */
  begin(tenant: number): void;
}

function createTenantTurns(deps: UpkeepDeps): TenantTurns {
  let last = 0;
  return {
    list: async () => {
      const tenants = await tenantsToPrune(deps);
      return [...tenants.filter((id) => id > last), ...tenants.filter((id) => id <= last)];
    },
    begin: (tenant) => {
      last = tenant;
    },
  };
}

/** Tenants looked at by one command. */
const TENANTS_AT_ONCE = 500;

/** In the order of their ids. */
async function tenantsToPrune({ store, settings, report }: UpkeepDeps): Promise<number[]> {
  const found: number[] = [];
  let after: number | undefined = 0;
  try {
    while (after !== undefined) {
      const page: { tenants: readonly number[]; next: number | undefined } =
        await store.upkeep.tenantsToPrune({
          olderThanMs: settings.eventRetentionMs,
          after,
          take: TENANTS_AT_ONCE,
        });
      found.push(...page.tenants);
      after = page.next;
    }
  } catch (error) {
    report(error, 'tenants');
  }
  return found;
}

/** Pause after a step that failed, at most: it has mostly waited, for a lock or for an answer. */
const FAILED_PAUSE_MAX_MS = 1000;

/**
 * One step of each of `turns`, over and over, until none has anything left to do or half of a round is
 * over. An error ends the job, and no other.
 */
async function work(
  { clock, settings, report, log }: UpkeepDeps,
  turns: readonly Jobs[],
  goOn: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<void> {
  const startedMs = clock.elapsedMs();
  const queue = turns.map((jobs) => [...jobs]);
  const done = new Map<string, number>();
  while (queue.length > 0 && (await goOn())) {
    if (clock.elapsedMs() - startedMs > settings.everyMs / 2) break;
    const jobs = queue.shift() ?? [];
    const job = jobs.shift();
    if (job === undefined) continue;
    const beganMs = clock.elapsedMs();
    // Other work has the store at least as long as this step had it.
    let pauseMaxMs = Infinity;
    const count = await job.step().catch((error: unknown) => {
      report(error, job.what);
      pauseMaxMs = FAILED_PAUSE_MAX_MS;
      return 0;
    });
    if (count > 0) {
      jobs.push(job);
      done.set(job.what, (done.get(job.what) ?? 0) + count);
    }
    queue.push(jobs);
    await sleep(clock, Math.min(pauseMaxMs, Math.max(1, clock.elapsedMs() - beganMs)), signal);
  }
  for (const [what, count] of done) log.info({ what, count }, 'upkeep');
}
