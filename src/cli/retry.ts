import type { Clock, Millis } from '../core/clock.ts';
import type { HttpResponse } from './http/http.ts';

/** What repeating needs. */
export interface RetryDeps {
  readonly clock: Clock;
  /** Tells a person why nothing happens for a while. */
  readonly note: (text: string) => void;
}

const repeatsMax = 2;
const waitMsMax = 60_000;

/**
 * Sends until the answer is no 429 or 503, at most three times in all, and waits in between as long
 * as `Retry-After` asks for (RFC 9110 section 10.2.3); not at all when that is more than a minute.
 * Only for requests that a repeat does not harm. Answers the last answer.
 */
export async function sendWithRetry(
  send: () => Promise<HttpResponse>,
  { clock, note }: RetryDeps,
): Promise<HttpResponse> {
  for (let repeat = 1; ; repeat++) {
    const answer = await send();
    const delayMs = retryDelayMs(answer, clock.now());
    if (delayMs === undefined || repeat > repeatsMax) return answer;
    const why = answer.status === 429 ? 'Too many requests' : 'The server is not ready';
    note(`${why}; trying again in ${Math.ceil(delayMs / 1000)} s.`);
    await waitFor(clock, delayMs);
  }
}

/** How long to wait before a repeat; `undefined` when there is to be none. */
export function retryDelayMs(
  { status, headers }: Pick<HttpResponse, 'status' | 'headers'>,
  now: Millis,
): number | undefined {
  if (status !== 429 && status !== 503) return undefined;
  const text = headers['retry-after'] ?? '1';
  const delayMs = /^[0-9]+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  if (Number.isNaN(delayMs)) return 1000;
  return delayMs > waitMsMax ? undefined : Math.max(0, delayMs);
}

/** Resolves after a time. */
export function waitFor(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve);
  });
}
