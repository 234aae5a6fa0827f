/** Work of which little is done at once, the owners of waiting pieces in turns. */
export interface TurnQueue {
  /** Does a piece of work when its owner has its turn; settles as the work does. */
  run<R>(owner: number, work: () => Promise<R>): Promise<R>;
}

/** Pieces under way at once: in total, and of one owner. */
export interface TurnLimits {
  readonly atOnce: number;
  readonly ofOwner: number;
}

/** Creates the queue: first in, first out for each owner, and the owners one after the other. */
export function createTurnQueue({ atOnce, ofOwner }: TurnLimits): TurnQueue {
  /** Owners in the order of their turns. */
  const waiting = new Map<number, (() => Promise<void>)[]>();
  const underWay = new Map<number, number>();
  let total = 0;

  const startNext = (): void => {
    const owner = nextOwner(waiting, (id) => (underWay.get(id) ?? 0) < ofOwner);
    if (owner === undefined || total >= atOnce) return;
    void start(owner, takePiece(waiting, owner));
  };
  const start = async (owner: number, piece: () => Promise<void>): Promise<void> => {
    total += 1;
    underWay.set(owner, (underWay.get(owner) ?? 0) + 1);
    await piece();
    total -= 1;
    const left = (underWay.get(owner) ?? 1) - 1;
    if (left === 0) underWay.delete(owner);
    else underWay.set(owner, left);
    startNext();
  };

  return {
    run: (owner, work) =>
      new Promise((resolve, reject) => {
        const pieces = waiting.get(owner) ?? [];
        pieces.push(() => work().then(resolve, reject));
        waiting.set(owner, pieces);
        // As many as may start did so before: this is one more at most, and so is one that ends.
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

/** Takes the first piece of an owner, who goes to the end of the line. */
function takePiece<T>(waiting: Map<number, T[]>, owner: number): T {
  const pieces = waiting.get(owner) ?? [];
  const piece = pieces.shift();
  if (piece === undefined) throw new Error('An owner without a piece has no turn.');
  waiting.delete(owner);
  if (pieces.length > 0) waiting.set(owner, pieces);
  return piece;
}
