import { longestWaitMs } from '../../src/delivery/settings.ts';
import { noFaults, labelOf, type Entry, type Simulation } from './simulation.ts';
import { Deadlines } from './deadlines.ts';
import { createPrng } from './prng.ts';
import { createDisk, type Disk } from './disk.ts';
import { eventsOf, Oracle } from './oracle.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import { checkEnd } from './ending.ts';
import { checkEventStates } from './event-states.ts';
import { createOperator } from './operator.ts';
import type { ReceiverBehaviour, Plan, Step, StepOf } from './plan.ts';
import { createTimeCheck, createWallClock, stretchOf } from './clocks.ts';
import { startProcess, type Process } from './process.ts';
import type { Violation } from './guarantees.ts';
import { createSharedStore } from './shared-store.ts';
import { createTimeline } from './timeline.ts';

/** Share of the steps before which the states of some events are checked. */
const checkedShare = 0.1;

/** The result of one history. */
export interface Outcome {
  readonly violation: Violation | undefined;
  /** Empty unless requested with `record`. */
  readonly history: readonly Entry[];
  readonly events: number;
  readonly attempts: number;
  readonly virtualMs: number;
}

/**
 * Plays one history from its plan; the same plan gives the same history. `stepped` is called before each
 * step: what calls it no more is stuck in one.
 */
export async function play(
  plan: Plan,
  options: { readonly record?: boolean; readonly stepped?: () => void } = {},
): Promise<Outcome> {
  const history: Entry[] = [];
  const timeline = createTimeline(options.stepped);
  const diskPrng = createPrng(plan.seed, 'disk');
  const statesPrng = createPrng(plan.seed, 'states');
  const disk = createDisk({
    timeline,
    copy: () =>
      sharedStore.exclusive(async () => ({
        tables: sharedStore.snapshot(),
        state: oracle.snapshot(),
      })),
    roll: (max) => diskPrng.between(0, max),
  });
  const storeWall = createWallClock(timeline);
  const timeCheck = createTimeCheck(timeline);
  const sharedStore = await createSharedStore(
    { elapsedMs: () => timeline.nowMs, now: storeWall.now, after: timeline.after },
    disk.attach,
    plan.tenants ?? 1,
  );
  const now = (): number => {
    const time = sharedStore.store.time.now();
    const wrong = timeCheck.check(time, sharedStore.generation);
    if (wrong !== undefined) oracle.violate('time', wrong);
    return time;
  };
  const setStoreWall = (step: StepOf<'jumpStoreClock' | 'stopStoreClock'>): void => {
    if (step.do === 'jumpStoreClock') storeWall.jump(step.ms);
    else storeWall.stop(step.ms);
    timeCheck.wasSet();
    simulation.noteFault();
    simulation.note(
      'store',
      `its wall clock ${step.do === 'jumpStoreClock' ? 'jumps by' : 'stops for'} ${step.ms} ms`,
    );
  };
  const repair = (): void => {
    storeWall.repair();
    timeCheck.wasSet();
    for (const process of processes) process.repair();
  };
  const stretch = stretchOf(plan);
  // A row with a longer wait is due at once.
  const waitMaxMs = longestWaitMs(plan.settings);
  let isCalm = false;
  let pausedUntilMs = 0;
  let defaultBehaviour: ReceiverBehaviour = 'healthy';
  let hanging = { isOf: (_: SimulatedStream): boolean => false, what: 'receiver' };
  const areFaultsPaused = (): boolean => isCalm || timeline.nowMs < pausedUntilMs;
  const oracle = new Oracle({
    sharedStore,
    settings: plan.settings,
    isPunctual: isPunctual(plan),
    lagMaxMs: plan.upkeep?.lagMaxMs ?? Infinity,
    nowMs: () => timeline.nowMs,
    now,
  });
  sharedStore.watchLog((tenant, events) => oracle.appended(tenant, events));
  const processes: Process[] = [];
  const simulation: Simulation = {
    plan,
    timeline,
    sharedStore,
    oracle,
    upkeepLease: { leader: undefined, untilMs: 0 },
    now,
    clockDelayMs: (waitMs) => waitMs * (stretch - 1) + Math.min(timeCheck.setBackMs, waitMaxMs),
    faultRates: () => (areFaultsPaused() ? noFaults : plan.faultRates),
    isStoreDown: () => !areFaultsPaused() && timeline.nowMs < operator.storeDownUntilMs,
    behaviourOf: (stream) => {
      if (hanging.what === 'receiver' && hanging.isOf(stream)) return 'hanging';
      return areFaultsPaused() ? defaultBehaviour : (operator.behaviours.get(stream) ?? 'healthy');
    },
    nameServerBehaviourOf: (stream) => {
      if (hanging.what === 'name' && hanging.isOf(stream)) return 'silent';
      return areFaultsPaused()
        ? 'healthy'
        : (operator.nameServerBehaviours.get(stream) ?? 'healthy');
    },
    setHanging: (isOf, what = 'receiver') => {
      hanging = { isOf, what };
    },
    setDefaultBehaviour: (behaviour) => {
      defaultBehaviour = behaviour;
    },
    noteFault: () => deadlines.noteFault(),
    noteDelay: () => deadlines.noteDelay(),
    noteUnhealthy: (stream) => deadlines.noteUnhealthy(stream),
    note: (who, what) => {
      if (options.record === true && oracle.violation === undefined) {
        history.push({ atMs: timeline.nowMs, who, what });
      }
    },
    label: labelOf,
  };
  const deadlines = new Deadlines(simulation, processes);
  const operator = createOperator(simulation, () => processes);
  const starts = createStarts(simulation, processes, () => isCalm);

  for (let node = 0; node < plan.nodes; node += 1) starts.start(node, `n${node + 1}`);
  plan.streams.forEach((types, index) => operator.create(types, index, plan.delivery?.[index]));
  for (const step of plan.steps) {
    await timeline.runTo(step.at);
    if (statesPrng.chance(checkedShare)) await checkEventStates(simulation, statesPrng);
    if (oracle.violation !== undefined) break;
    starts.note(step);
    if (step.do === 'pauseFaults') {
      pausedUntilMs = step.at + step.ms;
      simulation.note('simulation', `faults stop for ${step.ms} ms`);
      repair();
    } else if (step.do === 'jumpStoreClock' || step.do === 'stopStoreClock') setStoreWall(step);
    else if (step.do === 'recordDisk') disk.arm();
    else if (step.do === 'powerCut') cutPower(simulation, disk, processes);
    else operator.act(step);
  }
  isCalm = true;
  simulation.note('simulation', 'faults stop');
  repair();
  await checkEnd(simulation, operator, processes);
  await checkEventStates(simulation, statesPrng);
  // The timeline no longer advances, so nothing uses the store.
  sharedStore.close();
  return {
    violation: oracle.violation,
    history,
    events: oracle.eventCount,
    attempts: oracle.attempts.count,
    virtualMs: timeline.nowMs,
  };
}

/** Ends all processes at once and resets the store to the contents of the disk. */
function cutPower(simulation: Simulation, disk: Disk, processes: readonly Process[]): void {
  const { sharedStore, oracle } = simulation;
  const left = disk.cut();
  if (left === undefined) return;
  simulation.note(
    'store',
    `the power is cut: ${oracle.eventCount} events, ${eventsOf(left.state)} on the disk`,
  );
  for (const process of processes) process.crash(0, 'before');
  void sharedStore.exclusive(() => {
    sharedStore.reopen(left.tables);
    oracle.cut(left.state);
    return Promise.resolve();
  });
}

/** How another process replaces one that ended. */
type Return = Pick<StepOf<'crash'>, 'awayMs' | 'renamed' | 'freezeAtStart'>;

const unplanned: Return = { awayMs: 0, renamed: false, freezeAtStart: undefined };

/** Returns the starts of processes: at the beginning, and after each end of one. */
function createStarts(simulation: Simulation, processes: Process[], isCalm: () => boolean) {
  const next = new Map<number, Return>();
  const start = (node: number, name: string): void => {
    processes[node] = startProcess(simulation, name, () => {
      const { awayMs, renamed, freezeAtStart } = next.get(node) ?? unplanned;
      simulation.timeline.after(isCalm() ? 0 : awayMs, () => {
        start(node, renamed ? `${name}'` : name);
        if (freezeAtStart !== undefined && !isCalm()) {
          processes[node]?.freeze(freezeAtStart.command, freezeAtStart.ms);
        }
      });
    });
  };
  return {
    start,
    /** Notes how the process that this step ends is replaced. */
    note: (step: Step): void => {
      if (step.do === 'crash') next.set(step.node % processes.length, step);
      if (step.do === 'powerCut') {
        for (const node of processes.keys()) {
          next.set(node, { ...unplanned, awayMs: step.awayMs });
        }
      }
      if (step.do === 'leave') {
        next.set(step.node % processes.length, { ...unplanned, awayMs: step.awayMs });
      }
    },
  };
}

/** Returns whether no fault of a plan delays a process or the store for longer than the lease of a row. */
function isPunctual({ steps, faultRates }: Plan): boolean {
  const delays: readonly Step['do'][] = [
    'jumpClock',
    'freeze',
    'suspend',
    'storeOutage',
    'jumpStoreClock',
    'stopStoreClock',
    'changeNameServer',
  ];
  return faultRates.slowMs <= 30 && !steps.some((step) => delays.includes(step.do));
}
