import type { Clock, Timer } from '../core/clock.ts';
import { FairQueue } from './fair-queue.ts';

/**
 * Runs what is done with texts of receivers in at most half of the time, tenants in turns. Removing
 * secrets from one text can take 10 ms, and a receiver can send a thousand responses at once.
 */
export interface TextTurns {
  /**
   * Calls `work` now or later, with the time that it waited. Never calls it after
   * {@link TextTurns.close}.
   */
  run(tenant: number, work: (waitedMs: number) => void): void;
  close(): void;
}

/** Work without a pause; a single text may take longer. */
const workMsMax = 2;

interface Waiting {
  readonly sinceMs: number;
  readonly work: (waitedMs: number) => void;
}

/** See {@link TextTurns}. */
export function createTextTurns(clock: Pick<Clock, 'after' | 'elapsedMs'>): TextTurns {
  const queue = new FairQueue<Waiting>();
  /** Work that no pause has followed yet. */
  let workedMs = 0;
  let pause: Timer | undefined;
  let isClosed = false;

  const hasTime = (): boolean => workedMs < workMsMax;
  const perform = ({ sinceMs, work }: Waiting): void => {
    const begunMs = clock.elapsedMs();
    work(begunMs - sinceMs);
    workedMs += clock.elapsedMs() - begunMs;
  };
  const rest = (): void => {
    const restMs = workedMs;
    if (restMs === 0 || isClosed) return;
    pause ??= clock.after(restMs, () => {
      pause = undefined;
      workedMs -= restMs;
      while (hasTime() && takeOne());
      rest();
    });
  };
  const takeOne = (): boolean =>
    queue.offerNext((waiting) => {
      perform(waiting);
      return 'taken';
    }, 1);
  return {
    run: (tenant, work) => {
      if (isClosed) return;
      const waiting = { sinceMs: clock.elapsedMs(), work };
      if (queue.length === 0 && hasTime()) perform(waiting);
      else queue.push(tenant, waiting);
      rest();
    },
    close: () => {
      isClosed = true;
      pause?.cancel();
      queue.clear();
    },
  };
}
