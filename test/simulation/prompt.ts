import { stretchOf } from './clocks.ts';
import { healthyMaxMs, boundsOf, outageMaxMs } from './deadlines.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Operator } from './operator.ts';
import { ownSchedule, type Plan, types } from './plan.ts';
import type { Process } from './process.ts';
import type { Simulation } from './simulation.ts';

/** Interval of the checks whether everything has arrived. */
const stepMs = 20;

/** Ownership no longer changes after a lease and this many polls and heartbeats without a fault. */
const settledRounds = 3;
const wrongMs = 3_600_000;

/**
 * Checks that an idle system without faults needs no polling: a fresh event, a retry, a test event and
 * what waited for a dismissal arrive as soon as they can be sent. Otherwise polling would hide a missing wake-up.
 */
export async function checkPrompt(
  simulation: Simulation,
  operator: Operator,
  processes: readonly Process[],
): Promise<void> {
  const { timeline, plan, oracle } = simulation;
  const { leaseMs, pollMs, heartbeatMs } = plan.settings;
  await timeline.runTo(timeline.nowMs + leaseMs + settledRounds * (pollMs + heartbeatMs));
  const enabled = oracle.existing().filter(({ counts }) => counts.enabled);
  const { promptMs, perEventMs } = boundsOf(plan);
  const boundMs = promptMs + (types.length + 1) * enabled.length * perEventMs;

  const arrives = (withinMs: number, what: string): Promise<void> =>
    allArrive(simulation, { streams: oracle.existing(), withinMs, what });
  for (const log of oracle.present()) operator.publish(types, log);
  await arrives(boundMs, 'a fresh event');
  simulation.setDefaultBehaviour('failsFirst');
  // Wall clocks that are an hour ahead while retries are planned change nothing.
  for (const process of processes) process.jumpClock(wrongMs);
  timeline.after(healthyMaxMs + plan.settings.settleMs, () => {
    for (const process of processes) process.jumpClock(-wrongMs);
  });
  for (const log of oracle.present()) operator.publish([types[0]], log);
  // The first attempt, its settlement, and the retry.
  const retryMs = firstDelayMs(plan) * stretchOf(plan) + outageMaxMs(plan);
  await arrives(2 * boundMs + retryMs, 'a retry');
  simulation.setDefaultBehaviour('healthy');
  for (const stream of enabled) operator.test(stream);
  await arrives(boundMs, 'a test event');
  simulation.setDefaultBehaviour('refusesAll');
  for (const log of oracle.present()) operator.publish([types[0]], log);
  await arrives(boundMs, 'a refused event');
  simulation.setDefaultBehaviour('healthy');
  for (const log of oracle.present()) operator.publish(types, log);
  await arrives(boundMs, 'an event behind no failure');
  const blocking = enabled.filter(blocks);
  // All that has waited since its failure.
  const held = blocking.reduce(
    (sum, { counts, log }) => sum + counts.rows.size + log.head - counts.cursor,
    0,
  );
  for (const stream of blocking) operator.dismissAll(stream);
  await arrives(boundMs + held * perEventMs, 'an event behind a dismissed failure');
}

/** Returns the longest wait of a stream after the first attempt. */
function firstDelayMs({ settings, delivery = [] }: Plan): number {
  const own = [settings.retry, ...delivery.map((options) => options?.retry)].flatMap(
    (retry) => ownSchedule(retry).delaysMs?.[0] ?? [],
  );
  return Math.max(settings.retryDelaysMs[0] ?? 0, ...own);
}

const blocks = ({ delivery }: SimulatedStream): boolean => delivery.onFailure === 'block';

/** Checks that everything that can be sent to these streams arrives within a time. */
export async function allArrive(
  simulation: Simulation,
  options: {
    readonly streams: readonly SimulatedStream[];
    readonly withinMs: number;
    readonly what: string;
  },
): Promise<void> {
  const { timeline, oracle } = simulation;
  const { streams, withinMs, what } = options;
  if (oracle.violation !== undefined) return;
  const endMs = timeline.nowMs + withinMs;
  const isWaiting = (): boolean =>
    streams.some((stream) => oracle.attempts.sendable(stream).length > 0);
  do await timeline.runTo(Math.min(endMs, timeline.nowMs + stepMs));
  while (timeline.nowMs < endMs && isWaiting());
  for (const stream of streams) {
    for (const key of oracle.attempts.sendable(stream)) {
      oracle.violate(
        'late',
        `${what} for ${stream.label}, ${key} is not there after ${withinMs} ms`,
      );
    }
  }
}
