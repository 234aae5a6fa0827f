/** Runs one task at a time, in the order of the calls; settles as the task does. */
export type SerialQueue = <R>(task: () => Promise<R>) => Promise<R>;

/** Creates a queue. A failed task does not block it: the caller of that task receives the rejection. */
export function createSerialQueue(): SerialQueue {
  let last: Promise<unknown> = Promise.resolve();
  return (task) => {
    const result = last.then(task);
    last = result.catch(() => undefined);
    return result;
  };
}

/** Runs one task at a time under each key, in the order of the calls. */
export interface KeyedSerialQueue {
  /** Runs a task after the earlier ones of its key; settles as the task does. */
  run<R>(key: string, task: () => Promise<R>): Promise<R>;
  /** Resolves when no task is running. */
  idle(): Promise<void>;
}

/** Creates a keyed queue. Tasks of different keys run at the same time. */
export function createKeyedSerialQueue(): KeyedSerialQueue {
  /** The last task of each key that has one. */
  const last = new Map<string, Promise<unknown>>();
  return {
    run: async (key, task) => {
      const before = last.get(key);
      const result = before === undefined ? task() : before.then(task, task);
      last.set(key, result);
      try {
        return await result;
      } finally {
        if (last.get(key) === result) last.delete(key);
      }
    },
    idle: async () => {
      while (last.size > 0) await Promise.allSettled(last.values());
    },
  };
}
