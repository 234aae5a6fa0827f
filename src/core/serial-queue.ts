/** Work of which, under each key, one piece is done after the other. */
export interface KeyedSerialQueue {
  /** Does a piece of work when those of its key that came before have ended; settles as the work does. */
  run<R>(key: string, work: () => Promise<R>): Promise<R>;
  /** Resolves when no piece is under way. */
  idle(): Promise<void>;
}

export function createKeyedSerialQueue(): KeyedSerialQueue {
  /** The last piece of each key that has one. */
  const last = new Map<string, Promise<unknown>>();
  return {
    run: async (key, work) => {
      const before = last.get(key);
      const piece = before === undefined ? work() : before.then(work, work);
      last.set(key, piece);
      try {
        return await piece;
      } finally {
        if (last.get(key) === piece) last.delete(key);
      }
    },
    idle: async () => {
      while (last.size > 0) await Promise.allSettled(last.values());
    },
  };
}
