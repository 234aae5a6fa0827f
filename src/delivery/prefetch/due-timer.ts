import type { Clock, Timer } from '../../core/clock.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Runner } from '../runner.ts';

/** The shortest interval between two checks, as a check visits every runner that is noted. */
const gatherMs = 10;

/**
 * Tracks when the next row of each runner is due: retries, redeliveries, tests, rows of a former
 * owner. It counts by the monotonic clock, as the store reports waits and compares instants by its
 * own clock.
 */
export interface DueTimer {
  /** Notes that the runner's next row is due in `inMs`; `undefined` when it has none. */
  note(runner: Runner, inMs: number | undefined): void;
  /** Enqueues the runners that have a row due. */
  check(): void;
  forget(runner: Runner): void;
  close(): void;
}

/** Creates one timer for all runners; none is set while no row waits. */
export function createDueTimer(deps: {
  readonly clock: Clock;
  readonly scheduler: Pick<Scheduler, 'enqueue' | 'dispatch'>;
}): DueTimer {
  const { clock, scheduler } = deps;
  const noted = new Set<Runner>();
  let timer: { readonly atMs: number; readonly pending: Timer } | undefined;

  const plan = (atMs: number): void => {
    if (timer !== undefined && timer.atMs <= atMs) return;
    timer?.pending.cancel();
    const pending = clock.after(Math.max(0, atMs - clock.elapsedMs()), () => {
      timer = undefined;
      check();
      scheduler.dispatch();
    });
    timer = { atMs, pending };
  };
  const check = (): void => {
    const nowMs = clock.elapsedMs();
    let next = Infinity;
    for (const runner of noted) {
      if (runner.nextDueMs === undefined || runner.nextDueMs <= nowMs) wake(runner);
      else next = Math.min(next, runner.nextDueMs);
    }
    if (next !== Infinity) plan(Math.max(next, nowMs + gatherMs));
  };
  const wake = (runner: Runner): void => {
    noted.delete(runner);
    runner.nextDueMs = undefined;
    runner.dueWaits = true;
    scheduler.enqueue(runner);
  };

  return {
    note: (runner, inMs) => {
      if (inMs === undefined || runner.state === 'gone') return;
      // There are due rows for which there was no slot.
      if (inMs <= 0) return wake(runner);
      const atMs = clock.elapsedMs() + inMs;
      runner.nextDueMs = Math.min(atMs, runner.nextDueMs ?? atMs);
      noted.add(runner);
      plan(runner.nextDueMs);
    },
    check,
    forget: (runner) => {
      noted.delete(runner);
    },
    close: () => timer?.pending.cancel(),
  };
}
