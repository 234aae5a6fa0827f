import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Plan } from './plan.ts';
import type { GuaranteeName } from './guarantees.ts';

/** Histories that a thread has played since its last report. */
export interface Counts {
  readonly histories: number;
  readonly events: number;
  readonly attempts: number;
  readonly virtualMs: number;
  /** The seed of the last history and the guarantee that it violated, if it did. */
  readonly violation?: { readonly seed: number; readonly guarantee: GuaranteeName } | undefined;
}

export interface WorkerTask {
  /** Seeds to play, or one plan. */
  readonly seeds: { readonly from: number; readonly to: number; readonly step: number } | Plan;
  /** A mutant to apply first, see mutations.ts. */
  readonly fault?: string | undefined;
}

export interface SearchOptions {
  /** The first seed, and the one after the last. */
  readonly from: number;
  readonly to: number;
  readonly threads: number;
  readonly fault?: string | undefined;
  /** Receives the sum so far. */
  readonly progress?: ((sum: Counts) => void) | undefined;
}

/** Plays one plan in a thread of its own, with a fault in the engine. */
export async function playWithFault(plan: Plan, fault: string): Promise<Counts> {
  const task: WorkerTask = { seeds: plan, fault };
  const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: task });
  const [counts] = (await once(worker, 'message')) as [Counts];
  await worker.terminate();
  return counts;
}

/** Plays the histories of all seeds, or until one violates a guarantee. */
export async function search({
  from,
  to,
  threads,
  fault,
  progress,
}: SearchOptions): Promise<Counts> {
  let sum: Counts = { histories: 0, events: 0, attempts: 0, virtualMs: 0 };
  const workers = Array.from({ length: threads }, (_, index) => {
    const task: WorkerTask = { seeds: { from: from + index, to, step: threads }, fault };
    return new Worker(new URL('worker.ts', import.meta.url), { workerData: task });
  });
  const stopOthers = (): void => {
    for (const worker of workers) void worker.terminate();
  };
  await Promise.all(
    workers.map(async (worker) => {
      worker.on('message', (counts: Counts) => {
        if (sum.violation !== undefined) return;
        sum = added(sum, counts);
        progress?.(sum);
        if (counts.violation !== undefined) stopOthers();
      });
      await once(worker, 'exit');
    }),
  );
  return sum;
}

function added(one: Counts, other: Counts): Counts {
  return {
    histories: one.histories + other.histories,
    events: one.events + other.events,
    attempts: one.attempts + other.attempts,
    virtualMs: one.virtualMs + other.virtualMs,
    violation: other.violation,
  };
}
