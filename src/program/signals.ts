import { constants } from 'node:os';
import type { Clock } from '../core/clock.ts';

/** SIGINT and SIGTERM of a process that serves. */
export interface Signals {
  /** Sets the action of the first signal from now on. */
  onFirst(drain: (signal: SignalName) => void): void;
}

/**
 * Listens for signals. One during the start ends the program immediately: every step of a start is
 * atomic, and the next start completes it. Afterwards the first signal drains and the second ends
 * immediately; neither loses acknowledged events. Call it before anything else: the first process
 * of a container ignores signals without a listener.
 */
export function listenForSignals(clock: SignalClock): Signals {
  let first: ((signal: SignalName) => void) | undefined;
  onSignals(clock, ['SIGINT', 'SIGTERM'], (signal) => {
    const drain = first;
    first = undefined;
    if (drain === undefined) process.exit(128 + constants.signals[signal]);
    drain(signal);
  });
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

/** Returns a signal that aborts at the first of the signals; a second one ends the process. */
export function interruption(
  clock: SignalClock,
  names: readonly SignalName[] = ['SIGINT', 'SIGTERM'],
): AbortSignal {
  const controller = new AbortController();
  onSignals(clock, names, (signal) => {
    if (controller.signal.aborted) process.exit(128 + constants.signals[signal]);
    controller.abort();
  });
  return controller.signal;
}

type SignalClock = Pick<Clock, 'elapsedMs'>;
type SignalName = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/**
 * A terminal sends Ctrl-C to npm and to its program, and npm sends it to the program once more, unless
 * there is a shell between them. Nobody presses it twice this fast.
 */
const repeatMs = 300;

/** Calls `action` with each signal, but not with those that repeat it within {@link repeatMs}. */
function onSignals(
  clock: SignalClock,
  names: readonly SignalName[],
  action: (signal: SignalName) => void,
): void {
  for (const name of names) {
    let lastMs = -Infinity;
    process.on(name, () => {
      const nowMs = clock.elapsedMs();
      if (nowMs - lastMs < repeatMs) return;
      lastMs = nowMs;
      action(name);
    });
  }
}
