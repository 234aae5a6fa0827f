/** Simulated time, which advances only in `runTo`: one for all nodes, receivers and operators. */
export interface Timeline {
  /** Milliseconds since the start. */
  readonly nowMs: number;
  /** Calls `action` once after a delay. Actions of the same instant run in the order of these calls. */
  after(delayMs: number, action: () => void): ScheduledAction;
  /** Advances to `untilMs`: runs each action and the microtasks that it leads to. */
  runTo(untilMs: number): Promise<void>;
}

export interface ScheduledAction {
  cancel(): void;
}

interface ScheduledItem {
  readonly atMs: number;
  readonly order: number;
  action: (() => void) | undefined;
}

/** `stepped` is called before each action. */
export function createTimeline(stepped?: () => void): Timeline {
  let nowMs = 0;
  let planned = 0;
  const heap: ScheduledItem[] = [];

  return {
    get nowMs() {
      return nowMs;
    },
    after: (delayMs, action) => {
      const item: ScheduledItem = { atMs: nowMs + Math.max(0, delayMs), order: planned, action };
      planned += 1;
      push(heap, item);
      return {
        cancel: () => {
          item.action = undefined;
        },
      };
    },
    runTo: async (untilMs) => {
      await turn();
      for (let next = heap[0]; next !== undefined && next.atMs <= untilMs; next = heap[0]) {
        shift(heap);
        if (next.action === undefined) continue;
        nowMs = next.atMs;
        stepped?.();
        next.action();
        await turn();
      }
      nowMs = Math.max(nowMs, untilMs);
    },
  };
}

/** Runs all pending microtasks, and those that they lead to. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

// A binary heap: the earliest item is first.

function isBefore(one: ScheduledItem, other: ScheduledItem): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}

function push(heap: ScheduledItem[], item: ScheduledItem): void {
  let index = heap.length;
  heap.push(item);
  while (index > 0) {
    const parentIndex = (index - 1) >> 1;
    const parent = heap[parentIndex];
    if (parent === undefined || !isBefore(item, parent)) break;
    heap[index] = parent;
    index = parentIndex;
  }
  heap[index] = item;
}

function shift(heap: ScheduledItem[]): void {
  const item = heap.pop();
  if (item === undefined || heap.length === 0) return;
  let index = 0;
  for (;;) {
    const left = 2 * index + 1;
    const one = heap[left];
    const other = heap[left + 1];
    if (one === undefined) break;
    const isOther = other !== undefined && isBefore(other, one);
    const child = isOther ? other : one;
    if (!isBefore(child, item)) break;
    heap[index] = child;
    index = isOther ? left + 1 : left;
  }
  heap[index] = item;
}
