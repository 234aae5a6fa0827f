import { signal } from '@preact/signals';

/** The wall clock of the browser, milliseconds since the epoch. */
export function now(): number {
  return Date.now();
}

/** Calls an action later; returns a function that cancels it. */
export function after(delayMs: number, action: () => void): () => void {
  const timer = setTimeout(action, delayMs);
  return () => clearTimeout(timer);
}

/** The present half minute: relative times are drawn again when it changes. */
export const ticks = signal(now());

/** Begins to update {@link ticks}; not while the tab is hidden. */
export function startTicks(): void {
  after(30_000, () => {
    if (!document.hidden) ticks.value = now();
    startTicks();
  });
}
