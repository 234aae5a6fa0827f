import { Deque } from './deque.ts';
import type { Runner, RunnerLimits } from './runner.ts';
import type { DeliverySettings } from './settings.ts';
import type { Work } from './slots.ts';

/** The slots of the node, handed out one at a time, in turns over the runners that want one. */
export interface Rota {
  readonly inFlight: number;
  /** Runners that wait for a slot of the node. */
  readonly waiting: number;
  /** The runner may have something to do; it does not begin before {@link pump}. */
  tell(runner: Runner): void;
  /** Hands out the free slots. */
  pump(): void;
  /** Slots have become free. */
  free(count: number): void;
  /** Hands out none any more. */
  close(): void;
}

export function createRota(deps: {
  readonly settings: RunnerLimits & Pick<DeliverySettings, 'concurrency'>;
  /** Whether anything may begin; false while too many results wait for the store. */
  readonly mayBegin: () => boolean;
  /** Uses the slot; it is given back by {@link Rota.free}. */
  readonly begin: (runner: Runner, work: Work) => void;
  /** Every part pumps when it has ended something. */
  readonly pumped: () => void;
}): Rota {
  const { settings } = deps;
  const turns = new Deque<Runner>();
  let inFlight = 0;
  let closed = false;

  const hasSlot = (): boolean => !closed && inFlight < settings.concurrency && deps.mayBegin();
  const tell = (runner: Runner): void => {
    if (runner.waitsForTurn || runner.nextWork(settings) === undefined) return;
    runner.waitsForTurn = true;
    turns.push(runner);
  };
  const takeTurn = (runner: Runner): void => {
    runner.waitsForTurn = false;
    const work = runner.nextWork(settings);
    if (work === undefined) return;
    inFlight += 1;
    runner.last = work;
    deps.begin(runner, work);
    tell(runner);
  };

  return {
    get inFlight() {
      return inFlight;
    },
    get waiting() {
      return turns.length;
    },
    tell,
    pump: () => {
      while (hasSlot()) {
        const runner = turns.shift();
        if (runner === undefined) break;
        takeTurn(runner);
      }
      deps.pumped();
    },
    free: (count) => {
      inFlight -= count;
    },
    close: () => {
      closed = true;
    },
  };
}
