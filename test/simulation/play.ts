import { longestWaitMs } from '../../src/delivery/settings.ts';
import { calm, labelOf, type Entry, type Simulation } from './simulation.ts';
import { Deadlines } from './deadlines.ts';
import { createPrng } from './prng.ts';
import { createDisk, type Disk } from './disk.ts';
import { eventsOf, Oracle } from './oracle.ts';
import type { Line } from './line.ts';
import { checkEnd } from './ending.ts';
import { createOperator } from './operator.ts';
import type { Mood, Plan, Step, StepOf } from './plan.ts';
import { createTimeCheck, createWallClock, stretchOf } from './clocks.ts';
import { startProcess, type Process } from './process.ts';
import type { Broken } from './promises.ts';
import { createSharedStore } from './shared-store.ts';
import { createTimeline } from './timeline.ts';

/** What became of one history. */
export interface Outcome {
  readonly broken: Broken | undefined;
  /** Empty unless asked for. */
  readonly history: readonly Entry[];
  readonly events: number;
  readonly attempts: number;
  readonly virtualMs: number;
}

/** Plays one history from its plan; the same plan gives the same history. */
export async function play(
  plan: Plan,
  options: { readonly record?: boolean } = {},
): Promise<Outcome> {
  const history: Entry[] = [];
  const timeline = createTimeline();
  const diskPrng = createPrng(plan.seed, 'disk');
  const disk = createDisk({
    timeline,
    copy: () =>
      sharedStore.inTurn(async () => ({
        tables: sharedStore.snapshot(),
        state: oracle.snapshot(),
      })),
    roll: (max) => diskPrng.between(0, max),
  });
  const storeWall = createWallClock(timeline);
  const timeCheck = createTimeCheck(timeline);
  const sharedStore = await createSharedStore(
    { elapsedMs: () => timeline.nowMs, now: storeWall.now },
    disk.attach,
    plan.tenants ?? 1,
  );
  const now = (): number => {
    const time = sharedStore.store.time.now();
    const wrong = timeCheck.check(time, sharedStore.generation);
    if (wrong !== undefined) oracle.break('time', wrong);
    return time;
  };
  const setStoreWall = (step: StepOf<'storeJump' | 'storeStand'>): void => {
    if (step.do === 'storeJump') storeWall.jump(step.ms);
    else storeWall.stand(step.ms);
    timeCheck.wasSet();
    simulation.disturb();
    simulation.note(
      'store',
      `its wall clock ${step.do === 'storeJump' ? 'jumps by' : 'stands for'} ${step.ms} ms`,
    );
  };
  const repair = (): void => {
    storeWall.repair();
    timeCheck.wasSet();
    for (const process of processes) process.repair();
  };
  const stretch = stretchOf(plan);
  // A row that waits longer is due now.
  const waitMaxMs = longestWaitMs(plan.settings);
  let isCalm = false;
  let lullUntilMs = 0;
  let lullMood: Mood = 'well';
  let hanging = { isOf: (_: Line): boolean => false, what: 'receiver' };
  const isLull = (): boolean => isCalm || timeline.nowMs < lullUntilMs;
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
    weather: () => (isLull() ? calm : plan.weather),
    isStoreAway: () => !isLull() && timeline.nowMs < operator.storeAwayUntilMs,
    moodOf: (line) => {
      if (hanging.what === 'receiver' && hanging.isOf(line)) return 'hanging';
      return isLull() ? lullMood : (operator.moods.get(line) ?? 'well');
    },
    nameMoodOf: (line) => {
      if (hanging.what === 'name' && hanging.isOf(line)) return 'silent';
      return isLull() ? 'well' : (operator.nameMoods.get(line) ?? 'well');
    },
    setHanging: (isOf, what = 'receiver') => {
      hanging = { isOf, what };
    },
    setLullMood: (mood) => {
      lullMood = mood;
    },
    disturb: () => deadlines.disturb(),
    hinder: () => deadlines.hinder(),
    unwell: (line) => deadlines.unwell(line),
    note: (who, what) => {
      if (options.record === true && oracle.broken === undefined) {
        history.push({ atMs: timeline.nowMs, who, what });
      }
    },
    label: labelOf,
  };
  const deadlines = new Deadlines(simulation, processes);
  const operator = createOperator(simulation, () => processes);
  const starts = createStarts(simulation, processes, () => isCalm);

  for (let node = 0; node < plan.nodes; node += 1) starts.start(node, `n${node + 1}`);
  plan.streams.forEach((types, index) => operator.create(types, index));
  for (const step of plan.steps) {
    await timeline.runTo(step.at);
    if (oracle.broken !== undefined) break;
    starts.note(step);
    if (step.do === 'lull') {
      lullUntilMs = step.at + step.ms;
      simulation.note('world', `faults stop for ${step.ms} ms`);
      repair();
    } else if (step.do === 'storeJump' || step.do === 'storeStand') setStoreWall(step);
    else if (step.do === 'watchDisk') disk.arm();
    else if (step.do === 'powerCut') cutPower(simulation, disk, processes);
    else operator.act(step);
  }
  isCalm = true;
  simulation.note('world', 'faults stop');
  repair();
  await checkEnd(simulation, operator, processes);
  // Nothing happens any more: nobody lets the time go on.
  sharedStore.close();
  return {
    broken: oracle.broken,
    history,
    events: oracle.eventCount,
    attempts: oracle.attempts.count,
    virtualMs: timeline.nowMs,
  };
}

/** All processes end at once, and the store is what was on the disk. */
function cutPower(simulation: Simulation, disk: Disk, processes: readonly Process[]): void {
  const { sharedStore, oracle } = simulation;
  const left = disk.cut();
  if (left === undefined) return;
  simulation.note(
    'store',
    `the power is cut: ${oracle.eventCount} events, ${eventsOf(left.state)} on the disk`,
  );
  for (const process of processes) process.crash(0, 'before');
  void sharedStore.inTurn(() => {
    sharedStore.reopen(left.tables);
    oracle.cut(left.state);
    return Promise.resolve();
  });
}

/** How another process takes the place of one that ended. */
type Return = Pick<StepOf<'crash'>, 'awayMs' | 'renamed' | 'stumble'>;

const unplanned: Return = { awayMs: 0, renamed: false, stumble: undefined };

/** Starts a process wherever one has ended. */
function createStarts(simulation: Simulation, processes: Process[], isCalm: () => boolean) {
  const next = new Map<number, Return>();
  const start = (node: number, name: string): void => {
    processes[node] = startProcess(simulation, name, () => {
      const { awayMs, renamed, stumble } = next.get(node) ?? unplanned;
      simulation.timeline.after(isCalm() ? 0 : awayMs, () => {
        start(node, renamed ? `${name}'` : name);
        if (stumble !== undefined && !isCalm()) {
          processes[node]?.freeze(stumble.command, stumble.ms);
        }
      });
    });
  };
  return {
    start,
    /** How the process that a step ends is followed by another. */
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

/** Nothing holds a process or the store up for longer than the lease of a row lasts. */
function isPunctual({ steps, weather }: Plan): boolean {
  const delays: readonly Step['do'][] = [
    'jump',
    'freeze',
    'suspend',
    'storeAway',
    'storeJump',
    'storeStand',
    'names',
  ];
  return weather.slowMs <= 30 && !steps.some((step) => delays.includes(step.do));
}
