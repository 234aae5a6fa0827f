import { boundsOf } from './deadlines.ts';
import { createPrng } from './prng.ts';
import { isOrdered } from './order.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import { nameUsableMs } from './names.ts';
import type { Operator } from './operator.ts';
import { types } from './plan.ts';
import { allArrive } from './prompt.ts';
import type { Simulation } from './simulation.ts';

/** Quick attempts that outweigh any slow ones before. */
const warmUpEvents = 32;
/** More than the slots of a node. */
const backlogEvents = 20;
/** Events are measured at once, and again after the hanging attempts have timed out. */
const rounds = 2;
/** With fewer slots no quarter is reserved; see `shares.ts`. */
const quarterSlotsMin = 4;

/**
 * In a third of the histories receivers hang at the end: first those of one tenant, while the streams
 * of the others must receive events as fast as without them; then all but one of a tenant.
 */
export async function checkNeighbours(simulation: Simulation, operator: Operator): Promise<void> {
  const { plan, oracle } = simulation;
  if (!createPrng(plan.seed, 'neighbours').chance(1 / 3)) return;
  await warmUp(simulation, operator);
  const [greedy, ...others] = oracle.present();
  if (greedy !== undefined && others.length > 0) {
    const isGreedy = ({ log }: SimulatedStream): boolean => log === greedy;
    await measure(simulation, operator, isGreedy, { where: 'while another tenant hangs' });
    await warmUp(simulation, operator);
    // Every cached name has expired.
    await simulation.timeline.runTo(simulation.timeline.nowMs + nameUsableMs);
    await measure(simulation, operator, isGreedy, {
      where: 'while name servers are silent',
      what: 'name',
    });
    await warmUp(simulation, operator);
  }
  const { concurrency, parkAfterMs, attemptTimeoutMs } = plan.settings;
  // A single hanging attempt makes the average of a quick stream slow.
  const isNoticed = parkAfterMs < attemptTimeoutMs / 8;
  const [quick] = enabledStreams(simulation);
  if (quick === undefined || concurrency < quarterSlotsMin || !isNoticed) return;
  // Of more streams that hang the first attempts alone would use all slots until the next retries.
  const slow = oracle
    .existing()
    .filter((stream) => stream.log === quick.log && stream !== quick)
    .slice(0, 2 * concurrency - 1);
  await measure(simulation, operator, (stream) => slow.includes(stream), {
    where: 'while other streams of its tenant hang',
    pauseMs: attemptTimeoutMs,
  });
}

const enabledStreams = ({ oracle }: Simulation): SimulatedStream[] =>
  oracle.existing().filter(({ counts }) => counts.enabled);

/** Gives every stream recent quick attempts. */
async function warmUp(simulation: Simulation, operator: Operator): Promise<void> {
  const { oracle, plan } = simulation;
  const many = Array.from({ length: warmUpEvents }, () => types).flat();
  for (const log of oracle.present()) operator.publish(many, log);
  const { recoverMs, perEventMs } = boundsOf(plan);
  const streams = oracle.existing();
  const withinMs = recoverMs + streams.length * many.length * perEventMs;
  await allArrive(simulation, {
    streams,
    withinMs,
    what: 'an event that makes its stream quick again',
  });
}

/** Checks that a fresh event reaches the other streams in time while some hang. */
async function measure(
  simulation: Simulation,
  operator: Operator,
  hangs: (stream: SimulatedStream) => boolean,
  options: {
    readonly where: string;
    readonly what?: 'receiver' | 'name';
    /** Time before the first event is measured. */
    readonly pauseMs?: number;
  },
): Promise<void> {
  const { where, what, pauseMs = 0 } = options;
  const { timeline, oracle, plan } = simulation;
  const { promptMs, perEventMs } = boundsOf(plan);
  const { attemptTimeoutMs, settleMs } = plan.settings;
  const hanging = oracle.existing().filter(hangs);
  // Events of one key wait for each other, so that the time of a single one says nothing.
  const measured = (stream: SimulatedStream): boolean => !hangs(stream) && !isOrdered(stream);
  const streams = enabledStreams(simulation).filter(measured);
  if (hanging.length === 0 || streams.length === 0) return;
  simulation.note('simulation', `${hanging.map(({ label }) => label).join(', ')} hang`);
  simulation.setHanging(hangs, what);
  const backlog = Array.from({ length: backlogEvents }, () => types).flat();
  for (const log of new Set(hanging.map((stream) => stream.log))) operator.publish(backlog, log);
  // Other streams of the same tenant receive the backlog, too.
  const own = streams.filter(({ log }) => hanging.some((stream) => stream.log === log));
  const firstMs = own.length * backlog.length * perEventMs + pauseMs;
  await timeline.runTo(timeline.nowMs + firstMs + (pauseMs > 0 ? attemptTimeoutMs : 0));
  for (let round = 0; round < rounds && oracle.violation === undefined; round += 1) {
    for (const log of new Set(streams.map((stream) => stream.log))) operator.publish(types, log);
    const withinMs = promptMs + (types.length + 1) * streams.length * perEventMs;
    await allArrive(simulation, { streams, withinMs, what: `a fresh event ${where}` });
    await timeline.runTo(timeline.nowMs + attemptTimeoutMs + settleMs);
  }
  simulation.setHanging(() => false);
}
