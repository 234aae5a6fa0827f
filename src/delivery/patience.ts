import type { Clock, Timer } from '../core/clock.ts';
import { StoreContentRefused, StoreUnavailable } from '../core/errors.ts';
import type { DeliveryReport } from './report.ts';

const firstWaitMs = 50;
const longestWaitMs = 2000;

/** Commands to a store that may be away for a while. */
export interface Patience {
  /**
   * Does `work` again and again, with growing pauses, until it goes through. Throws
   * `StoreContentRefused` only; that no repetition can help.
   */
  keepTrying<T>(work: () => Promise<T>): Promise<T>;
  /** Whether some work has failed and has not gone through since. */
  readonly isTried: boolean;
  /** The store is asked nothing any more; what is asked or repeated now never answers. */
  close(): void;
}

/** One for each that waits: a promise remembers who waits for it. */
const never = (): Promise<never> => new Promise(() => undefined);

/** An outage is reported once, however much work fails in it, and so is its end. */
export function createPatience(deps: {
  readonly clock: Clock;
  readonly report: (event: DeliveryReport) => void;
  /** The store answers again after an outage: hints may have been lost. */
  readonly recovered: () => void;
}): Patience {
  const timers = new Set<Timer>();
  let failing = 0;
  let isReported = false;
  let closed = false;

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      if (closed) return;
      const timer = deps.clock.after(ms, () => {
        timers.delete(timer);
        resolve();
      });
      timers.add(timer);
    });

  const fails = (error: unknown, failures: number): void => {
    if (failures === 0) failing += 1;
    if (!(error instanceof StoreUnavailable)) return deps.report({ kind: 'unexpected', error });
    if (!isReported) deps.report({ kind: 'store_unavailable', error });
    isReported = true;
  };

  const goesThrough = (failures: number): void => {
    if (failures === 0) return;
    failing -= 1;
    if (failing > 0) return;
    if (isReported) deps.report({ kind: 'store_recovered' });
    isReported = false;
    deps.recovered();
  };

  return {
    keepTrying: async (work) => {
      for (let failures = 0; ; failures += 1) {
        if (closed) await never();
        try {
          const answer = await work();
          goesThrough(failures);
          return answer;
        } catch (error) {
          if (error instanceof StoreContentRefused) {
            goesThrough(failures);
            throw error;
          }
          fails(error, failures);
          await pause(Math.min(firstWaitMs * 2 ** failures, longestWaitMs));
        }
      }
    },
    get isTried() {
      return failing > 0;
    },
    close: () => {
      closed = true;
      for (const timer of timers) timer.cancel();
      timers.clear();
    },
  };
}

/** Runs one piece of work at a time, in the order of the calls. */
export type Lane = <T>(work: () => Promise<T>) => Promise<T>;

export function createLane(): Lane {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    // The next one goes on whatever became of this one; its caller hears of that.
    last = result.catch(() => undefined);
    return result;
  };
}
