import type { Hint } from './port/hints.ts';
import type { Store } from './port/store.ts';

/** Hands hints of committed changes to whoever watches. */
export interface Hints {
  /** Calls every listener, in the order of the commits, also when a listener commits by itself. */
  readonly emit: (hint: Hint) => void;
  readonly watch: Store['watch'];
}

/**
 * A listener that throws hurts neither the command, which is committed, nor the other listeners:
 * its error goes to `report`.
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
      // A listener's own command ends up here: its hint follows once all have heard this one.
      if (emitting) return;
      emitting = true;
      try {
        emitWaiting();
      } finally {
        emitting = false;
      }
    },
    watch: (listener) => {
      // The same function may watch twice, hence the box around it.
      const entry = { call: listener };
      listeners.add(entry);
      return () => {
        listeners.delete(entry);
      };
    },
  };
}
