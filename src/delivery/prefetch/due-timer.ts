import type { Clock, Timer } from '../../core/clock.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Runner } from '../runner.ts';

/** The least time between two looks at the list, as a look costs by its length. */
const gatherMs = 10;

/**
 * When the next row of each runner is due: retries, redeliveries, tests, what an owner left. By the
 * monotonic clock: how long each waits is known from the store, which alone judges instants.
 */
export interface DueTimer {
  /** The runner has a row that is due after so long; none when it is `undefined`. */
  note(runner: Runner, inMs: number | undefined): void;
  /** Lets those runners claim whose time has come. */
  check(): void;
  forget(runner: Runner): void;
  close(): void;
}

/** One timer for all runners, and none while no row waits. */
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
      // Rows that there was no slot for.
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
