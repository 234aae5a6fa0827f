/** Splits long work into slices, so that it does not block the event loop. */

/** Characters or bytes of the items of one slice: a few milliseconds. */
const sliceMax = 128 * 1024;

/** Work that waits for a turn of the event loop. Module state, because a process has one event loop. */
const waiting: (() => void)[] = [];

/**
 * Yields to other work that is ready. Each turn of the event loop continues only one of the callers, so
 * that slices of many requests together block it no longer than one slice does.
 *
 * Work whose time is an argument awaits `sleep(clock, 0)` instead: a manual clock orders it.
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

/** Items that are taken in one turn where each takes a microsecond or less. */
const itemsAtOnce = 2048;

/** Yields items in parts, between which other work runs. */
export async function* inTurns<T>(items: readonly T[]): AsyncGenerator<readonly T[], void> {
  for (let from = 0; from < items.length; from += itemsAtOnce) {
    if (from > 0) await yieldToEventLoop();
    yield items.slice(from, from + itemsAtOnce);
  }
}

/** Work that pauses where other work may run. */
export type Slices<R> = Generator<void, R, void>;

/** Runs work, and yields to the event loop at each of its pauses. */
export async function runInSlices<R>(steps: Slices<R>): Promise<R> {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    await yieldToEventLoop();
  }
}

/** Runs work without pausing. */
export function runSync<R>(steps: Slices<R>): R {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/**
 * Maps items in order, and yields to the event loop after each slice. `sizeOf` returns the characters
 * or bytes of an item, or of its mapped value.
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
