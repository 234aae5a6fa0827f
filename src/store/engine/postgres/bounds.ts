import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock } from '../../../core/clock.ts';
import { StoreUnavailable } from '../../../core/errors.ts';

/** Bounds of commands that only read. Each statement is a transaction of its own. */
export interface Bounds {
  /** Time limit of one statement. */
  readonly statementMs: number;
  /** Time limit of waiting for a connection. A command ends within the sum of both, whatever its statements. */
  readonly waitMs: number;
  /** Maximum statements that wait for a connection; further ones are refused at once. */
  readonly waitingMax: number;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
}

/** The time of the commands of one database. */
export interface CommandTime {
  /** Runs a command, or a part of one: its time began with that of the whole. */
  run<T>(command: () => Promise<T>): Promise<T>;
  /** Returns the time limit of a statement that begins now. Throws `StoreUnavailable` when the time is over. */
  statementMs(): number;
  /** Waits while there is time; then rejects with `StoreUnavailable`, and `late` receives what arrives. */
  wait<T>(arriving: Promise<T>, late: (arrived: T) => void): Promise<T>;
}

export function createCommandTime({ statementMs, waitMs, clock }: Bounds): CommandTime {
  /** When the time of the present command is over, in elapsed milliseconds. */
  const ends = new AsyncLocalStorage<number>();
  const leftMs = (): number => {
    const left = (ends.getStore() ?? Infinity) - clock.elapsedMs();
    if (left < 1) throw timeOver();
    return left;
  };
  return {
    run: (command) =>
      ends.run(ends.getStore() ?? clock.elapsedMs() + waitMs + statementMs, command),
    statementMs: () => Math.floor(Math.min(statementMs, leftMs())),
    wait: async (arriving, late) => {
      const { promise: over, reject } = Promise.withResolvers<never>();
      let isOver = false;
      const timer = clock.after(Math.min(waitMs, leftMs()), () => {
        isOver = true;
        reject(timeOver());
      });
      arriving.then(
        (arrived) => isOver && late(arrived),
        () => undefined,
      );
      try {
        return await Promise.race([arriving, over]);
      } finally {
        timer.cancel();
      }
    },
  };
}

function timeOver(): StoreUnavailable {
  return new StoreUnavailable('A read took too long, or waited too long for a connection.');
}
