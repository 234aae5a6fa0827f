import type { Clock, Timer } from '../core/clock.ts';
import { Counts } from '../core/counts.ts';
import type { Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/**
 * Pauses of streams whose receivers do not respond: no attempt of such a stream begins meanwhile.
 */
export interface Backoffs {
  /** Begins a pause, unless the runner has one or is gone. */
  begin(runner: Runner): void;
  /** Ends the pause of the runner, if it has one; the caller enqueues it. */
  end(runner: Runner): void;
  /** Cancels all timers. */
  close(): void;
}

/**
 * Creates the pauses. An attempt that is refused, or whose name cannot be resolved, ends within
 * microseconds: without a pause a stream with a backlog would fail thousands of attempts a second,
 * and recording them would take all of the process's time. The more streams of a tenant pause, the
 * longer the pauses are, so that their attempts per second stay bounded in total.
 */
export function createBackoffs(deps: {
  readonly clock: Pick<Clock, 'after'>;
  readonly settings: BackoffSettings;
  /** The pause is over: the runner may send again. */
  readonly ended: (runner: Runner) => void;
}): Backoffs {
  const { clock, settings, ended } = deps;
  const timers = new Map<Runner, Timer>();
  /** Pausing streams of each tenant. */
  const pausing = new Counts<number>();
  const end = (runner: Runner): void => {
    if (!runner.isBackingOff) return;
    runner.isBackingOff = false;
    pausing.add(runner.tenant, -1);
    timers.get(runner)?.cancel();
    timers.delete(runner);
  };
  return {
    begin: (runner) => {
      if (runner.isBackingOff || runner.state === 'gone') return;
      runner.isBackingOff = true;
      const streams = pausing.add(runner.tenant, 1);
      const timer = clock.after(pauseMs(streams, settings), () => {
        end(runner);
        ended(runner);
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

/**
 * Returns how long to pause while so many streams of the tenant do; up to `slowSlots` attempts
 * follow each pause. No pause is longer than the timeout of an attempt, so that thousands of
 * streams do not wait for minutes once their receiver is available again.
 */
function pauseMs(streams: number, settings: BackoffSettings): number {
  const { unansweredBackoffMs, unansweredPerSecond, slowSlots, attemptTimeoutMs } = settings;
  const sharedMs = (streams * slowSlots * 1000) / unansweredPerSecond;
  return Math.max(unansweredBackoffMs, Math.min(sharedMs, attemptTimeoutMs));
}

type BackoffSettings = Pick<
  DeliverySettings,
  'unansweredBackoffMs' | 'unansweredPerSecond' | 'slowSlots' | 'attemptTimeoutMs'
>;
