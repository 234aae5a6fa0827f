import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { UpkeepSettings } from '../../src/upkeep/upkeep.ts';
import { boundsOf } from './deadlines.ts';
import type { RetrySchedule } from '../../src/core/retry-schedule.ts';
import type { DeliveryOptions, RetryOption } from '../../src/core/types.ts';
import { createPrng, type Prng } from './prng.ts';
import type { NameServerBehaviour } from './names.ts';

/** Everything that is decided before a history begins; the rest follows from its seed. */
export interface Plan {
  readonly seed: number;
  readonly settings: DeliverySettings;
  /** Processes that share the store. */
  readonly nodes: number;
  /** Absent: one. */
  readonly tenants?: number | undefined;
  /** Event types of the initial streams, which are assigned to the tenants in turn. */
  readonly streams: readonly (readonly string[])[];
  /** Of the initial streams, in their order; absent without any. */
  readonly delivery?: readonly (DeliveryOptions | undefined)[] | undefined;
  readonly faultRates: FaultRates;
  /** Absent when no upkeep runs. */
  readonly upkeep?: UpkeepSettings | undefined;
  /** In the order of their time. */
  readonly steps: readonly Step[];
}

/** Random faults besides those of the steps. Shares are 0 to 1. */
export interface FaultRates {
  /** Share of slow store commands, and their longest delay. */
  readonly slow: number;
  readonly slowMs: number;
  /** Share of slow pages of the log. */
  readonly slowPages: number;
  /** Share of store commands that are refused without effect. */
  readonly refused: number;
  /** Share of store commands that take effect but whose result is lost. */
  readonly resultsLost: number;
  /** Share of hints that are lost, and of those that arrive twice. */
  readonly hintsLost: number;
  readonly hintsRepeated: number;
  /** Share of late hints, which a later one may overtake. */
  readonly hintsLate: number;
  /** Share of error pages with bytes that the store refuses. */
  readonly unstorable: number;
}

/** How a receiver responds. */
export type ReceiverBehaviour =
  | 'healthy'
  | 'failsLate'
  | 'flaky'
  | 'down'
  | 'refusing'
  | 'slow'
  | 'hanging'
  | 'broken'
  /** Refuses the first attempt of each event. */
  | 'failsFirst'
  /** Refuses every event at once, without a retry. */
  | 'refusesAll';

/** Streams, nodes and tenants are numbers, modulo their count. */
export type Step = { readonly at: number } & (
  | {
      readonly do: 'publish';
      readonly types: readonly string[];
      readonly repeats: boolean;
      readonly tenant?: number;
    }
  | {
      readonly do: 'create';
      readonly types: readonly string[];
      readonly tenant?: number;
      /** The number of the event after which it begins, modulo their count; the head of the log when absent. */
      readonly start?: number;
      /** With a filter for events of these types. */
      readonly filter?: readonly string[];
    }
  /** Removes a tenant with its log, at most `take` rows at once; the first tenant is never removed. */
  | { readonly do: 'removeTenant'; readonly tenant: number; readonly take: number }
  /** Deletes all streams of a tenant at once; one of all tenants is left. */
  | { readonly do: 'deleteAll'; readonly tenant?: number }
  | { readonly do: 'subscribe'; readonly stream: number; readonly types: readonly string[] }
  /** Sets a filter for events of these types; absent: removes it. */
  | {
      readonly do: 'filter';
      readonly stream: number;
      readonly types: readonly string[] | undefined;
    }
  | { readonly do: 'changeDestination' | 'disable' | 'delete'; readonly stream: number }
  | { readonly do: 'enable'; readonly stream: number; readonly resume: 'latest' | 'held' }
  | { readonly do: 'pause' | 'resume'; readonly stream: number }
  | { readonly do: 'redeliver' | 'dismiss'; readonly stream: number; readonly pick: number }
  | { readonly do: 'redeliverAll' | 'retryNow' | 'test'; readonly stream: number }
  /** Of many failures of a tenant. */
  | {
      readonly do: 'startRedelivery' | 'startDismissal';
      readonly tenant?: number;
      readonly by: 'everything' | 'streams' | 'types' | 'codes';
      readonly pick: number;
    }
  | { readonly do: 'cancelRedelivery' | 'reopen'; readonly tenant?: number; readonly pick: number }
  | { readonly do: 'replay'; readonly stream: number; readonly from: number }
  | { readonly do: 'cancelReplay'; readonly stream: number }
  | { readonly do: 'pruneLog'; readonly agoMs: number; readonly tenant?: number }
  | { readonly do: 'pruneHistory'; readonly agoMs: number }
  | {
      readonly do: 'changeReceiver';
      readonly stream: number;
      readonly behaviour: ReceiverBehaviour;
    }
  | {
      readonly do: 'changeNameServer';
      readonly stream: number;
      readonly behaviour: NameServerBehaviour;
    }
  | { readonly do: 'storeOutage'; readonly ms: number }
  | {
      readonly do: 'crash';
      readonly node: number;
      /** Crashes at the `command`-th next store command; 0 is at once. */
      readonly command: number;
      /** The command never takes effect, takes effect, or does so long after the process has ended. */
      readonly phase: 'before' | 'after' | 'late';
      readonly awayMs: number;
      /** The next process has another name, so that the lease has to end. */
      readonly renamed: boolean;
      /** The next process freezes while it starts. */
      readonly freezeAtStart: { readonly command: number; readonly ms: number } | undefined;
    }
  | {
      readonly do: 'freeze';
      readonly node: number;
      /** Freezes at the `command`-th next store command; 0 is at once. */
      readonly command: number;
      readonly ms: number;
    }
  | { readonly do: 'leave'; readonly node: number; readonly awayMs: number }
  /** The wall clock of a node jumps or stops. */
  | { readonly do: 'jumpClock' | 'stopClock'; readonly node: number; readonly ms: number }
  /** The wall clock of the store jumps or stops. */
  | { readonly do: 'jumpStoreClock' | 'stopStoreClock'; readonly ms: number }
  /** The machine of a node is suspended, with its monotonic clock. */
  | { readonly do: 'suspend'; readonly node: number; readonly ms: number }
  /** Takes a snapshot of the store. */
  | { readonly do: 'snapshot' }
  /** The store is unavailable for `awayMs`, and then has the contents of the last snapshot. */
  | { readonly do: 'restore'; readonly awayMs: number }
  /** Records the contents of the disk from now on, before a power cut. */
  | { readonly do: 'recordDisk' }
  /** Everything that is not on the disk is lost, and all processes end. */
  | { readonly do: 'powerCut'; readonly awayMs: number }
  /** No faults for `ms`. */
  | { readonly do: 'pauseFaults'; readonly ms: number }
);

/** Event types. */
export const types = ['a.made', 'b.made', 'c.made'] as const;

/** Every event has a body of this size. */
export const eventBodyBytes = JSON.stringify({
  id: `evt_${'0'.repeat(22)}`,
  type: types[0],
  data: {},
}).length;

const settingsOf = (prng: Prng): DeliverySettings => ({
  streamConcurrency: prng.pick([1, 2, 2, 4]),
  concurrency: prng.pick([2, 4, 8]),
  retryDelaysMs: prng.pick([[100, 200, 400], [50, 50, 50], [300]]),
  retry4xx: [408, 429],
  attemptTimeoutMs: 1000,
  disable: { consecutive: prng.pick([2, 4, 8, 20]), total: prng.pick([4, 10, 30]) },
  userAgent: 'Leat/0.0.0',
  attributePrefix: 'svc',
  parkAfterMs: prng.pick([40, 100, 400, 800]),
  parkAfterEvents: prng.pick([2, 4, 8, 16]),
  trialMs: 60_000,
  settleMs: 10,
  settleMax: prng.pick([2, 8, 32]),
  leaseGraceMs: 500,
  tailEventsMax: prng.pick([3, 50]),
  tailBytesMax: prng.pick([300, 1_000_000]),
  pageEvents: prng.pick([2, 4, 20]),
  pageBytes: prng.pick([200, 1_000_000]),
  lagOffsetsMax: prng.pick([5, 10_000]),
  lagMs: prng.pick([500, 3000]),
  inflightBytesMax: 1_000_000,
  claimedBytes: 1000,
  // In proportion to the few slots of these nodes: reserved for slow streams of each tenant.
  slowSlots: 1,
  unansweredBackoffMs: 25,
  unansweredPerSecond: 256,
  leaseMs: 1000,
  leaseStopMs: 700,
  heartbeatMs: 250,
  pollMs: prng.pick([200, 500, 1000]),
});

/** In a third of the histories upkeep runs, with a retention of seconds. */
function upkeepOf(seed: number): UpkeepSettings | undefined {
  const prng = createPrng(seed, 'upkeep');
  if (!prng.chance(1 / 3)) return undefined;
  return {
    eventRetentionMs: prng.pick([100, 500, 2000]),
    // Longer than it takes to record an attempt.
    attemptRetentionMs: prng.pick([6000, 10_000]),
    logRetentionMs: 10_000,
    // Above the time after which an idle cursor is written, and a poll.
    lagMaxMs: prng.pick([6000, 10_000]),
    everyMs: prng.pick([300, 1000]),
    leaseMs: 900,
    stepRows: prng.pick([1, 5, 100]),
  };
}

const faultRatesOf = (prng: Prng): FaultRates => {
  const maybe = (share: number): number => (prng.chance(0.5) ? share : 0);
  return {
    slow: maybe(prng.pick([0.05, 0.3])),
    slowMs: prng.pick([5, 30, 30, 400]),
    slowPages: prng.chance(0.3) ? 0.6 : 0,
    refused: maybe(0.03),
    resultsLost: maybe(0.04),
    hintsLost: maybe(0.05),
    hintsRepeated: maybe(0.05),
    hintsLate: maybe(0.3),
    unstorable: maybe(0.1),
  };
};

const behaviours = [
  'healthy',
  'healthy',
  'flaky',
  'flaky',
  'failsLate',
  'down',
  'refusing',
  'slow',
  'hanging',
  'broken',
] as const;

/** Weights of the steps. */
const actions = {
  publish: 40,
  changeReceiver: 12,
  redeliver: 4,
  redeliverAll: 3,
  test: 4,
  disable: 4,
  enable: 7,
  subscribe: 6,
  changeDestination: 2,
  create: 1,
  delete: 1,
  pruneLog: 3,
  pruneHistory: 1,
  storeOutage: 2,
  crash: 5,
  freeze: 4,
  leave: 2,
  jumpClock: 5,
  // These have generators of their own.
  deleteAll: 0,
  removeTenant: 0,
  pause: 0,
  resume: 0,
  dismiss: 0,
  startRedelivery: 0,
  startDismissal: 0,
  cancelRedelivery: 0,
  reopen: 0,
  retryNow: 0,
  replay: 0,
  cancelReplay: 0,
  filter: 0,
  changeNameServer: 0,
  snapshot: 0,
  restore: 0,
  recordDisk: 0,
  powerCut: 0,
  pauseFaults: 0,
  stopClock: 0,
  jumpStoreClock: 0,
  stopStoreClock: 0,
  suspend: 0,
} satisfies Record<Step['do'], number>;

const weightedActions = Object.entries(actions).flatMap(([name, weight]) =>
  Array.from({ length: weight }, () => name as Step['do']),
) as [Step['do'], ...Step['do'][]];

const hourMs = 3_600_000;
/** 60 days: no timer can wait for so long. */
const monthsMs = 60 * 24 * hourMs;

const number = (prng: Prng): number => prng.between(0, 1_000_000);

/** The steps of one kind. */
export type StepOf<Name extends Step['do']> = Step & { readonly do: Name };

const generators: { [Name in Step['do']]: (prng: Prng) => Omit<StepOf<Name>, 'at' | 'do'> } = {
  publish: (prng) => ({
    types: Array.from({ length: prng.pick([1, 1, 1, 2, 2, 5, 5, 12, 40]) }, () =>
      prng.pick([types[0], types[0], types[1], types[1], types[1], types[2]]),
    ),
    repeats: prng.chance(0.15),
  }),
  create: (prng) => ({ types: prng.some(types) }),
  subscribe: (prng) => ({ stream: number(prng), types: prng.some(types) }),
  filter: (prng) => ({
    stream: number(prng),
    types: prng.pick([[types[0]], [types[1]], [types[0], types[2]], undefined]),
  }),
  changeDestination: (prng) => ({ stream: number(prng) }),
  disable: (prng) => ({ stream: number(prng) }),
  delete: (prng) => ({ stream: number(prng) }),
  deleteAll: () => ({}),
  removeTenant: (prng) => ({ tenant: number(prng), take: prng.pick([2, 10, 100]) }),
  enable: (prng) => ({ stream: number(prng), resume: prng.pick(['latest', 'held']) }),
  pause: (prng) => ({ stream: number(prng) }),
  resume: (prng) => ({ stream: number(prng) }),
  redeliver: (prng) => ({ stream: number(prng), pick: number(prng) }),
  dismiss: (prng) => ({ stream: number(prng), pick: number(prng) }),
  redeliverAll: (prng) => ({ stream: number(prng) }),
  startRedelivery: (prng) => ({
    by: prng.pick(['everything', 'everything', 'streams', 'types', 'codes']),
    pick: number(prng),
  }),
  // The code of a failure that is dismissed is gone with it.
  startDismissal: (prng) => ({
    by: prng.pick(['everything', 'streams', 'types']),
    pick: number(prng),
  }),
  cancelRedelivery: (prng) => ({ pick: number(prng) }),
  reopen: (prng) => ({ pick: number(prng) }),
  retryNow: (prng) => ({ stream: number(prng) }),
  test: (prng) => ({ stream: number(prng) }),
  replay: (prng) => ({ stream: number(prng), from: number(prng) }),
  cancelReplay: (prng) => ({ stream: number(prng) }),
  pruneLog: (prng) => ({ agoMs: prng.between(0, 2000) }),
  pruneHistory: (prng) => ({ agoMs: prng.between(0, 2000) }),
  changeReceiver: (prng) => ({ stream: number(prng), behaviour: prng.pick(behaviours) }),
  changeNameServer: (prng) => ({
    stream: number(prng),
    behaviour: prng.pick(['healthy', 'slow', 'silent', 'unknown', 'flapping']),
  }),
  storeOutage: (prng) => ({ ms: prng.pick([50, 400, 1200, 2500]) }),
  crash: (prng) => ({
    node: number(prng),
    command: prng.pick([0, 0, 1, 2, 5, 9]),
    phase: prng.pick(['before', 'after', 'late']),
    awayMs: prng.between(0, 800),
    renamed: prng.chance(0.5),
    freezeAtStart: prng.chance(0.3)
      ? { command: prng.between(1, 3), ms: prng.pick([800, 1100, 2000]) }
      : undefined,
  }),
  freeze: (prng) => ({
    node: number(prng),
    command: prng.pick([0, 0, 1, 2, 3, 5]),
    ms: prng.pick([100, 600, 800, 1100, 2000]),
  }),
  leave: (prng) => ({ node: number(prng), awayMs: prng.between(0, 800) }),
  snapshot: () => ({}),
  restore: (prng) => ({ awayMs: prng.pick([0, 50, 400, 1500]) }),
  recordDisk: () => ({}),
  powerCut: (prng) => ({ awayMs: prng.between(0, 800) }),
  // Its length follows from the settings.
  pauseFaults: () => ({ ms: 0 }),
  jumpClock: (prng) => ({ node: number(prng), ms: prng.pick([-4000, -800, -50, 50, 800, 4000]) }),
  stopClock: (prng) => ({ node: number(prng), ms: prng.pick([300, 2000]) }),
  jumpStoreClock: (prng) => ({
    ms: prng.pick([-1, 1]) * prng.pick([50, 4000, 50_000, hourMs, monthsMs]),
  }),
  stopStoreClock: (prng) => ({ ms: prng.pick([300, 2000]) }),
  // Within its lease, somewhat longer, and for long.
  suspend: (prng) => ({ node: number(prng), ms: prng.pick([300, 900, 1500, 4000]) }),
};

/** Returns the plan of a seed. */
export function planOf(seed: number): Plan {
  const prng = createPrng(seed, 'plan');
  const count = prng.pick([12, 25, 40, 60]);
  const lengthMs = count * prng.pick([10, 30, 100, 200]);
  // A third of the histories have no crashes, freezes and clock jumps.
  const isCalm = prng.chance(0.3);
  const steps = Array.from({ length: count }, (): Step => {
    let action = prng.pick(weightedActions);
    if (isCalm && (action === 'crash' || action === 'freeze' || action === 'jumpClock'))
      action = 'publish';
    return { at: prng.between(0, lengthMs), do: action, ...generators[action](prng) } as Step;
  });
  const failOvers = failOversOf(seed, lengthMs);
  // The disk is that of one server: a power cut and a change of servers exclude each other.
  const isCut = failOvers.some((step) => step.do === 'powerCut');
  const clocks = clocksOf(seed, lengthMs).filter((step) => !isCut || !isOfFailOver(step));
  steps.push(
    ...replaysOf(seed, lengthMs),
    ...pausesOf(seed, lengthMs),
    ...dismissalsOf(seed, lengthMs),
    ...failureWorksOf(seed, lengthMs),
    ...reopeningsOf(seed, lengthMs),
    ...startsOf(seed, lengthMs),
    ...namesOf(seed, lengthMs),
    ...filtersOf(seed, lengthMs),
    ...failOvers,
    ...clocks,
  );
  const settings = settingsOf(prng);
  const plan: Plan = {
    seed,
    settings,
    nodes: prng.pick([1, 1, 1, 2, 2, 3, 4]),
    streams: Array.from({ length: prng.pick([1, 2, 2, 3, 3, 7]) }, () => prng.some(types)),
    faultRates: faultRatesOf(prng),
    upkeep: upkeepOf(seed),
    steps: steps.toSorted((one, other) => one.at - other.at),
  };
  const withRates = withDelivery(withFewBodies(withTenants(withFaultPause(plan, lengthMs))));
  return withRemovals(withCrowd(withOrder(withRetry(withRates, lengthMs)), lengthMs), lengthMs);
}

/** In a quarter of the histories fewer bodies may be under way than there are slots. */
function withFewBodies(plan: Plan): Plan {
  if (!createPrng(plan.seed, 'bodies').chance(1 / 4)) return plan;
  const inflightBytesMax = bodiesMin * eventBodyBytes;
  return {
    ...plan,
    settings: { ...plan.settings, inflightBytesMax, claimedBytes: eventBodyBytes },
  };
}

/** In a third of the histories some of the initial streams have options. */
function withDelivery(plan: Plan): Plan {
  const prng = createPrng(plan.seed, 'delivery');
  if (!prng.chance(1 / 3)) return plan;
  const delivery = plan.streams.map(() => (prng.chance(0.7) ? deliveryOf(prng) : undefined));
  return { ...plan, delivery };
}

/**
 * In a quarter of the histories most of the initial streams have a schedule, receivers are down for
 * seconds, and what waits is made due now and then. The clock of their store is right: after three days by it all would be over.
 */
function withRetry(plan: Plan, lengthMs: number): Plan {
  const prng = createPrng(plan.seed, 'retry');
  const isClockSet = plan.steps.some((step) => step.do === 'jumpStoreClock');
  if (!prng.chance(1 / 4) || isClockSet) return plan;
  const delivery = plan.streams.map((_, index): DeliveryOptions | undefined => {
    const options = plan.delivery?.[index];
    return prng.chance(0.3) ? options : { ...options, retry: retryOf(prng) };
  });
  const retries = Array.from({ length: prng.between(0, 4) }, (): Step => ({
    at: prng.between(0, lengthMs),
    do: 'retryNow',
    ...generators.retryNow(prng),
  }));
  const outages = Array.from({ length: prng.between(1, 4) }, () => outageOf(prng, lengthMs));
  const steps = [...plan.steps, ...retries, ...outages.flat()];
  const disable = { consecutive: prng.pick([2, 4, 8]), total: prng.pick([10, 30]) };
  // As LEAT_RETRY: the schedule of streams without one of their own.
  const ofOthers = createPrng(plan.seed, 'retry of others');
  const retry = ofOthers.chance(1 / 2) ? retryOf(ofOthers) : undefined;
  return {
    ...plan,
    delivery,
    steps: steps.toSorted((one, other) => one.at - other.at),
    settings: { ...plan.settings, disable, trialMs: 300, ...(retry && { retry }) },
  };
}

/** A receiver is down, and is back seconds later. */
function outageOf(prng: Prng, lengthMs: number): Step[] {
  const at = prng.between(0, lengthMs);
  const backAt = at + prng.pick([300, 1500, 5000]);
  const stream = number(prng);
  const behaviour = prng.pick(['healthy', 'healthy', 'flaky'] as const);
  return [
    { at, do: 'changeReceiver', stream, behaviour: 'down' },
    { at: backAt, do: 'changeReceiver', stream, behaviour },
  ];
}

const retryOf = (prng: Prng): RetryOption => ({
  // No wait is longer than the longest that a receiver asks for.
  delaysSeconds: prng.pick([
    [0.1, 0.4],
    [0.05, 0.2, 0.8],
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
    [1, 1, 1, 1, 1, 1, 1, 1],
    [1, 1, 1, 1, 1, 1, 1, 1],
  ]),
  retry4xx: prng.pick([undefined, [429], [404, 408, 429]]),
});

/** In a third of the histories most of the initial streams send in order, by type or all events. */
function withOrder(plan: Plan): Plan {
  const prng = createPrng(plan.seed, 'order');
  if (!prng.chance(1 / 3)) return plan;
  const delivery = plan.streams.map((_, index): DeliveryOptions | undefined => {
    const options = plan.delivery?.[index];
    if (prng.chance(0.3)) return options;
    const orderBy = prng.pick(['/type', '/type', '']);
    return { ...options, orderBy, onFailure: prng.pick([undefined, 'block']) };
  });
  return { ...plan, delivery };
}

/**
 * In a sixth of the histories a crowd of streams with filters begins at earlier events of one log. Its pages
 * are slow, so most of the crowd wait for theirs while some are deleted, disabled and moved to other nodes.
 */
function withCrowd(plan: Plan, lengthMs: number): Plan {
  const prng = createPrng(plan.seed, 'crowd');
  if (!prng.chance(1 / 6)) return plan;
  const tenant = prng.between(0, 2);
  const at = prng.between(0, lengthMs);
  const crowd = Array.from({ length: prng.between(6, 9) }, (): Step => {
    const filter = prng.pick([[types[0]], [types[1]], [types[0], types[2]]]);
    return { at, do: 'create', types: [...types], tenant, start: number(prng), filter };
  });
  const losses = ['delete', 'delete', 'disable', 'disable', 'leave', 'crash', 'deleteAll'] as const;
  const lost = Array.from({ length: prng.between(2, 5) }, (): Step => {
    const action = prng.pick(losses);
    const afterMs = prng.between(0, prng.pick([20, 200, 2000]));
    const about = action === 'deleteAll' ? { tenant } : generators[action](prng);
    return { at: at + afterMs, do: action, ...about } as Step;
  });
  const published = Array.from({ length: 3 }, (): Step => ({
    at: Math.max(0, at - 1),
    do: 'publish',
    tenant,
    ...generators.publish(prng),
  }));
  const steps = [...plan.steps, ...published, ...crowd, ...lost];
  return {
    ...plan,
    faultRates: { ...plan.faultRates, slowPages: 0.6 },
    steps: steps.toSorted((one, other) => one.at - other.at),
  };
}

/**
 * In two fifths of the histories with several tenants one or two of them are removed, most of the time when
 * they have a crowd that waits for slow pages, or events to send.
 */
function withRemovals(plan: Plan, lengthMs: number): Plan {
  const prng = createPrng(plan.seed, 'removals');
  if (plan.tenants === undefined || !prng.chance(0.4)) return plan;
  const tenant = prng.between(1, plan.tenants - 1);
  const isOfCrowd = (step: Step): boolean => step.do === 'create' && step.filter !== undefined;
  const crowd = plan.steps.find(isOfCrowd);
  const at = crowd?.at ?? prng.between(0, lengthMs);
  const moved = plan.steps.map((step): Step => {
    const isMoved = isOfCrowd(step) || (step.at === Math.max(0, at - 1) && 'tenant' in step);
    return isMoved ? ({ ...step, tenant } as Step) : step;
  });
  const published = Array.from({ length: 2 }, (): Step => {
    const aboutMs = prng.between(-20, 50);
    return { at: Math.max(0, at + aboutMs), do: 'publish', ...generators.publish(prng), tenant };
  });
  const removed = Array.from({ length: prng.pick([1, 1, 1, 2]) }, (): Step => {
    const afterMs = prng.between(0, prng.pick([20, 200, 2000]));
    return { at: at + afterMs, do: 'removeTenant', ...generators.removeTenant(prng), tenant };
  });
  const steps = [...moved, ...published, ...removed];
  return { ...plan, steps: steps.toSorted((one, other) => one.at - other.at) };
}

/** Returns what a stream of a plan sets of its schedule. */
export function ownSchedule(
  retry: RetryOption | undefined,
): Partial<Pick<RetrySchedule, 'delaysMs' | 'retry4xx'>> {
  if (typeof retry === 'string') throw new Error('Plans have lists of waits.');
  if (retry === undefined) return {};
  const { delaysSeconds, retry4xx } = retry;
  return {
    delaysMs: delaysSeconds.map((seconds) => seconds * 1000),
    ...(retry4xx && { retry4xx }),
  };
}

const deliveryOf = (prng: Prng): DeliveryOptions => ({
  perSecond: prng.pick([undefined, 25, 50]),
  concurrency: prng.pick([undefined, 1, 2]),
  timeoutMs: prng.pick([undefined, 300, 900]),
});

/** Enough for three tenants and the quarter reserved for quick streams; see `shares.ts`. */
const bodiesMin = 6;

/** In half of the histories several tenants share the store, and its nodes. */
function withTenants(plan: Plan): Plan {
  const prng = createPrng(plan.seed, 'tenants');
  const tenants = prng.pick([1, 1, 2, 3]);
  if (tenants === 1) return plan;
  const steps = plan.steps.map((step): Step => {
    const isOfTenant = step.do === 'publish' || step.do === 'create' || step.do === 'pruneLog';
    return isOfTenant ? { ...step, tenant: prng.between(0, tenants - 1) } : step;
  });
  return { ...plan, tenants, steps };
}

/** Steps that are not faults, for a pause of faults. */
const harmless = [
  'publish',
  'publish',
  'publish',
  'publish',
  'redeliver',
  'redeliverAll',
  'dismiss',
  'dismiss',
  'pause',
  'resume',
  'resume',
  'test',
  'disable',
  'enable',
  'subscribe',
  'create',
] as const;

/**
 * Adds a pause of faults to a sixth of the histories, long enough for every waiting event to arrive,
 * and then for some publishing in which no wake-up may be missing.
 */
function withFaultPause(plan: Plan, lengthMs: number): Plan {
  const prng = createPrng(plan.seed, 'lull');
  if (!prng.chance(1 / 6)) return plan;
  const at = prng.between(0, lengthMs);
  const quietMs = boundsOf(plan, plan.faultRates.slowMs).recoverMs;
  const ms = Math.ceil(quietMs) + 3000;
  const steps = Array.from({ length: prng.between(4, 12) }, (): Step => {
    const action = prng.pick(harmless);
    return { at: at + ms - prng.between(0, 2800), do: action, ...generators[action](prng) } as Step;
  });
  const shifted = plan.steps.map((step) => (step.at < at ? step : { ...step, at: step.at + ms }));
  const all = [...shifted, { at, do: 'pauseFaults', ms } as const, ...steps];
  return { ...plan, steps: all.toSorted((one, other) => one.at - other.at) };
}

/**
 * Cuts the power in a tenth of the histories. In a fifth of the others it restores the store, as after
 * a fail-over or from a backup, sometimes more than once from the same snapshot.
 */
function failOversOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'fail-overs');
  const at = prng.between(0, lengthMs);
  if (prng.chance(0.1)) {
    const cutAt = at + prng.between(1100, 2500);
    const { awayMs } = generators.powerCut(prng);
    return [
      { at, do: 'recordDisk' },
      { at: cutAt, do: 'powerCut', awayMs },
    ];
  }
  if (!prng.chance(0.2)) return [];
  const steps: Step[] = [
    { at: Math.max(0, at - prng.pick([20, 200, 1000, 5000])), do: 'snapshot' },
  ];
  const { awayMs } = generators.restore(prng);
  steps.push({ at, do: 'restore', awayMs });
  if (prng.chance(0.2)) {
    steps.push({ at: prng.between(at, lengthMs), do: 'restore', awayMs: prng.between(0, 500) });
  }
  return steps;
}

/** In a third of the histories clocks are set or stop, and are corrected later. */
function clocksOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'clocks');
  if (!prng.chance(1 / 3)) return [];
  const kinds = [
    'jumpClock',
    'jumpClock',
    'stopClock',
    'suspend',
    'suspend',
    'store',
    'stopStoreClock',
    'failOver',
  ] as const;
  return Array.from({ length: prng.between(1, 4) }, () => prng.pick(kinds)).flatMap(
    (kind): Step[] => {
      const at = prng.between(0, lengthMs);
      const backAt = at + prng.between(100, 3000);
      const ms = prng.pick([-1, 1, 1]) * prng.pick([5000, hourMs, monthsMs]);
      if (kind === 'jumpClock') {
        const node = number(prng);
        return [
          { at, do: 'jumpClock', node, ms },
          { at: backAt, do: 'jumpClock', node, ms: -ms },
        ];
      }
      if (kind === 'store') {
        const jumpClock = generators.jumpStoreClock(prng);
        const back = { at: backAt, do: 'jumpStoreClock', ms: -jumpClock.ms } as const;
        return [{ at, do: 'jumpStoreClock', ...jumpClock }, ...(prng.chance(0.7) ? [back] : [])];
      }
      if (kind === 'failOver') {
        const aheadMs = prng.pick([hourMs, monthsMs]);
        return [...failOverTo(at, aheadMs), ...failOverTo(backAt, -aheadMs)];
      }
      return [{ at, do: kind, ...generators[kind](prng) } as Step];
    },
  );
}

const isOfFailOver = (step: Step): boolean => step.do === 'snapshot' || step.do === 'restore';

/** Returns a fail-over to a server whose clock differs by `ms`; the last millisecond is lost. */
const failOverTo = (at: number, ms: number): Step[] => [
  { at, do: 'snapshot' },
  { at: at + 1, do: 'jumpStoreClock', ms },
  { at: at + 1, do: 'restore', awayMs: 0 },
];

/** In a quarter of the histories some streams begin at an earlier event. */
function startsOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'starts');
  if (!prng.chance(1 / 4)) return [];
  return Array.from({ length: prng.between(1, 2) }, (): Step => {
    const at = prng.between(0, lengthMs);
    return { at, do: 'create', types: prng.some(types), start: number(prng) };
  });
}

/** In a third of the histories name servers are slow, silent or flapping. */
function namesOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'names');
  if (!prng.chance(1 / 3)) return [];
  return Array.from({ length: prng.between(1, 6) }, (): Step => ({
    at: prng.between(0, lengthMs),
    do: 'changeNameServer',
    ...generators.changeNameServer(prng),
  }));
}

/** In a third of the histories streams get filters, change them and lose them. */
function filtersOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'filters');
  if (!prng.chance(1 / 3)) return [];
  return Array.from({ length: prng.between(1, 8) }, (): Step => ({
    at: prng.between(0, prng.pick([10, lengthMs])),
    do: 'filter',
    ...generators.filter(prng),
  }));
}

/** In a third of the histories streams are paused, and most of them resumed. */
function pausesOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'pauses');
  if (!prng.chance(1 / 3)) return [];
  return Array.from({ length: prng.between(1, 5) }, () => number(prng)).flatMap((stream) => {
    const at = prng.between(0, lengthMs);
    const pause: Step = { at, do: 'pause', stream };
    const resume: Step = { at: at + prng.between(10, 3000), do: 'resume', stream };
    return prng.chance(0.8) ? [pause, resume] : [pause];
  });
}

/** In two fifths of the histories failures of many streams are redelivered or dismissed in steps. */
function failureWorksOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'failure works');
  if (!prng.chance(0.4)) return [];
  const kinds = [
    'startRedelivery',
    'startRedelivery',
    'startRedelivery',
    'startDismissal',
    'cancelRedelivery',
  ] as const;
  return Array.from({ length: prng.between(1, 8) }).flatMap((): Step[] => {
    const action = prng.pick(kinds);
    const tenant = prng.between(0, 2);
    const at = prng.between(0, lengthMs);
    // Some failures at first.
    const stream = number(prng);
    const failAt = Math.max(0, at - prng.between(0, 500));
    const healAt = at + prng.between(0, 500);
    const kind = prng.pick(['refusesAll', 'refusesAll', 'refusing', 'flaky', 'down'] as const);
    return [
      { at: failAt, do: 'changeReceiver', stream, behaviour: kind },
      { at: failAt, do: 'publish', tenant, ...generators.publish(prng) },
      { at: healAt, do: 'changeReceiver', stream, behaviour: prng.pick(behaviours) },
      { at, do: action, tenant, ...generators[action](prng) } as Step,
    ];
  });
}

/** In a third of the histories failures are dismissed. */
function dismissalsOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'dismissals');
  if (!prng.chance(1 / 3)) return [];
  return Array.from({ length: prng.between(5, 25) }, (): Step => ({
    at: prng.between(0, lengthMs + 1000),
    do: 'dismiss',
    ...generators.dismiss(prng),
  }));
}

/** In a third of the histories what was dismissed is opened again. */
function reopeningsOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'reopenings');
  if (!prng.chance(1 / 3)) return [];
  return Array.from({ length: prng.between(2, 8) }).flatMap((): Step[] => {
    const at = prng.between(0, lengthMs);
    const tenant = prng.between(0, 2);
    const reopenAt = at + prng.between(0, 3000);
    return [
      { at, do: 'startDismissal', tenant, ...generators.startDismissal(prng) },
      { at: reopenAt, do: 'reopen', tenant, ...generators.reopen(prng) },
    ];
  });
}

/** In half of the histories ranges of the log are replayed. */
function replaysOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'replays');
  if (prng.chance(0.5)) return [];
  return Array.from({ length: prng.between(1, 6) }, (): Step => {
    const action = prng.chance(0.2) ? 'cancelReplay' : 'replay';
    return { at: prng.between(0, lengthMs), do: action, ...generators[action](prng) } as Step;
  });
}
