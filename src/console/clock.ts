import { signal } from '@preact/signals';

/** How far the clock of this browser is ahead of the server's, where that is more than some seconds. */
let aheadMs = 0;
const toleratedMs = 10_000;

/** The time of the server, milliseconds since the epoch, at an instant of the clock of this browser. */
export function now(atMs = Date.now()): number {
  return atMs - aheadMs;
}

/** Takes the header `Date` of a response that has just arrived: what is shown has the server's times. */
export function answeredAt(date: string | null): void {
  const atMs = Date.parse(date ?? '');
  if (!(Math.abs(now() - atMs) > toleratedMs)) return;
  aheadMs = Date.now() - atMs;
  ticks.value = now();
}

/** Calls an action later; returns a function that cancels it. */
export function after(delayMs: number, action: () => void): () => void {
  const timer = setTimeout(action, delayMs);
  return () => clearTimeout(timer);
}

/** The present half minute: relative times are drawn again when it changes. */
export const ticks = signal(now());

/** The time of the server for what is drawn again when {@link ticks} changes. */
export function drawnAtMs(): number {
  return Math.max(ticks.value, now());
}

/** Begins to update {@link ticks}; not while the tab is hidden. */
export function startTicks(isHidden: () => boolean): void {
  after(30_000, () => {
    if (!isHidden()) ticks.value = now();
    startTicks(isHidden);
  });
}
