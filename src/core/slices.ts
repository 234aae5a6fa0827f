/** Work on many items in slices, so that everything else has its turn in between. */

/** Characters or bytes of items that are worked on without a break: a few milliseconds. */
const sliceMax = 128 * 1024;

/** Lets everything else that is ready go first. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
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
