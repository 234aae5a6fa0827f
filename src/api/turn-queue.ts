/** Work that is done one piece at a time, the owners of waiting pieces in turns. */
export interface TurnQueue<T, R> {
  /** Does a piece of work when its owner has its turn; settles as the work does. */
  run(owner: number, piece: T): Promise<R>;
}

interface Waiting<T, R> {
  readonly piece: T;
  resolve(result: R | Promise<R>): void;
}

/** Creates the queue: first in, first out for each owner, and one piece of each owner after the other. */
export function createTurnQueue<T, R>(work: (piece: T) => Promise<R>): TurnQueue<T, R> {
  const owners = new Map<number, Waiting<T, R>[]>();
  let working = false;

  const workOff = async (): Promise<void> => {
    working = true;
    for (let next; (next = takeNext(owners)) !== undefined;) {
      const result = work(next.piece);
      next.resolve(result);
      // Whoever waits for the result hears of its failure.
      await result.catch(() => undefined);
    }
    working = false;
  };

  return {
    run: (owner, piece) =>
      new Promise((resolve) => {
        const waiting = owners.get(owner) ?? [];
        waiting.push({ piece, resolve });
        owners.set(owner, waiting);
        if (!working) void workOff();
      }),
  };
}

/** Takes the first piece of the owner whose turn it is; the owner goes to the end of the line. */
function takeNext<T>(owners: Map<number, T[]>): T | undefined {
  for (const [owner, waiting] of owners) {
    const next = waiting.shift();
    owners.delete(owner);
    if (waiting.length > 0) owners.set(owner, waiting);
    return next;
  }
  return undefined;
}
