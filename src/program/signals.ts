import { constants } from 'node:os';

/** SIGINT and SIGTERM of a process that serves. */
export interface Signals {
  /** Sets the action of the first signal from now on. */
  onFirst(drain: () => void): void;
}

/**
 * Listens for signals. One during the start ends the program immediately: every step of a start is
 * atomic, and the next start completes it. Afterwards the first signal drains and the second ends
 * immediately; neither loses acknowledged events. Call it before anything else: the first process
 * of a container ignores signals without a listener.
 */
export function listenForSignals(): Signals {
  let first: (() => void) | undefined;
  const listen = (signal: 'SIGINT' | 'SIGTERM'): void => {
    process.on(signal, () => {
      const drain = first;
      first = undefined;
      if (drain === undefined) process.exit(128 + constants.signals[signal]);
      drain();
    });
  };
  listen('SIGINT');
  listen('SIGTERM');
  return {
    onFirst: (drain) => {
      first = drain;
    },
  };
}

/**
 * Ignores SIGINT and SIGTERM: a terminal sends them to the whole process group, and the parent
 * decides when the second process ends.
 */
export function ignoreSignals(): void {
  process.on('SIGINT', () => {}).on('SIGTERM', () => {});
}

/** Returns a signal that aborts at the first SIGINT or SIGTERM; a second one ends the process. */
export function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => controller.abort());
  return controller.signal;
}
