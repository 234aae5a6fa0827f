import type { Clock, Timer } from '../core/clock.ts';
import { FairQueue } from './fair-queue.ts';

/**
 * Runs what is done with texts of receivers in at most half of the time, tenants in turns. Searching
 * one text for secrets can take 10 ms, and a receiver can send a thousand responses at once.
 */
export interface TextQueue {
  /**
   * Calls `work` now or later, with the time that it waited. Never calls it after
   * {@link TextQueue.close}.
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

/** See {@link TextQueue}. */
export function createTextQueue(clock: Pick<Clock, 'after' | 'elapsedMs'>): TextQueue {
  const queue = new FairQueue<Waiting>();
  /** Work that no pause has followed yet. */
  let workedMs = 0;
  let pause: Timer | undefined;
  let isClosed = false;

  let isWorking = false;

  const hasTime = (): boolean => workedMs < workMsMax;
  const perform = ({ sinceMs, work }: Waiting): 'taken' => {
    const begunMs = clock.elapsedMs();
    work(begunMs - sinceMs);
    workedMs += clock.elapsedMs() - begunMs;
    return 'taken';
  };
  const workOn = (): void => {
    isWorking = true;
    while (hasTime() && queue.offerNext(perform));
    isWorking = false;
    rest();
  };
  const rest = (): void => {
    const restMs = workedMs;
    if (restMs === 0 || isClosed) return;
    pause ??= clock.after(restMs, () => {
      pause = undefined;
      workedMs -= restMs;
      workOn();
    });
  };
  return {
    run: (tenant, work) => {
      if (isClosed) return;
      queue.push(tenant, { sinceMs: clock.elapsedMs(), work });
      // Work that asks for more gets it after the present one: neither is counted twice.
      if (!isWorking) workOn();
    },
    close: () => {
      isClosed = true;
      pause?.cancel();
      queue.clear();
    },
  };
}
