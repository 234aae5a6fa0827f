import type { Clock, Millis, Timer } from '../core/clock.ts';
import type { Rota } from './rota.ts';
import type { Runner } from './runner.ts';

/** The least time between two looks at the list, as a look costs by its length. */
const gatherMs = 10;

/** When the next row of each runner is due: retries, redeliveries, tests, what an owner left. */
export interface Due {
  /** The runner has a row that is due then. */
  note(runner: Runner, dueAt: Millis | undefined): void;
  /** Lets those runners claim whose time has come. */
  check(): void;
  forget(runner: Runner): void;
  close(): void;
}

/** One timer for all runners, and none while no row waits. */
export function createDue(deps: {
  readonly clock: Clock;
  readonly rota: Pick<Rota, 'tell' | 'pump'>;
}): Due {
  const { clock, rota } = deps;
  const noted = new Set<Runner>();
  let timer: { readonly at: Millis; readonly pending: Timer } | undefined;

  const plan = (at: Millis): void => {
    if (timer !== undefined && timer.at <= at) return;
    timer?.pending.cancel();
    const pending = clock.after(Math.max(0, at - clock.now()), () => {
      timer = undefined;
      check();
      rota.pump();
    });
    timer = { at, pending };
  };
  const check = (): void => {
    const now = clock.now();
    let next = Infinity;
    for (const runner of noted) {
      if (runner.nextDueAt === undefined || runner.nextDueAt <= now) wake(runner);
      else next = Math.min(next, runner.nextDueAt);
    }
    if (next !== Infinity) plan(Math.max(next, now + gatherMs));
  };
  const wake = (runner: Runner): void => {
    noted.delete(runner);
    runner.nextDueAt = undefined;
    runner.dueWaits = true;
    rota.tell(runner);
  };

  return {
    note: (runner, dueAt) => {
      if (dueAt === undefined || runner.state === 'gone') return;
      // Rows that there was no slot for.
      if (dueAt <= clock.now()) return wake(runner);
      runner.nextDueAt = Math.min(dueAt, runner.nextDueAt ?? dueAt);
      noted.add(runner);
      plan(runner.nextDueAt);
    },
    check,
    forget: (runner) => {
      noted.delete(runner);
    },
    close: () => timer?.pending.cancel(),
  };
}
