import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { UpkeepSettings } from '../../src/upkeep/upkeep.ts';
import { boundsOf } from './deadlines.ts';
import { createPrng, type Prng } from './prng.ts';
import type { NameMood } from './names.ts';

/** Everything that is decided before a history begins; the rest follows from its seed. */
export interface Plan {
  readonly seed: number;
  readonly settings: DeliverySettings;
  /** Processes that share the store. */
  readonly nodes: number;
  /** Absent: one. */
  readonly tenants?: number | undefined;
  /** Event types of the streams that are there from the start, dealt to the tenants in turns. */
  readonly streams: readonly (readonly string[])[];
  readonly weather: Weather;
  /** Absent when nobody keeps the store within its retention. */
  readonly upkeep?: UpkeepSettings | undefined;
  /** In the order of their time. */
  readonly steps: readonly Step[];
}

/** How reliable the surroundings are, besides what the steps do. Shares are 0 to 1. */
export interface Weather {
  /** Store commands that take a while, and the longest that they take. */
  readonly slow: number;
  readonly slowMs: number;
  /** Pages of the log that take a while. */
  readonly slowPages: number;
  /** Store commands that are refused without effect. */
  readonly refused: number;
  /** Store commands that take effect while their answer gets lost. */
  readonly unanswered: number;
  /** Hints that get lost, or come twice. */
  readonly hintsLost: number;
  readonly hintsRepeated: number;
  /** Hints that take a while, so that a later one may come first. */
  readonly hintsLate: number;
  /** Answers of receivers with bytes that the store refuses. */
  readonly unstorable: number;
}

/** How a receiver answers. */
export type Mood =
  | 'well'
  | 'sluggish'
  | 'flaky'
  | 'down'
  | 'refusing'
  | 'slow'
  | 'hanging'
  | 'broken'
  /** Refuses the first attempt of each event. */
  | 'hesitant';

/** Streams, nodes and tenants are meant by their number, modulo how many there are. */
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
      /** Which event it begins after, modulo those there are; the head of the log when absent. */
      readonly start?: number;
    }
  | { readonly do: 'subscribe'; readonly stream: number; readonly types: readonly string[] }
  | { readonly do: 'move' | 'disable' | 'delete'; readonly stream: number }
  | { readonly do: 'enable'; readonly stream: number; readonly resume: 'latest' | 'held' }
  | { readonly do: 'redeliver'; readonly stream: number; readonly pick: number }
  | { readonly do: 'redeliverAll' | 'test'; readonly stream: number }
  | { readonly do: 'replay'; readonly stream: number; readonly from: number }
  | { readonly do: 'cancelReplay'; readonly stream: number }
  | { readonly do: 'pruneLog'; readonly agoMs: number; readonly tenant?: number }
  | { readonly do: 'pruneHistory'; readonly agoMs: number }
  | { readonly do: 'mood'; readonly stream: number; readonly mood: Mood }
  | { readonly do: 'names'; readonly stream: number; readonly mood: NameMood }
  | { readonly do: 'storeAway'; readonly ms: number }
  | {
      readonly do: 'crash';
      readonly node: number;
      /** Dies with its so-many-th next command to the store; 0 is at once. */
      readonly command: number;
      /** The command never takes effect, takes effect, or does so when the process is long gone. */
      readonly phase: 'before' | 'after' | 'late';
      readonly awayMs: number;
      /** The process that takes its place has another name, so that its lease has to end. */
      readonly renamed: boolean;
      /** And freezes while it starts. */
      readonly stumble: { readonly command: number; readonly ms: number } | undefined;
    }
  | {
      readonly do: 'freeze';
      readonly node: number;
      /** Freezes while its so-many-th next command is answered; 0 is at once. */
      readonly command: number;
      readonly ms: number;
    }
  | { readonly do: 'leave'; readonly node: number; readonly awayMs: number }
  /** The wall clock of a node jumps, or stands still. */
  | { readonly do: 'jump' | 'stand'; readonly node: number; readonly ms: number }
  /** The wall clock of the store does. */
  | { readonly do: 'storeJump' | 'storeStand'; readonly ms: number }
  /** The machine of a node is suspended, and its monotonic clock with it. */
  | { readonly do: 'suspend'; readonly node: number; readonly ms: number }
  /** What the store goes back to. */
  | { readonly do: 'keep' }
  /** Away for so long, and then as it was kept last. */
  | { readonly do: 'goBack'; readonly awayMs: number }
  /** A power cut is near: what is on the disk is noted. */
  | { readonly do: 'watchDisk' }
  /** What is not on the disk is lost, and all processes end. */
  | { readonly do: 'powerCut'; readonly awayMs: number }
  /** No faults for so long. */
  | { readonly do: 'lull'; readonly ms: number }
);

/** The last one is rare: no stream wants it but by chance. */
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
  // In proportion to the few slots of these nodes: it is kept for slow streams of each tenant.
  slowSlots: 1,
  unansweredBackoffMs: 25,
  unansweredPerSecond: 256,
  leaseMs: 1000,
  leaseStopMs: 700,
  heartbeatMs: 250,
  pollMs: prng.pick([200, 500, 1000]),
});

/** A third of the histories keep their store within a retention of seconds. */
function upkeepOf(seed: number): UpkeepSettings | undefined {
  const prng = createPrng(seed, 'upkeep');
  if (!prng.chance(1 / 3)) return undefined;
  return {
    eventRetentionMs: prng.pick([100, 500, 2000]),
    // Longer than it takes to record an attempt.
    attemptRetentionMs: prng.pick([6000, 10_000]),
    // Above the time after which an idle cursor is written, and a poll.
    lagMaxMs: prng.pick([6000, 10_000]),
    everyMs: prng.pick([300, 1000]),
    leaseMs: 900,
    stepRows: prng.pick([1, 5, 100]),
  };
}

const weatherOf = (prng: Prng): Weather => {
  const maybe = (share: number): number => (prng.chance(0.5) ? share : 0);
  return {
    slow: maybe(prng.pick([0.05, 0.3])),
    slowMs: prng.pick([5, 30, 30, 400]),
    slowPages: prng.chance(0.3) ? 0.6 : 0,
    refused: maybe(0.03),
    unanswered: maybe(0.04),
    hintsLost: maybe(0.05),
    hintsRepeated: maybe(0.05),
    hintsLate: maybe(0.3),
    unstorable: maybe(0.1),
  };
};

const moods = [
  'well',
  'well',
  'flaky',
  'flaky',
  'sluggish',
  'down',
  'refusing',
  'slow',
  'hanging',
  'broken',
] as const;

/** How often each thing happens, as weights. */
const doings = {
  publish: 40,
  mood: 12,
  redeliver: 4,
  redeliverAll: 3,
  test: 4,
  disable: 4,
  enable: 7,
  subscribe: 6,
  move: 2,
  create: 1,
  delete: 1,
  pruneLog: 3,
  pruneHistory: 1,
  storeAway: 2,
  crash: 5,
  freeze: 4,
  leave: 2,
  jump: 5,
  // They have dice of their own.
  replay: 0,
  cancelReplay: 0,
  names: 0,
  keep: 0,
  goBack: 0,
  watchDisk: 0,
  powerCut: 0,
  lull: 0,
  stand: 0,
  storeJump: 0,
  storeStand: 0,
  suspend: 0,
} satisfies Record<Step['do'], number>;

const bag = Object.entries(doings).flatMap(([name, weight]) =>
  Array.from({ length: weight }, () => name as Step['do']),
) as [Step['do'], ...Step['do'][]];

const hourMs = 3_600_000;
/** 60 days: no timer can wait for so long. */
const monthsMs = 60 * 24 * hourMs;

const number = (prng: Prng): number => prng.between(0, 1_000_000);

/** The steps of one kind. */
export type StepOf<Name extends Step['do']> = Step & { readonly do: Name };

const makers: { [Name in Step['do']]: (prng: Prng) => Omit<StepOf<Name>, 'at' | 'do'> } = {
  publish: (prng) => ({
    types: Array.from({ length: prng.pick([1, 1, 1, 2, 2, 5, 5, 12, 40]) }, () =>
      prng.pick([types[0], types[0], types[1], types[1], types[1], types[2]]),
    ),
    repeats: prng.chance(0.15),
  }),
  create: (prng) => ({ types: prng.some(types) }),
  subscribe: (prng) => ({ stream: number(prng), types: prng.some(types) }),
  move: (prng) => ({ stream: number(prng) }),
  disable: (prng) => ({ stream: number(prng) }),
  delete: (prng) => ({ stream: number(prng) }),
  enable: (prng) => ({ stream: number(prng), resume: prng.pick(['latest', 'held']) }),
  redeliver: (prng) => ({ stream: number(prng), pick: number(prng) }),
  redeliverAll: (prng) => ({ stream: number(prng) }),
  test: (prng) => ({ stream: number(prng) }),
  replay: (prng) => ({ stream: number(prng), from: number(prng) }),
  cancelReplay: (prng) => ({ stream: number(prng) }),
  pruneLog: (prng) => ({ agoMs: prng.between(0, 2000) }),
  pruneHistory: (prng) => ({ agoMs: prng.between(0, 2000) }),
  mood: (prng) => ({ stream: number(prng), mood: prng.pick(moods) }),
  names: (prng) => ({
    stream: number(prng),
    mood: prng.pick(['well', 'slow', 'silent', 'unknown', 'flapping']),
  }),
  storeAway: (prng) => ({ ms: prng.pick([50, 400, 1200, 2500]) }),
  crash: (prng) => ({
    node: number(prng),
    command: prng.pick([0, 0, 1, 2, 5, 9]),
    phase: prng.pick(['before', 'after', 'late']),
    awayMs: prng.between(0, 800),
    renamed: prng.chance(0.5),
    stumble: prng.chance(0.3)
      ? { command: prng.between(1, 3), ms: prng.pick([800, 1100, 2000]) }
      : undefined,
  }),
  freeze: (prng) => ({
    node: number(prng),
    command: prng.pick([0, 0, 1, 2, 3, 5]),
    ms: prng.pick([100, 600, 800, 1100, 2000]),
  }),
  leave: (prng) => ({ node: number(prng), awayMs: prng.between(0, 800) }),
  keep: () => ({}),
  goBack: (prng) => ({ awayMs: prng.pick([0, 50, 400, 1500]) }),
  watchDisk: () => ({}),
  powerCut: (prng) => ({ awayMs: prng.between(0, 800) }),
  // Its length follows from the settings.
  lull: () => ({ ms: 0 }),
  jump: (prng) => ({ node: number(prng), ms: prng.pick([-4000, -800, -50, 50, 800, 4000]) }),
  stand: (prng) => ({ node: number(prng), ms: prng.pick([300, 2000]) }),
  storeJump: (prng) => ({
    ms: prng.pick([-1, 1]) * prng.pick([50, 4000, 50_000, hourMs, monthsMs]),
  }),
  storeStand: (prng) => ({ ms: prng.pick([300, 2000]) }),
  // Within its lease, somewhat longer, and for long.
  suspend: (prng) => ({ node: number(prng), ms: prng.pick([300, 900, 1500, 4000]) }),
};

/** What happens in the history of a seed. */
export function planOf(seed: number): Plan {
  const prng = createPrng(seed, 'plan');
  const count = prng.pick([12, 25, 40, 60]);
  const lengthMs = count * prng.pick([10, 30, 100, 200]);
  // A third of the histories do without the doings that make the others long-winded.
  const isCalm = prng.chance(0.3);
  const steps = Array.from({ length: count }, (): Step => {
    let doing = prng.pick(bag);
    if (isCalm && (doing === 'crash' || doing === 'freeze' || doing === 'jump')) doing = 'publish';
    return { at: prng.between(0, lengthMs), do: doing, ...makers[doing](prng) } as Step;
  });
  const failOvers = failOversOf(seed, lengthMs);
  // The disk is that of one server: a power cut and a change of servers exclude each other.
  const isCut = failOvers.some((step) => step.do === 'powerCut');
  const clocks = clocksOf(seed, lengthMs).filter((step) => !isCut || !isOfFailOver(step));
  steps.push(
    ...replaysOf(seed, lengthMs),
    ...startsOf(seed, lengthMs),
    ...namesOf(seed, lengthMs),
    ...failOvers,
    ...clocks,
  );
  const settings = settingsOf(prng);
  const plan: Plan = {
    seed,
    settings,
    nodes: prng.pick([1, 1, 1, 2, 2, 3, 4]),
    streams: Array.from({ length: prng.pick([1, 2, 2, 3, 3, 7]) }, () => prng.some(types)),
    weather: weatherOf(prng),
    upkeep: upkeepOf(seed),
    steps: steps.toSorted((one, other) => one.at - other.at),
  };
  return withFewBodies(withTenants(withLull(plan, lengthMs)));
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

/** Enough for each of three tenants and for the quarter of quick streams; see `shares.ts`. */
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

/** Steps that are no faults: what goes on in a lull. */
const harmless = [
  'publish',
  'publish',
  'publish',
  'publish',
  'redeliver',
  'redeliverAll',
  'test',
  'disable',
  'enable',
  'subscribe',
  'create',
] as const;

/**
 * In a sixth of the histories there is a time without faults, long enough for everything to arrive
 * that waits, and then for some publishing in which no wake-up may be missing.
 */
function withLull(plan: Plan, lengthMs: number): Plan {
  const prng = createPrng(plan.seed, 'lull');
  if (!prng.chance(1 / 6)) return plan;
  const at = prng.between(0, lengthMs);
  const quietMs = boundsOf(plan.settings, plan.weather.slowMs).recoverMs;
  const ms = Math.ceil(quietMs) + 3000;
  const steps = Array.from({ length: prng.between(4, 12) }, (): Step => {
    const doing = prng.pick(harmless);
    return { at: at + ms - prng.between(0, 2800), do: doing, ...makers[doing](prng) } as Step;
  });
  const shifted = plan.steps.map((step) => (step.at < at ? step : { ...step, at: step.at + ms }));
  const all = [...shifted, { at, do: 'lull', ms } as const, ...steps];
  return { ...plan, steps: all.toSorted((one, other) => one.at - other.at) };
}

/**
 * In a tenth of the histories the power is cut. In a fifth of the others the store goes back, by as much as a replica may be behind or as a
 * backup may be old, sometimes more than once to the same.
 */
function failOversOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'fail-overs');
  const at = prng.between(0, lengthMs);
  if (prng.chance(0.1)) {
    const cutAt = at + prng.between(1100, 2500);
    const { awayMs } = makers.powerCut(prng);
    return [
      { at, do: 'watchDisk' },
      { at: cutAt, do: 'powerCut', awayMs },
    ];
  }
  if (!prng.chance(0.2)) return [];
  const steps: Step[] = [{ at: Math.max(0, at - prng.pick([20, 200, 1000, 5000])), do: 'keep' }];
  const { awayMs } = makers.goBack(prng);
  steps.push({ at, do: 'goBack', awayMs });
  if (prng.chance(0.2)) {
    steps.push({ at: prng.between(at, lengthMs), do: 'goBack', awayMs: prng.between(0, 500) });
  }
  return steps;
}

/** In a third of the histories clocks are set, stand still, and are set right after a while. */
function clocksOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'clocks');
  if (!prng.chance(1 / 3)) return [];
  const kinds = [
    'jump',
    'jump',
    'stand',
    'suspend',
    'suspend',
    'store',
    'storeStand',
    'failOver',
  ] as const;
  return Array.from({ length: prng.between(1, 4) }, () => prng.pick(kinds)).flatMap(
    (kind): Step[] => {
      const at = prng.between(0, lengthMs);
      const backAt = at + prng.between(100, 3000);
      const ms = prng.pick([-1, 1, 1]) * prng.pick([5000, hourMs, monthsMs]);
      if (kind === 'jump') {
        const node = number(prng);
        return [
          { at, do: 'jump', node, ms },
          { at: backAt, do: 'jump', node, ms: -ms },
        ];
      }
      if (kind === 'store') {
        const jump = makers.storeJump(prng);
        const back = { at: backAt, do: 'storeJump', ms: -jump.ms } as const;
        return [{ at, do: 'storeJump', ...jump }, ...(prng.chance(0.7) ? [back] : [])];
      }
      if (kind === 'failOver') {
        const aheadMs = prng.pick([hourMs, monthsMs]);
        return [...failOverTo(at, aheadMs), ...failOverTo(backAt, -aheadMs)];
      }
      return [{ at, do: kind, ...makers[kind](prng) } as Step];
    },
  );
}

const isOfFailOver = (step: Step): boolean => step.do === 'keep' || step.do === 'goBack';

/** Another server takes over, whose clock differs by so much; all but the last moment is there. */
const failOverTo = (at: number, ms: number): Step[] => [
  { at, do: 'keep' },
  { at: at + 1, do: 'storeJump', ms },
  { at: at + 1, do: 'goBack', awayMs: 0 },
];

/** In a quarter of the histories streams are created that begin at an earlier event. */
function startsOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'starts');
  if (!prng.chance(1 / 4)) return [];
  return Array.from({ length: prng.between(1, 2) }, (): Step => {
    const at = prng.between(0, lengthMs);
    return { at, do: 'create', types: prng.some(types), start: number(prng) };
  });
}

/** In a third of the histories servers of names are slow, silent or flapping. */
function namesOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'names');
  if (!prng.chance(1 / 3)) return [];
  return Array.from({ length: prng.between(1, 6) }, (): Step => ({
    at: prng.between(0, lengthMs),
    do: 'names',
    ...makers.names(prng),
  }));
}

/** In half of the histories some stream is sent again what it was sent. */
function replaysOf(seed: number, lengthMs: number): Step[] {
  const prng = createPrng(seed, 'replays');
  if (prng.chance(0.5)) return [];
  return Array.from({ length: prng.between(1, 6) }, (): Step => {
    const doing = prng.chance(0.2) ? 'cancelReplay' : 'replay';
    return { at: prng.between(0, lengthMs), do: doing, ...makers[doing](prng) } as Step;
  });
}
