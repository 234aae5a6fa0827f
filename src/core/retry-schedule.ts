import type { DeliveryKind, DeliveryOptions, RetryOption, RetryPreset } from './types.ts';
import { hourMs } from './units.ts';

/** The rules for the waits of one cycle of attempts. */
export interface RetrySchedule {
  /** The waits between the attempts: attempt n is followed by `delaysMs[n - 1]`. */
  readonly delaysMs: readonly number[];
  /** The 4xx statuses that are retried. */
  readonly retry4xx: readonly number[];
  /** The longest wait that a receiver can request with `Retry-After`. */
  readonly retryAfterMaxMs: number;
  /** No attempt begins later than this after the first one; `undefined` without such a bound. */
  readonly cycleMaxMs: number | undefined;
  /** Whether waits above {@link spreadFromMs} differ a little from event to event. */
  readonly isSpread: boolean;
}

/** The schedule of LEAT_RETRY_DELAYS_MS and LEAT_RETRY_4XX; that of redeliveries and test events. */
export interface DefaultSchedule {
  readonly retryDelaysMs: readonly number[];
  readonly retry4xx: readonly number[];
}

/** The longest wait that a receiver can always request with `Retry-After`. */
export const retryAfterMaxMs = 60_000;

/** The end of a cycle with a schedule of its stream. */
export const cycleMaxMs = 72 * hourMs;

const hours = [5, 60, 300, 1800, 7200, 18_000, 36_000];

/** The waits of the presets in seconds (docs/http-api.md#retry-schedules-of-streams). */
const presetDelays: Readonly<Record<RetryPreset, readonly number[]>> = {
  quick: [1, 2, 4],
  hours,
  days: [...hours, 43_200, 86_400],
};

/** Returns the schedule for a delivery of this kind; an operator's redeliveries and tests have the default. */
export function scheduleFor(
  kind: DeliveryKind,
  delivery: DeliveryOptions | undefined,
  defaults: DefaultSchedule,
): RetrySchedule {
  const retry = kind === 'first' || kind === 'replay' ? delivery?.retry : undefined;
  if (retry === undefined) {
    const { retryDelaysMs: delaysMs, retry4xx } = defaults;
    return { delaysMs, retry4xx, retryAfterMaxMs, cycleMaxMs: undefined, isSpread: false };
  }
  const delaysMs = delaysOf(retry);
  return {
    delaysMs,
    retry4xx: (typeof retry === 'string' ? undefined : retry.retry4xx) ?? defaults.retry4xx,
    retryAfterMaxMs: Math.max(retryAfterMaxMs, ...delaysMs),
    cycleMaxMs,
    isSpread: true,
  };
}

/** Returns the options of a stream with its schedule: its own one, or that of LEAT_RETRY if that is set. */
export function withRetry(
  delivery: DeliveryOptions | undefined,
  retry: RetryOption | undefined,
): DeliveryOptions | undefined {
  return retry === undefined || delivery?.retry !== undefined ? delivery : { ...delivery, retry };
}

/** Returns the longest wait that the options of a stream lead to; 0 without a schedule of its own. */
export function longestDelayMs(delivery: DeliveryOptions | undefined): number {
  const retry = delivery?.retry;
  return retry === undefined ? 0 : Math.max(...delaysOf(retry)) * (1 + spread);
}

/** Returns the waits of a schedule in milliseconds. */
export function delaysOf(retry: RetryOption): readonly number[] {
  const seconds = typeof retry === 'string' ? presetDelays[retry] : retry.delaysSeconds;
  return seconds.map((delay) => delay * 1000);
}

/** Longer waits are spread, so that what failed together is not sent together again and again. */
const spreadFromMs = 10_000;
const spread = 0.1;

/**
 * Returns the wait after an attempt; a long one is up to a tenth longer or shorter, the same each time
 * for one attempt of an event: ids end at random, so no other randomness is needed.
 */
export function spreadDelay(delayMs: number, eventId: string, attempt: number): number {
  if (delayMs <= spreadFromMs) return delayMs;
  return Math.round(delayMs * (1 + spread * (2 * fractionOf(`${eventId} ${attempt}`) - 1)));
}

/** Returns the shortest and the longest wait that {@link spreadDelay} returns. */
export function spreadBounds(delayMs: number): { readonly minMs: number; readonly maxMs: number } {
  const most = delayMs <= spreadFromMs ? 0 : spread;
  return { minMs: Math.round(delayMs * (1 - most)), maxMs: Math.round(delayMs * (1 + most)) };
}

/** FNV-1a with 32 bits and a final mix, as a fraction of 1. */
function fractionOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
