import { parentPort, workerData } from 'node:worker_threads';
import { plant } from '../mutants/plant.ts';
import type { Plan } from './plan.ts';
import type { Counts, WorkerTask } from './search.ts';

/** A thread that plays the histories of many seeds, until one violates a guarantee. */
const { seeds, fault, seen } = workerData as WorkerTask;
if (fault !== undefined) plant(fault);
const { play } = await import('./play.ts');
const { planOf } = await import('./plan.ts');

/** Histories between two reports to the progress bar. */
const reportEvery = 20;

let counts = { histories: 0, events: 0, attempts: 0, virtualMs: 0 };
const emit = (violation?: Counts['violation']): void => {
  const message: Counts = { ...counts, violation };
  // The rule mistakes the port of a thread for a browser window.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  parentPort?.postMessage(message);
  counts = { histories: 0, events: 0, attempts: 0, virtualMs: 0 };
};
/** Returns false when a guarantee was violated. */
const playOne = async (plan: Plan): Promise<boolean> => {
  seen[0] = plan.seed;
  const stepped = (): void => void Atomics.add(seen, 1, 1);
  const { violation, events, attempts, virtualMs } = await play(plan, { stepped });
  counts.histories += 1;
  counts.events += events;
  counts.attempts += attempts;
  counts.virtualMs += virtualMs;
  if (violation !== undefined) emit({ seed: plan.seed, guarantee: violation.guarantee });
  return violation === undefined;
};
if ('settings' in seeds) await playOne(seeds);
else {
  for (let seed = seeds.from; seed < seeds.to; seed += seeds.step) {
    if (!(await playOne(planOf(seed)))) break;
    if (counts.histories >= reportEvery) emit();
  }
}
emit();
