import { parentPort, workerData } from 'node:worker_threads';
import { plant } from '../mutants/plant.ts';
import type { Plan } from './plan.ts';
import type { Counts, WorkerTask } from './search.ts';

/** A thread that plays the histories of many seeds, until one breaks a promise. */
const { seeds, fault } = workerData as WorkerTask;
if (fault !== undefined) plant(fault);
const { play } = await import('./play.ts');
const { planOf } = await import('./plan.ts');

/** Told so often, for a progress bar. */
const reportEvery = 20;

let counts = { histories: 0, events: 0, attempts: 0, virtualMs: 0 };
const emit = (broken?: Counts['broken']): void => {
  const message: Counts = { ...counts, broken };
  // The rule takes the port of a thread for a window of a browser.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  parentPort?.postMessage(message);
  counts = { histories: 0, events: 0, attempts: 0, virtualMs: 0 };
};
/** False when a promise was broken. */
const playOne = async (plan: Plan): Promise<boolean> => {
  const { broken, events, attempts, virtualMs } = await play(plan);
  counts.histories += 1;
  counts.events += events;
  counts.attempts += attempts;
  counts.virtualMs += virtualMs;
  if (broken !== undefined) emit({ seed: plan.seed, promise: broken.promise });
  return broken === undefined;
};
if ('settings' in seeds) await playOne(seeds);
else {
  for (let seed = seeds.from; seed < seeds.to; seed += seeds.step) {
    if (!(await playOne(planOf(seed)))) break;
    if (counts.histories >= reportEvery) emit();
  }
}
emit();
