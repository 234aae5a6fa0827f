import type { Millis } from './clock.ts';
import { spreadDelay } from './retry-schedule.ts';

interface ReceivedResponse {
  readonly kind: 'response';
  readonly status: number;
  /** The first 2 KiB of the body, decoded with replacement, without NUL. */
  readonly text: string;
  /** True when the body goes on after `text`, which may then end within a secret. */
  readonly cut?: boolean;
  readonly retryAfter: string | undefined;
}

/** What the exchange saw of one attempt. */
export type AttemptResult =
  | ReceivedResponse
  | {
      readonly kind: 'error';
      readonly cause: TransportErrorKind;
      /** Short, and ours: never a text of the receiver. */
      readonly detail: string | undefined;
    };

/**
 * The request was not made for want of something of this node, such as file descriptors: no attempt of the
 * receiver, whatever became of it. `code` is that of the system, or one of ours.
 */
export interface Shortage {
  readonly kind: 'shortage';
  readonly code: string;
}

/** What became of a request. No rule about receivers takes a shortage. */
export type SendResult = AttemptResult | Shortage;

/** The result of an attempt that the dispatcher cut off, or that was never sent. */
export const cancelled: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };

/**
 * The causes of docs/http-api.md#attempt-errors; `cancelled` is an attempt that the dispatcher cut
 * off.
 */
export type TransportErrorKind =
  | 'dns'
  | 'refused'
  | 'reset'
  | 'tls'
  | 'protocol'
  | 'timeout'
  | 'blocked address'
  | 'authorization'
  | 'cancelled';

/**
 * What the retry rules make of an attempt; `error` is the message of
 * docs/http-api.md#attempt-errors.
 */
export type Decision =
  | { readonly result: 'delivered'; readonly status: number }
  /** The next attempt is due after `delayMs`. */
  | {
      readonly result: 'retry';
      readonly status: number | undefined;
      readonly error: string;
      readonly delayMs: number;
    }
  | {
      readonly result: 'failed';
      readonly status: number | undefined;
      readonly error: string;
      /** The receiver has said that it is gone for good. */
      readonly isGone?: true;
    };

export interface RetryRules {
  /** The waits between the attempts of a cycle: attempt n is followed by `retryDelaysMs[n - 1]`. */
  readonly retryDelaysMs: readonly number[];
  /** The event id where long waits differ from event to event: see `spreadDelay`. */
  readonly spreadBy?: string | undefined;
  /** The 4xx statuses that are retried. */
  readonly retry4xx: readonly number[];
  /** The longest wait that the receiver can request with `Retry-After`. */
  readonly retryAfterMaxMs: number;
  /** When the attempt ended; a `Retry-After` with a date counts from it. */
  readonly now: Millis;
}

/**
 * Decides what follows an attempt, by the table of docs/http-api.md#attempt-outcomes and the
 * schedule. `attempt` is 1-indexed within the cycle. The text of a response becomes part of the error
 * message as it is: it was searched for secrets before.
 */
export function decide(result: AttemptResult, attempt: number, rules: RetryRules): Decision {
  const nextDelayMs = rules.retryDelaysMs[attempt - 1];
  const { spreadBy } = rules;
  const waitMs =
    nextDelayMs === undefined || spreadBy === undefined
      ? nextDelayMs
      : spreadDelay(nextDelayMs, spreadBy, attempt);
  return result.kind === 'response'
    ? decideByStatus(result, waitMs, rules)
    : decideByCause(result, waitMs);
}

/** Returns whether the result is a failure with a text, which is stored unless it has a secret. */
export function hasStoredText(result: AttemptResult): result is ReceivedResponse {
  return result.kind === 'response' && !isSuccess(result.status) && result.text !== '';
}

function decideByStatus(
  { status, text, retryAfter }: ReceivedResponse,
  nextDelayMs: number | undefined,
  { retry4xx, retryAfterMaxMs, now }: RetryRules,
): Decision {
  if (isSuccess(status)) return { result: 'delivered', status };
  const error = text === '' ? String(status) : `${status} - ${text}`;
  const mayRetry = isRetryable(status, retry4xx);
  if (status === 410 && !mayRetry) return { result: 'failed', status, error, isGone: true };
  if (nextDelayMs === undefined || !mayRetry) return { result: 'failed', status, error };
  // The receiver can lengthen a wait and never shorten it.
  const requestedMs = Math.min(retryAfterMs(retryAfter, now), retryAfterMaxMs);
  const delayMs = Math.max(nextDelayMs, requestedMs);
  return { result: 'retry', status, error, delayMs };
}

function decideByCause(
  { cause, detail }: AttemptResult & { readonly kind: 'error' },
  nextDelayMs: number | undefined,
): Decision {
  const error = detail === undefined ? cause : `${cause}: ${detail}`;
  if (nextDelayMs === undefined || cause === 'blocked address') {
    return { result: 'failed', status: undefined, error };
  }
  return { result: 'retry', status: undefined, error, delayMs: nextDelayMs };
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** RFC 9110 section 15: a status outside the five classes is treated as 5xx. */
function isRetryable(status: number, retry4xx: readonly number[]): boolean {
  if (status >= 400 && status < 500) return retry4xx.includes(status);
  return status < 200 || status >= 500;
}

/**
 * Returns `Retry-After` (RFC 9110 section 10.2.3) as a wait; 0 for none, the past, or anything
 * else.
 */
function retryAfterMs(value: string | undefined, now: Millis): number {
  if (value === undefined) return 0;
  const text = value.trim();
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : (httpDate(text, now) ?? 0) - now;
  return Math.max(waitMs, 0);
}

/** Parses the three forms of RFC 9110 section 5.6.7; `Date.parse` accepts far more. */
function httpDate(text: string, now: Millis): Millis | undefined {
  const parts = dateForms.map((form) => form.exec(text)?.groups).find((groups) => groups);
  if (parts === undefined) return undefined;
  const { day, month, year, hour, minute, second } = parts as Record<string, string>;
  const monthIndex = monthNames.indexOf(month ?? '');
  const at = (fullYear: number): Millis =>
    Date.UTC(fullYear, monthIndex, Number(day), Number(hour), Number(minute), Number(second));
  if (monthIndex < 0) return undefined;
  if (year?.length === 4) return at(Number(year));
  return at(fullYearOf(Number(year), new Date(now).getUTCFullYear()));
}

/** Returns the year with these two last digits that is nearest to now, the later one on a tie. */
function fullYearOf(twoDigits: number, yearNow: number): number {
  const candidate = yearNow - (yearNow % 100) + twoDigits;
  if (candidate - yearNow > 50) return candidate - 100;
  return candidate - yearNow <= -50 ? candidate + 100 : candidate;
}

const time = '(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)';
const dateForms = [
  new RegExp(`^[A-Z][a-z]{2}, (?<day>\\d\\d) (?<month>[A-Z][a-z]{2}) (?<year>\\d{4}) ${time} GMT$`),
  new RegExp(
    `^[A-Z][a-z]{5,8}, (?<day>\\d\\d)-(?<month>[A-Z][a-z]{2})-(?<year>\\d\\d) ${time} GMT$`,
  ),
  new RegExp(`^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \\d]\\d) ${time} (?<year>\\d{4})$`),
];
const monthNames = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
