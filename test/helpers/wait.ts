import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /**
   * Returns what grows or shrinks on the way to the condition, for example the number of requests
   * so far. The wait goes on for as long as this value changes between polls.
   */
  readonly progress?: () => unknown;
  /** Gives up after this long without progress. */
  readonly stallMs?: number;
  /** For a condition that does not hold for some time, where polls are expensive. */
  readonly intervalMsFirst?: number;
  /** For a condition that must be seen soon after it holds. */
  readonly intervalMsMax?: number;
}

/** Ends what hangs: long enough for a machine that eight other programs keep busy. */
export const stallMsDefault = 90_000;
/** A process that was stopped for a while polls again before it gives up. */
const stallPollsMin = 50;
const intervalMs = { first: 5, growth: 1.2, max: 100 };

/**
 * Polls until `done` returns something other than `undefined` and `false`, and returns that. Throws
 * when nothing has changed for a long while; the error says what was expected and the last progress.
 */
export async function waitFor<T>(
  what: string,
  done: () => T | undefined | false | Promise<T | undefined | false>,
  options: WaitOptions = {},
): Promise<T> {
  const { progress = () => undefined, stallMs = stallMsDefault } = options;
  const { intervalMsFirst = intervalMs.first, intervalMsMax = intervalMs.max } = options;
  let last = shown(progress());
  let changedMs = performance.now();
  let pollsSince = 0;
  let pauseMs = intervalMsFirst;
  for (;;) {
    const result = await done();
    if (result !== undefined && result !== false) return result;
    const now = shown(progress());
    pollsSince += 1;
    if (now !== last) {
      last = now;
      changedMs = performance.now();
      pollsSince = 0;
    } else if (pollsSince > stallPollsMin && performance.now() - changedMs > stallMs) {
      const state = last === undefined ? '' : `; last progress: ${last}`;
      throw new Error(`gave up waiting for ${what}: no change for ${stallMs / 1000} s${state}`);
    }
    await sleep(pauseMs);
    pauseMs = Math.min(pauseMs * intervalMs.growth, intervalMsMax);
  }
}

function shown(progress: unknown): string | undefined {
  return typeof progress === 'string' ? progress : JSON.stringify(progress);
}
