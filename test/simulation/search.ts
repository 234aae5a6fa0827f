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
  /** Shared: the seed that is being played, and how many steps have begun. */
  readonly seen: Int32Array;
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
  const found = Promise.withResolvers<Counts>();
  const end = watch({ seeds: plan, fault }, found.resolve);
  const counts = await found.promise;
  await end();
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
  let sum = nothing;
  const ended = Array.from({ length: threads }, () => Promise.withResolvers<void>());
  const ends = ended.map(({ resolve }, index) =>
    watch(
      { seeds: { from: from + index, to, step: threads }, fault },
      (counts) => {
        if (sum.violation !== undefined) return;
        sum = added(sum, counts);
        progress?.(sum);
        if (counts.violation !== undefined) for (const end of ends) void end();
      },
      resolve,
    ),
  );
  await Promise.all(ended.map(({ promise }) => promise));
  return sum;
}

const nothing: Counts = { histories: 0, events: 0, attempts: 0, virtualMs: 0 };

/** How often the steps of a thread are looked at; a step takes milliseconds. */
const pollMs = 1000;
/** So many times without another step mean that the present one never ends. */
const stuckPolls = 60;

/**
 * Starts a thread for a task, and tells of a history that is stuck in one step, which a thread cannot do
 * itself. Polls are counted and not time: the machine may be suspended. Returns how to end the thread.
 */
function watch(
  task: Omit<WorkerTask, 'seen'>,
  report: (counts: Counts) => void,
  ended?: () => void,
): () => Promise<void> {
  const seen = new Int32Array(new SharedArrayBuffer(8));
  const workerData: WorkerTask = { ...task, seen };
  const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData });
  let [steps, polls] = [0, 0];
  const timer = setInterval(() => {
    const present = Atomics.load(seen, 1);
    polls = present === steps ? polls + 1 : 0;
    steps = present;
    if (polls < stuckPolls) return;
    report({ ...nothing, violation: { seed: seen[0] ?? 0, guarantee: 'ends' } });
    void worker.terminate();
  }, pollMs);
  worker.on('message', report);
  worker.on('exit', () => {
    clearInterval(timer);
    ended?.();
  });
  return async () => void (await worker.terminate());
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
