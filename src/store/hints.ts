import type { Hint } from './port/hints.ts';
import type { Store } from './port/store.ts';

/** Delivers the hints of committed changes to the listeners. */
export interface Hints {
  /** Calls every listener, in the order of the calls, even when a listener commits something. */
  readonly emit: (hint: Hint) => void;
  readonly watch: Store['watch'];
}

/**
 * Creates the hints. A listener that throws affects neither the command, which is committed, nor
 * the other listeners: its error goes to `report`.
 */
export function createHints(deps: { report: (error: unknown) => void }): Hints {
  const listeners = new Set<{ call: (hint: Hint) => void }>();
  const waiting: Hint[] = [];
  let emitting = false;

  const call = (listener: (hint: Hint) => void, hint: Hint): void => {
    try {
      listener(hint);
    } catch (error) {
      deps.report(error);
    }
  };
  const emitWaiting = (): void => {
    for (let hint = waiting.shift(); hint !== undefined; hint = waiting.shift()) {
      for (const listener of listeners) call(listener.call, hint);
    }
  };

  return {
    emit: (hint) => {
      waiting.push(hint);
      // A command of a listener arrives here: its hint follows after all listeners have received
      // this one.
      if (emitting) return;
      emitting = true;
      try {
        emitWaiting();
      } finally {
        emitting = false;
      }
    },
    watch: (listener) => {
      // The box tells apart two registrations of the same function.
      const entry = { call: listener };
      listeners.add(entry);
      return () => {
        listeners.delete(entry);
      };
    },
  };
}
