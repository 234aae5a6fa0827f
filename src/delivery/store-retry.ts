import type { Clock, Timer } from '../core/clock.ts';
import { StoreContentRefused, StoreReplaced, StoreUnavailable } from '../core/errors.ts';
import type { DeliveryReport } from './report.ts';

const firstWaitMs = 50;
const longestWaitMs = 2000;

/** Commands to a store that may be away for a while. */
export interface StoreRetry {
  /**
   * Does `work` again and again, with growing pauses, until it goes through. Throws
   * `StoreContentRefused` only; that no repetition can help.
   */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Whether some work has failed and has not gone through since. */
  readonly isRetrying: boolean;
  /** Abandons all work under way, which never settles. Later work starts afresh. */
  reset(): void;
  /** The store is asked nothing any more; what is asked or repeated now never answers. */
  close(): void;
}

/** One for each that waits: a promise remembers who waits for it. */
const never = (): Promise<never> => new Promise(() => undefined);

interface StoreRetryDeps {
  readonly clock: Clock;
  readonly report: (event: DeliveryReport) => void;
  /** The store answers again after an outage: hints may have been lost. */
  readonly recovered: () => void;
  /** Some work was refused with `StoreReplaced`: it is abandoned. */
  readonly replaced: () => void;
}

export function createStoreRetry(deps: StoreRetryDeps): StoreRetry {
  const timers = new Set<Timer>();
  const outage = createOutage(deps);
  /** Raised by each reset: work of an earlier term is abandoned. */
  let term = 0;
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
  const cancelTimers = (): void => {
    for (const timer of timers) timer.cancel();
    timers.clear();
  };

  return {
    run: async (work) => {
      const begun = term;
      for (let failures = 0; ; failures += 1) {
        if (closed) await never();
        try {
          const answer = await work();
          if (term !== begun) return await never();
          outage.goesThrough(failures);
          return answer;
        } catch (error) {
          if (error instanceof StoreReplaced) {
            if (term === begun) deps.replaced();
            // Nothing was reset for work that is left from an incarnation before: the store responds.
            if (term === begun) outage.goesThrough(failures);
            return never();
          }
          if (term !== begun) return never();
          if (error instanceof StoreContentRefused) {
            outage.goesThrough(failures);
            throw error;
          }
          outage.fails(error, failures);
          await pause(Math.min(firstWaitMs * 2 ** failures, longestWaitMs));
        }
      }
    },
    get isRetrying() {
      return outage.isTried;
    },
    reset: () => {
      term += 1;
      outage.reset();
      cancelTimers();
    },
    close: () => {
      closed = true;
      cancelTimers();
    },
  };
}

/** Counts the work that fails: an outage is reported once, however much fails in it, as is its end. */
interface Outage {
  readonly isTried: boolean;
  /** Some work failed; `failures` before this one. */
  fails(error: unknown, failures: number): void;
  goesThrough(failures: number): void;
  /** What has failed is abandoned. */
  reset(): void;
}

function createOutage({ report, recovered }: StoreRetryDeps): Outage {
  let failing = 0;
  let isReported = false;
  return {
    get isTried() {
      return failing > 0;
    },
    fails: (error, failures) => {
      if (failures === 0) failing += 1;
      if (!(error instanceof StoreUnavailable)) return report({ kind: 'unexpected', error });
      if (!isReported) report({ kind: 'store_unavailable', error });
      isReported = true;
    },
    goesThrough: (failures) => {
      if (failures > 0) failing -= 1;
      // After a reset the outage is over with the first work that goes through.
      else if (!isReported) return;
      if (failing > 0) return;
      if (isReported) report({ kind: 'store_recovered' });
      isReported = false;
      recovered();
    },
    reset: () => {
      failing = 0;
    },
  };
}
