import type { Clock, Millis } from '../../core/clock.ts';
import { sleep } from '../../core/sleep.ts';
import type { HttpResponse } from './http-client.ts';

/** Dependencies of {@link sendWithRetry}. */
export interface RetryDeps {
  readonly clock: Clock;
  /** Prints why the command waits. */
  readonly note: (text: string) => void;
  /** Ends a wait; no retry follows. */
  readonly signal: AbortSignal;
}

const retriesMax = 2;
const delayMsMax = 60_000;

/**
 * Sends a request up to three times while the response is a 429 or 503, waiting as `Retry-After`
 * asks (RFC 9110, section 10.2.3); not again when that is more than a minute. Only for requests
 * that can be repeated without harm. Returns the last response.
 */
export async function sendWithRetry(
  send: () => Promise<HttpResponse>,
  { clock, note, signal }: RetryDeps,
): Promise<HttpResponse> {
  for (let retry = 1; ; retry++) {
    const response = await send();
    const delayMs = retryDelayMs(response, clock.now());
    if (delayMs === undefined || retry > retriesMax) return response;
    const reason = response.status === 429 ? 'Too many requests' : 'The server is not ready';
    note(`${reason}; trying again in ${Math.ceil(delayMs / 1000)} s.`);
    await sleep(clock, delayMs, signal);
    if (signal.aborted) return response;
  }
}

/** Returns how long to wait before the next try; `undefined` when there is to be none. */
export function retryDelayMs(
  { status, headers }: Pick<HttpResponse, 'status' | 'headers'>,
  now: Millis,
): number | undefined {
  if (status !== 429 && status !== 503) return undefined;
  const text = headers['retry-after'] ?? '1';
  const delayMs = /^[0-9]+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  if (Number.isNaN(delayMs)) return 1000;
  return delayMs > delayMsMax ? undefined : Math.max(0, delayMs);
}
