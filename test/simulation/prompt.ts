import { stretchOf } from './clocks.ts';
import { wellMaxMs, boundsOf } from './deadlines.ts';
import type { Line } from './line.ts';
import type { Operator } from './operator.ts';
import { types } from './plan.ts';
import type { Process } from './process.ts';
import type { Simulation } from './simulation.ts';

/** How often it is checked whether all has arrived. */
const stepMs = 20;

/** Streams change hands no more after a lease and so many polls and heartbeats without a fault. */
const settledRounds = 3;
const wrongMs = 3_600_000;

/**
 * At rest and without faults nothing has to be polled for: a fresh event, a retry and a test event
 * arrive as soon as they can be sent. A wake-up that is not made is hidden by polling otherwise.
 */
export async function checkPrompt(
  simulation: Simulation,
  operator: Operator,
  processes: readonly Process[],
): Promise<void> {
  const { timeline, plan, oracle } = simulation;
  const { leaseMs, pollMs, heartbeatMs, retryDelaysMs } = plan.settings;
  await timeline.runTo(timeline.nowMs + leaseMs + settledRounds * (pollMs + heartbeatMs));
  const enabled = oracle.living().filter(({ counts }) => counts.enabled);
  const { promptMs, perEventMs } = boundsOf(plan.settings);
  const boundMs = promptMs + (types.length + 1) * enabled.length * perEventMs;

  const arrives = (withinMs: number, what: string): Promise<void> =>
    allArrive(simulation, { lines: oracle.living(), withinMs, what });
  for (const log of oracle.logs) operator.publish(types, log);
  await arrives(boundMs, 'a fresh event');
  simulation.setLullMood('hesitant');
  // Wall clocks that are an hour ahead while retries are planned change nothing.
  for (const process of processes) process.jump(wrongMs);
  timeline.after(wellMaxMs + plan.settings.settleMs, () => {
    for (const process of processes) process.jump(-wrongMs);
  });
  for (const log of oracle.logs) operator.publish([types[0]], log);
  // The first attempt, its settlement, and the retry.
  await arrives(2 * boundMs + (retryDelaysMs[0] ?? 0) * stretchOf(plan), 'a retry');
  simulation.setLullMood('well');
  for (const line of enabled) operator.test(line);
  await arrives(boundMs, 'a test event');
}

/** Lets the time go on until all has arrived that can be sent to these streams, in the given time. */
export async function allArrive(
  simulation: Simulation,
  options: { readonly lines: readonly Line[]; readonly withinMs: number; readonly what: string },
): Promise<void> {
  const { timeline, oracle } = simulation;
  const { lines, withinMs, what } = options;
  if (oracle.broken !== undefined) return;
  const endMs = timeline.nowMs + withinMs;
  const isOwed = (): boolean => lines.some((line) => oracle.attempts.owed(line).length > 0);
  do await timeline.runTo(Math.min(endMs, timeline.nowMs + stepMs));
  while (timeline.nowMs < endMs && isOwed());
  for (const line of lines) {
    for (const key of oracle.attempts.owed(line)) {
      oracle.break('late', `${what} for ${line.label}, ${key} is not there after ${withinMs} ms`);
    }
  }
}
