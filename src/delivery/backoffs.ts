import type { Clock, Timer } from '../core/clock.ts';
import type { Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/** Pauses of streams whose receivers do not respond: nothing of such a stream begins meanwhile. */
export interface Backoffs {
  /** Begins a pause, unless the runner has one or is gone. */
  begin(runner: Runner): void;
  /** Ends the pause of the runner, if it has one; the caller lets it go on. */
  end(runner: Runner): void;
  /** Cancels all timers; nobody goes on by them any more. */
  close(): void;
}

/**
 * An attempt that is refused, or whose name cannot be resolved, ends within microseconds. Without a
 * pause a stream with a backlog would fail thousands of them in a second, and their results would
 * leave the process no time for anything else.
 */
export function createBackoffs(deps: {
  readonly clock: Pick<Clock, 'after'>;
  readonly settings: Pick<DeliverySettings, 'unansweredBackoffMs'>;
  /** The pause has passed: the runner may go on. */
  readonly passed: (runner: Runner) => void;
}): Backoffs {
  const { clock, settings, passed } = deps;
  const timers = new Map<Runner, Timer>();

  const end = (runner: Runner): void => {
    if (!runner.isBackingOff) return;
    runner.isBackingOff = false;
    timers.get(runner)?.cancel();
    timers.delete(runner);
  };
  return {
    begin: (runner) => {
      if (runner.isBackingOff || runner.state === 'gone') return;
      runner.isBackingOff = true;
      const timer = clock.after(settings.unansweredBackoffMs, () => {
        end(runner);
        passed(runner);
      });
      timers.set(runner, timer);
    },
    end,
    close: () => {
      for (const timer of timers.values()) timer.cancel();
      timers.clear();
    },
  };
}
