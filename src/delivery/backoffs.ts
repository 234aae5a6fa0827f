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
 * leave the process no time for anything else. The more streams of a tenant pause, the longer they
 * do: else a hundred of them would come to the same.
 */
export function createBackoffs(deps: {
  readonly clock: Pick<Clock, 'after'>;
  readonly settings: BackoffSettings;
  /** The pause has passed: the runner may go on. */
  readonly passed: (runner: Runner) => void;
}): Backoffs {
  const { clock, settings, passed } = deps;
  const timers = new Map<Runner, Timer>();
  /** How many streams of each tenant pause; a tenant without any is absent. */
  const pausing = new Map<number, number>();

  const count = (tenant: number, change: 1 | -1): number => {
    const streams = (pausing.get(tenant) ?? 0) + change;
    if (streams === 0) pausing.delete(tenant);
    else pausing.set(tenant, streams);
    return streams;
  };
  const end = (runner: Runner): void => {
    if (!runner.isBackingOff) return;
    runner.isBackingOff = false;
    count(runner.tenant, -1);
    timers.get(runner)?.cancel();
    timers.delete(runner);
  };
  return {
    begin: (runner) => {
      if (runner.isBackingOff || runner.state === 'gone') return;
      runner.isBackingOff = true;
      const streams = count(runner.tenant, 1);
      const timer = clock.after(backoffMs(streams, settings), () => {
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

/**
 * As many attempts as there are few slots follow each pause. None is longer than an attempt that hangs,
 * so that thousands of streams do not wait for minutes once their receiver is back.
 */
function backoffMs(streams: number, settings: BackoffSettings): number {
  const { unansweredBackoffMs, unansweredPerSecond, slowSlots, attemptTimeoutMs } = settings;
  const sharedMs = (streams * slowSlots * 1000) / unansweredPerSecond;
  return Math.max(unansweredBackoffMs, Math.min(sharedMs, attemptTimeoutMs));
}

type BackoffSettings = Pick<
  DeliverySettings,
  'unansweredBackoffMs' | 'unansweredPerSecond' | 'slowSlots' | 'attemptTimeoutMs'
>;
