/** Work on many items in slices, so that everything else has its turn in between. */

/** Characters or bytes of items that are worked on without a break: a few milliseconds. */
const sliceMax = 128 * 1024;

/** Who waits for a turn of the event loop: of the process, as the event loop is. */
const waiting: (() => void)[] = [];

/**
 * Lets everything else that is ready go first. Only one of all who wait goes on in a turn of the event
 * loop, so that slices of many requests together hold it no longer than one does.
 */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(nextTurn);
  });
}

function nextTurn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(nextTurn);
}

/** Work that pauses wherever everything else may have its turn. */
export type Slices<R> = Generator<void, R, void>;

/** Does work with a turn for everything else at each of its pauses. */
export async function inTurns<R>(steps: Slices<R>): Promise<R> {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    await yieldToEventLoop();
  }
}

/** Does work without a pause. */
export function atOnce<R>(steps: Slices<R>): R {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/**
 * Maps items in their order, with a break as often as enough of them were worked on. `sizeOf`
 * returns the characters or bytes of an item: before it is mapped, or of what it was mapped to.
 */
export async function mapInSlices<T, R>(
  items: readonly T[],
  map: (item: T) => R,
  sizeOf: (item: T, mapped: R) => number,
): Promise<R[]> {
  const all: R[] = [];
  let size = 0;
  for (const item of items) {
    if (size >= sliceMax) {
      await yieldToEventLoop();
      size = 0;
    }
    const mapped = map(item);
    all.push(mapped);
    size += sizeOf(item, mapped);
  }
  return all;
}
