import type { Clock } from '../core/clock.ts';
import { StoreOutdated } from '../core/errors.ts';
import type { Store } from '../store/port/store.ts';
import { watchCertificates } from './certificates.ts';
import { watchLag } from './lag.ts';
import { dayMs } from '../core/units.ts';
import { sleep } from '../core/sleep.ts';
import type { SystemAlerts } from '../alerting/system-alerts.ts';

export interface UpkeepSettings {
  /**
   * Older events are pruned once every enabled stream has passed them, and what is recorded about them
   * is removed; so are replays that ended longer ago.
   */
  readonly eventRetentionMs: number;
  /** Older attempts of delivered events are removed, day by day. */
  readonly attemptRetentionMs: number;
  /** Older entries of the audit log are removed. */
  readonly logRetentionMs: number;
  /** An enabled stream is disabled when its oldest event that is not settled is older. */
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
    readonly dismissals: Pick<Store['dismissals'], 'unfinished' | 'step' | 'prune'>;
    readonly redeliveries: Pick<Store['redeliveries'], 'unfinished' | 'step' | 'prune'>;
    readonly eventLog: Pick<Store['eventLog'], 'prune'>;
    readonly auditLog: Pick<Store['auditLog'], 'prune'>;
    readonly consoleSessions: Pick<Store['consoleSessions'], 'prune'>;
    readonly deliveryStats: Pick<Store['deliveryStats'], 'rollUp' | 'prune'>;
    readonly upkeep: Store['upkeep'];
  };
  readonly clock: Clock;
  readonly settings: UpkeepSettings;
  /** Unique name of this process. */
  readonly leader: string;
  /** False while the clock of this process is wrong: it must not decide which rows are old. */
  readonly mayWork: () => boolean;
  readonly alerts: Pick<SystemAlerts, 'raise'>;
  /** Receives the error of a job; the job continues in the next round. */
  readonly report: (error: unknown, job: string) => void;
  /** Receives the number of rows, once per round for each job that did something. */
  readonly log: { info(fields: object, message: string): void };
}

/** Keeps the store within its retention. */
export interface Upkeep {
  /** Runs a round at once and then every `everyMs`, until aborted. Ends after the step in progress. */
  run(signal: AbortSignal): Promise<void>;
}

/** Work of one kind; the events of each tenant are a job of their own. */
interface Job {
  readonly name: string;
  /** Returns how many rows were removed or checked; 0 when the job is done for now. */
  readonly step: () => Promise<number>;
}

export function createUpkeep(given: UpkeepDeps): Upkeep {
  const deps: UpkeepDeps = { ...given, report: unlessOutdated(given.report) };
  const { store, clock, settings, leader, mayWork, report } = deps;
  const steps = { lag: watchLag(deps), certificates: watchCertificates(deps) };
  const tenants = createTenantRotation(deps);

  const runRound = async (signal: AbortSignal): Promise<void> => {
    if (!mayWork()) return;
    const lease = await acquireLease(deps);
    if (lease === undefined) {
      const works = worksOf(store, settings.attemptRetentionMs);
      await runJobs(deps, works, async () => !signal.aborted && mayWork(), signal);
      return;
    }
    const mayContinue = async (): Promise<boolean> => !signal.aborted && mayWork() && lease.renew();
    await store.upkeep.prepare().catch((error: unknown) => report(error, 'prepare'));
    await runJobs(deps, await jobsOf(deps, steps, tenants), mayContinue, signal);
    await runJobs(deps, laterJobsOf(deps), mayContinue, signal);
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        await runRound(signal).catch((error: unknown) => given.report(error, 'round'));
        await sleep(clock, settings.everyMs, signal);
      }
      await store.upkeep.resign(leader).catch((error: unknown) => given.report(error, 'resign'));
    },
  };
}

/** Throws instead where no other step of the round could work, so that the log has one line of it. */
function unlessOutdated(report: UpkeepDeps['report']): UpkeepDeps['report'] {
  return (error, job) => {
    if (error instanceof StoreOutdated) throw error;
    report(error, job);
  };
}

interface Lease {
  /** Renews it once a third of it is over. Returns false when another process has taken over. */
  renew(): Promise<boolean>;
}

async function acquireLease({
  store,
  clock,
  settings,
  leader,
}: UpkeepDeps): Promise<Lease | undefined> {
  let renewedMs = clock.elapsedMs();
  if (!(await store.upkeep.lead(leader, settings.leaseMs))) return undefined;
  return {
    renew: async () => {
      const nowMs = clock.elapsedMs();
      if (nowMs - renewedMs < settings.leaseMs / 3) return true;
      renewedMs = nowMs;
      return store.upkeep.lead(leader, settings.leaseMs);
    },
  };
}

/** Of the results of dismissals and redeliveries. */
const resultRetentionMs = 30 * dayMs;

/** Jobs that share one turn, so that many tenants do not delay other jobs. */
type Jobs = readonly Job[];

async function jobsOf(
  deps: UpkeepDeps,
  { lag, certificates }: Readonly<Record<'lag' | 'certificates', Job['step']>>,
  tenants: TenantRotation,
): Promise<Jobs[]> {
  const { store, settings } = deps;
  const take = settings.stepRows;
  const events = { olderThanMs: settings.eventRetentionMs, take };
  const attempts = { olderThanMs: settings.attemptRetentionMs, take };
  const results = { olderThanMs: resultRetentionMs, take };
  const entries = { olderThanMs: settings.logRetentionMs, take };
  return [
    [
      { name: 'lag', step: lag },
      { name: 'certificates', step: certificates },
    ],
    [{ name: 'history', step: () => store.deliveries.pruneAttempts(attempts) }],
    // The record of a replay has the retention of the events that it sent.
    [{ name: 'replays', step: () => store.replays.prune(events) }],
    ...worksOf(store, settings.attemptRetentionMs),
    [
      { name: 'old dismissals', step: () => store.dismissals.prune(results) },
      { name: 'old redeliveries', step: () => store.redeliveries.prune(results) },
    ],
    [{ name: 'audit log', step: () => store.auditLog.prune(entries) }],
    [{ name: 'sessions of the console', step: () => store.consoleSessions.prune({ take }) }],
    [
      { name: 'sums of statistics', step: () => store.deliveryStats.rollUp() },
      { name: 'statistics', step: () => store.deliveryStats.prune({ take }) },
    ],
    (await tenants.list()).map((tenant) => ({
      name: `events of tenant ${tenant}`,
      step: async () => {
        tenants.begin(tenant);
        const query = { ...events, take: settings.stepRows * 1000 };
        const pruned = await store.log.prune(tenant, query);
        return pruned > 0 ? pruned : store.eventLog.prune(tenant, take);
      },
    })),
  ];
}

/**
 * Jobs of every process, without the lease: after a crash they would wait until it ends, and several
 * callers at once do no harm.
 */
function worksOf({ dismissals, redeliveries }: UpkeepDeps['store'], historyMs: number): Jobs[] {
  return [
    [{ name: 'dismissals', step: () => continueWork(dismissals, historyMs) }],
    [{ name: 'redeliveries', step: () => continueWork(redeliveries, historyMs) }],
  ];
}

/** Continues requests whose process has ended before they were done, one step of each. */
async function continueWork(
  requests: Pick<Store['dismissals'], 'unfinished' | 'step'>,
  historyMs: number,
): Promise<number> {
  const unfinished = await requests.unfinished(requestsAtOnce);
  for (const { tenant, id } of unfinished) await requests.step(tenant, id, historyMs);
  return unfinished.length;
}

const requestsAtOnce = 10;

/** Jobs that free what the jobs of `jobsOf` have removed. */
function laterJobsOf({ store, settings }: UpkeepDeps): Jobs[] {
  const take = settings.stepRows;
  const events = { olderThanMs: settings.eventRetentionMs, take };
  return [
    [{ name: 'days of events', step: () => store.upkeep.dropEvents(events) }],
    [{ name: 'kept', step: () => store.upkeep.releaseKept({ take }) }],
    [{ name: 'file', step: () => store.upkeep.shrink() }],
  ];
}

/**
 * The order in which tenants are pruned. A round may end before every tenant had a turn, and some
 * tenants are listed in each round without anything to prune. So each round starts after the tenant
 * that had the last turn.
 */
interface TenantRotation {
  /** Returns the ids of the tenants to prune, in the order of their turns. */
  list(): Promise<number[]>;
  /** Records that a tenant has its turn, also when its step fails. */
  begin(tenant: number): void;
}

function createTenantRotation(deps: UpkeepDeps): TenantRotation {
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

/** Tenants per query. */
const TENANTS_AT_ONCE = 500;

/** Returns the ids of tenants that may have events to prune, in order. */
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

/**
 * Runs one step of each list of jobs in `rotation`, until all jobs are done or half of the round is over.
 * An error ends its job, and no other.
 */
async function runJobs(
  deps: UpkeepDeps,
  rotation: readonly Jobs[],
  mayContinue: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, settings, log } = deps;
  const startedMs = clock.elapsedMs();
  const queue = rotation.map((jobs) => [...jobs]);
  const done = new Map<string, number>();
  try {
    while (queue.length > 0 && (await mayContinue())) {
      if (clock.elapsedMs() - startedMs > settings.everyMs / 2) break;
      const jobs = queue.shift() ?? [];
      const job = jobs.shift();
      if (job === undefined) continue;
      const count = await runStep(deps, job, signal);
      if (count > 0) {
        jobs.push(job);
        done.set(job.name, (done.get(job.name) ?? 0) + count);
      }
      queue.push(jobs);
    }
  } finally {
    for (const [name, count] of done) log.info({ what: name, count }, 'upkeep');
  }
}

/** Longest pause after a failed step: it has mostly waited for a lock or a response. */
const FAILED_PAUSE_MAX_MS = 1000;

/**
 * Runs a step, and pauses for as long as it took, so that other work has at least half of the time.
 * Returns its count; 0 after an error.
 */
async function runStep(
  { clock, report }: UpkeepDeps,
  { name, step }: Job,
  signal: AbortSignal,
): Promise<number> {
  const startedMs = clock.elapsedMs();
  let pauseMaxMs = Infinity;
  const count = await step().catch((error: unknown) => {
    report(error, name);
    pauseMaxMs = FAILED_PAUSE_MAX_MS;
    return 0;
  });
  const tookMs = Math.max(1, clock.elapsedMs() - startedMs);
  await sleep(clock, Math.min(pauseMaxMs, tookMs), signal);
  return count;
}
