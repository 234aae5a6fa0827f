import { backoffMs } from '../core/backoff.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { StoreContentRefused, StoreReplaced, StoreUnavailable } from '../core/errors.ts';
import type { DeliveryReport } from './report.ts';

const backoff = { firstMs: 50, maxMs: 2000 };

/** Runs commands to a store that may be unavailable for a while. */
export interface StoreRetry {
  /**
   * Runs a command until it succeeds, with growing waits after failures, also one that the store refuses
   * for its content: a session with other settings does so. Never rejects.
   */
  run<T>(command: () => Promise<T>): Promise<T>;
  /** Does the same, but rejects with `StoreContentRefused` for a command whose content can be changed. */
  runRefusable<T>(command: () => Promise<T>): Promise<T>;
  /** Whether some command has failed and has not succeeded since. */
  readonly isRetrying: boolean;
  /** Abandons all pending commands, which never settle. */
  reset(): void;
  /** Stops issuing commands; pending calls, and later ones, never settle. */
  close(): void;
}

/** Creates a promise per waiter: a shared one would keep every waiter in memory. */
const never = (): Promise<never> => new Promise(() => undefined);

interface StoreRetryDeps {
  readonly clock: Clock;
  readonly report: (event: DeliveryReport) => void;
  /** The store responds again after an outage: hints may have been lost. */
  readonly recovered: () => void;
  /** A command was refused with `StoreReplaced`: it is abandoned. */
  readonly replaced: () => void;
}

export function createStoreRetry(deps: StoreRetryDeps): StoreRetry {
  const timers = new Set<Timer>();
  const outage = createOutage(deps);
  /** Raised by each reset: commands of an earlier term are abandoned. */
  let term = 0;
  let closed = false;

  const wait = (ms: number): Promise<void> =>
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

  const run = async <T>(command: () => Promise<T>, isRefusable: boolean): Promise<T> => {
    const begunIn = term;
    for (let failures = 0; ; failures += 1) {
      if (closed) await never();
      try {
        const result = await command();
        if (term !== begunIn) return await never();
        outage.succeeded(failures);
        return result;
      } catch (error) {
        if (error instanceof StoreReplaced) {
          if (term === begunIn) deps.replaced();
          // Still the same term when there was nothing to reset: the command is from an earlier
          // incarnation, and the store responds.
          if (term === begunIn) outage.succeeded(failures);
          return never();
        }
        if (term !== begunIn) return never();
        if (isRefusable && error instanceof StoreContentRefused) {
          outage.succeeded(failures);
          throw error;
        }
        outage.failed(error, failures);
        await wait(backoffMs(failures + 1, backoff));
      }
    }
  };

  return {
    run: (command) => run(command, false),
    runRefusable: (command) => run(command, true),
    get isRetrying() {
      return outage.isRetrying;
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

/** Reports an outage once, however many commands fail in it, and its end. */
interface Outage {
  readonly isRetrying: boolean;
  /** A command failed that had failed `failures` times before. */
  failed(error: unknown, failures: number): void;
  /** A command succeeded that had failed `failures` times before. */
  succeeded(failures: number): void;
  /** All failing commands are abandoned. */
  reset(): void;
}

function createOutage({ report, recovered }: StoreRetryDeps): Outage {
  /** Commands that have failed and not succeeded since. */
  let failing = 0;
  let isReported = false;
  return {
    get isRetrying() {
      return failing > 0;
    },
    failed: (error, failures) => {
      if (failures === 0) failing += 1;
      if (!(error instanceof StoreUnavailable)) return report({ kind: 'unexpected', error });
      if (!isReported) report({ kind: 'store_unavailable', error });
      isReported = true;
    },
    succeeded: (failures) => {
      if (failures > 0) failing -= 1;
      // After a reset the outage is over with the first command that succeeds.
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
