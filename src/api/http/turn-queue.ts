import { Counts } from '../../core/counts.ts';

/** A fair queue: runs few tasks at once, and takes the owners of waiting tasks in turns. */
export interface TurnQueue {
  /** Runs a task when its owner has its turn; settles as the task does. */
  run<R>(owner: number, task: () => Promise<R>): Promise<R>;
}

/** Tasks running at once: in total, and of one owner. */
export interface TurnLimits {
  readonly atOnce: number;
  readonly ofOwner: number;
}

/** Creates the queue: FIFO for each owner, round robin over the owners. */
export function createTurnQueue({ atOnce, ofOwner }: TurnLimits): TurnQueue {
  /** Owners in the order of their turns. */
  const waiting = new Map<number, (() => Promise<void>)[]>();
  const running = new Counts<number>();

  const startNext = (): void => {
    const owner = nextOwner(waiting, (id) => running.of(id) < ofOwner);
    if (owner === undefined || running.total >= atOnce) return;
    void start(owner, takeTask(waiting, owner));
  };
  const start = async (owner: number, task: () => Promise<void>): Promise<void> => {
    running.add(owner, 1);
    await task();
    running.add(owner, -1);
    startNext();
  };

  return {
    run: (owner, task) =>
      new Promise((resolve, reject) => {
        const tasks = waiting.get(owner) ?? [];
        tasks.push(() => task().then(resolve, reject));
        waiting.set(owner, tasks);
        // Every task that may run runs already, so at most one more can start, here and after each end.
        startNext();
      }),
  };
}

function nextOwner(
  waiting: ReadonlyMap<number, unknown>,
  mayStart: (owner: number) => boolean,
): number | undefined {
  for (const owner of waiting.keys()) if (mayStart(owner)) return owner;
  return undefined;
}

/** Takes the first task of an owner, which moves to the end of the queue. */
function takeTask<T>(waiting: Map<number, T[]>, owner: number): T {
  const tasks = waiting.get(owner) ?? [];
  const task = tasks.shift();
  if (task === undefined) throw new Error('An owner without a task has no turn.');
  waiting.delete(owner);
  if (tasks.length > 0) waiting.set(owner, tasks);
  return task;
}
