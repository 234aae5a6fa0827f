/** Whether an event loop stands still, judged by a thread that looks once a second. */

/** Ticks of a thread since the last beat of an event loop. */
export interface Standstill {
  /** The beats that were counted at the last tick. */
  readonly beats: number;
  /** Ticks without a beat. */
  readonly ticks: number;
  /** Those of {@link ticks} in which the process used processor time. */
  readonly busyTicks: number;
}

/** An event loop that has just been seen to move. */
export function movingAt(beats: number): Standstill {
  return { beats, ticks: 0, busyTicks: 0 };
}

/**
 * Processor time of the whole process in a tick from which on it is busy. A loop uses all that it gets,
 * on a crowded machine a fraction of a core. While the main thread waits for a disk, the others have
 * nothing to do.
 */
const busyMs = 20;

/** Returns the state after a tick of one second. */
export function afterTick(
  { beats: former, ticks, busyTicks }: Standstill,
  { beats, processorMs }: { readonly beats: number; readonly processorMs: number },
): Standstill {
  if (beats !== former) return movingAt(beats);
  return { beats, ticks: ticks + 1, busyTicks: busyTicks + (processorMs >= busyMs ? 1 : 0) };
}

/**
 * Returns what the state calls for. `end`: it computes without an end, and only the end of the process
 * helps. `warn`, once: it waits for something outside of the process, which may come yet.
 */
export function actionFor(
  { ticks, busyTicks }: Standstill,
  ticksMax: number,
): 'end' | 'warn' | undefined {
  if (busyTicks >= ticksMax) return 'end';
  return ticks === ticksMax ? 'warn' : undefined;
}
