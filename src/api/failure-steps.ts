import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import { sleep } from '../core/sleep.ts';
import type { StepResult } from '../store/port/failure-work.ts';

/** Works on accepted requests about many failures, until this process ends; upkeep continues them. */
export interface FailureSteps {
  /** Adds a request, which has been stored. */
  begin(id: string, step: () => Promise<StepResult>): void;
  /** Ends after the step in progress. */
  close(): Promise<void>;
}

/** Requests in memory; upkeep works on others. */
const requestsMax = 1000;

/** Between two steps of requests that wait for a stream. */
const waitMs = 200;

interface Request {
  readonly id: string;
  readonly step: () => Promise<StepResult>;
}

/** Creates the worker: one step at a time, of each request in turn, so that it delays others little. */
export function createFailureSteps({
  clock,
  log,
  pause = yieldToEventLoop,
}: {
  readonly clock: Pick<Clock, 'after'>;
  readonly log: Pick<Log, 'warn'>;
  /** Between two steps. */
  readonly pause?: () => Promise<void>;
}): FailureSteps {
  const closing = new AbortController();
  const requests: Request[] = [];
  let working: Promise<void> | undefined;

  const stepOf = async ({ id, step }: Request): Promise<StepResult> => {
    try {
      return await step();
    } catch (error) {
      log.warn({ err: error, request: id }, 'failures: upkeep continues the request');
      return 'done';
    }
  };
  const work = async (): Promise<void> => {
    let waiting = 0;
    for (;;) {
      const request = closing.signal.aborted ? undefined : requests.shift();
      if (request === undefined) break;
      const result = await stepOf(request);
      if (result !== 'done') requests.push(request);
      waiting = result === 'waiting' ? waiting + 1 : 0;
      const areAllWaiting = waiting > 0 && waiting >= requests.length;
      if (areAllWaiting) waiting = 0;
      // A synchronous engine does not yield by itself.
      await (areAllWaiting ? sleep(clock, waitMs, closing.signal) : pause());
    }
    working = undefined;
  };
  return {
    begin: (id, step) => {
      if (closing.signal.aborted || requests.length >= requestsMax) return;
      requests.push({ id, step });
      working ??= work();
    },
    close: async () => {
      closing.abort();
      await working;
    },
  };
}
