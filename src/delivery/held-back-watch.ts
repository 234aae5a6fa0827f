import type { Clock, Timer } from '../core/clock.ts';
import { Deque } from '../log/deque.ts';
import type { HeldBackEvent, Runner } from './runner.ts';

/** Gives events a row that wait behind their keys for long, so that the cursor can pass them. */
export interface HeldBackWatch {
  watch(runner: Runner, held: HeldBackEvent): void;
  close(): void;
}

/** Creates the watch. One timer serves the node; there is none while no event is held back. */
export function createHeldBackWatch(deps: {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  readonly waitMs: number;
  /** The event has waited for `waitMs`. Events of one key come in order. */
  readonly expired: (runner: Runner, held: HeldBackEvent) => void;
}): HeldBackWatch {
  const { clock, waitMs } = deps;
  /** In order. Those that are gone are removed when they get to the front. */
  const watched = new Deque<{ readonly runner: Runner; readonly held: HeldBackEvent }>();
  let timer: Timer | undefined;

  const oldest = () => {
    while (watched.at(0)?.held.isGone) watched.shift();
    return watched.at(0);
  };
  const plan = (): void => {
    const first = oldest();
    if (timer !== undefined || first === undefined) return;
    const inMs = first.held.sinceMs + waitMs - clock.elapsedMs();
    timer = clock.after(Math.max(0, inMs), check);
  };
  const check = (): void => {
    timer = undefined;
    const since = clock.elapsedMs() - waitMs;
    for (let first = oldest(); first && first.held.sinceMs <= since; first = oldest()) {
      watched.shift();
      deps.expired(first.runner, first.held);
    }
    plan();
  };

  return {
    watch: (runner, held) => {
      watched.push({ runner, held });
      plan();
    },
    close: () => timer?.cancel(),
  };
}
