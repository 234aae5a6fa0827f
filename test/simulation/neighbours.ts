import { boundsOf } from './deadlines.ts';
import { createPrng } from './prng.ts';
import type { Line } from './line.ts';
import { nameUsableMs } from './names.ts';
import type { Operator } from './operator.ts';
import { types } from './plan.ts';
import { allArrive } from './prompt.ts';
import type { Simulation } from './simulation.ts';

/** So many quick attempts make up for whatever was slow before. */
const warmUpEvents = 32;
/** More than a node has slots for. */
const backlogEvents = 20;
/** Events are measured at once, and when attempts have timed out and others have begun. */
const rounds = 2;
/** With fewer slots there is no quarter to be kept; see `shares.ts`. */
const quarterSlotsMin = 4;

/**
 * In a third of the histories receivers hang at their end: those of one tenant, while the others have
 * to get what is published within the time that it takes them alone; then all but one of a tenant.
 */
export async function checkNeighbours(simulation: Simulation, operator: Operator): Promise<void> {
  const { plan, oracle } = simulation;
  if (!createPrng(plan.seed, 'neighbours').chance(1 / 3)) return;
  await warmUp(simulation, operator);
  const [greedy, ...others] = oracle.logs;
  if (greedy !== undefined && others.length > 0) {
    const isGreedy = ({ log }: Line): boolean => log === greedy;
    await measure(simulation, operator, isGreedy, { where: 'beside a tenant that hangs' });
    await warmUp(simulation, operator);
    // No name is known any more.
    await simulation.timeline.runTo(simulation.timeline.nowMs + nameUsableMs);
    await measure(simulation, operator, isGreedy, {
      where: 'beside names that are silent',
      what: 'name',
    });
    await warmUp(simulation, operator);
  }
  const { concurrency, parkAfterMs, attemptTimeoutMs } = plan.settings;
  // One attempt that hangs makes the average of a quick stream slow.
  const isNoticed = parkAfterMs < attemptTimeoutMs / 8;
  const [quick] = enabledLines(simulation);
  if (quick === undefined || concurrency < quarterSlotsMin || !isNoticed) return;
  const isSlow = (line: Line): boolean => line.log === quick.log && line !== quick;
  await measure(simulation, operator, isSlow, {
    where: 'beside streams of its tenant that hang',
    pauseMs: attemptTimeoutMs,
  });
}

const enabledLines = ({ oracle }: Simulation): Line[] =>
  oracle.living().filter(({ counts }) => counts.enabled);

/** Every stream has recent attempts, which were quick. */
async function warmUp(simulation: Simulation, operator: Operator): Promise<void> {
  const { oracle, plan } = simulation;
  const many = Array.from({ length: warmUpEvents }, () => types).flat();
  for (const log of oracle.logs) operator.publish(many, log);
  const { recoverMs, perEventMs } = boundsOf(plan.settings);
  const lines = oracle.living();
  const withinMs = recoverMs + lines.length * many.length * perEventMs;
  await allArrive(simulation, { lines, withinMs, what: 'an event for each to be quick again' });
}

/** While some streams hang, the others get a fresh event each as soon as they would alone. */
async function measure(
  simulation: Simulation,
  operator: Operator,
  hangs: (line: Line) => boolean,
  options: {
    readonly where: string;
    readonly what?: 'receiver' | 'name';
    /** Passes before the first event is measured. */
    readonly pauseMs?: number;
  },
): Promise<void> {
  const { where, what, pauseMs = 0 } = options;
  const { timeline, oracle, plan } = simulation;
  const { promptMs, perEventMs } = boundsOf(plan.settings);
  const { attemptTimeoutMs, settleMs } = plan.settings;
  const hanging = oracle.living().filter(hangs);
  const lines = enabledLines(simulation).filter((line) => !hangs(line));
  if (hanging.length === 0 || lines.length === 0) return;
  simulation.note('world', `${hanging.map(({ label }) => label).join(', ')} hang`);
  simulation.setHanging(hangs, what);
  const backlog = Array.from({ length: backlogEvents }, () => types).flat();
  for (const log of new Set(hanging.map((line) => line.log))) operator.publish(backlog, log);
  // What is published to those that hang is for the others of their tenant, too.
  const own = lines.filter(({ log }) => hanging.some((line) => line.log === log));
  const firstMs = own.length * backlog.length * perEventMs + pauseMs;
  await timeline.runTo(timeline.nowMs + firstMs + (pauseMs > 0 ? attemptTimeoutMs : 0));
  for (let round = 0; round < rounds && oracle.broken === undefined; round += 1) {
    for (const log of new Set(lines.map((line) => line.log))) operator.publish(types, log);
    const withinMs = promptMs + (types.length + 1) * lines.length * perEventMs;
    await allArrive(simulation, { lines, withinMs, what: `a fresh event ${where}` });
    await timeline.runTo(timeline.nowMs + attemptTimeoutMs + settleMs);
  }
  simulation.setHanging(() => false);
}
