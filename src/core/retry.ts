import type { Millis } from './clock.ts';
import { redact } from './redact.ts';

/** What came of one attempt, before anything is judged. */
export type PostResult =
  | {
      readonly kind: 'answered';
      readonly status: number;
      /** The first 2 KiB of the body, decoded with replacement, without NUL. */
      readonly text: string;
      /** True when the body went on after `text`; a secret may be cut off at its end then. */
      readonly cut?: boolean;
      readonly retryAfter: string | undefined;
    }
  | {
      readonly kind: 'broken';
      readonly cause: TransportErrorKind;
      /** Short, and ours: never a text of the receiver. */
      readonly detail: string | undefined;
    };

/** The words of docs/http-api.md#attempt-errors; `cancelled` is an attempt that the caller itself cut off. */
export type TransportErrorKind =
  'dns' | 'refused' | 'reset' | 'tls' | 'protocol' | 'timeout' | 'blocked address' | 'cancelled';

/** What an attempt means for its delivery. `message` is the error message of docs/http-api.md#attempt-errors. */
export type Verdict =
  | { readonly kind: 'delivered'; readonly status: number }
  | {
      readonly kind: 'retryable';
      readonly status: number | undefined;
      readonly message: string;
      /** What the receiver asked for, 0 when nothing; at most {@link retryAfterMaxMs}. */
      readonly retryAfterMs: number;
    }
  | { readonly kind: 'permanent'; readonly status: number | undefined; readonly message: string };

/** What is to be done next. */
export type Decision =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly waitMs: number; readonly message: string }
  | { readonly kind: 'fail'; readonly message: string };

export interface RetryRules {
  /** The 4xx statuses that are worth another attempt. */
  readonly retry4xx: readonly number[];
  /** What must not appear in a message: the stream's secrets in every form they are sent in. */
  readonly secrets: readonly string[];
  /** When the attempt ended; a `Retry-After` with a date counts from it. */
  readonly now: Millis;
}

/** Judges the result of an attempt by the table of docs/http-api.md#attempt-outcomes. */
export function classify(result: PostResult, rules: RetryRules): Verdict {
  if (result.kind === 'broken') return classifyTransportError(result);
  const { status } = result;
  if (status >= 200 && status < 300) return { kind: 'delivered', status };
  const text = redact(result.text, rules.secrets, result.cut === true);
  const message = text === '' ? String(status) : `${status} - ${text}`;
  if (!isWorthRetrying(status, rules.retry4xx)) return { kind: 'permanent', status, message };
  return {
    kind: 'retryable',
    status,
    message,
    retryAfterMs: retryAfterMs(result.retryAfter, rules.now),
  };
}

/**
 * Decides by the schedule. `attempt` is 1-indexed within the cycle; attempt n is followed by
 * `delaysMs[n - 1]`. What the receiver asked for lengthens a wait and never shortens it.
 */
export function decide(verdict: Verdict, attempt: number, delaysMs: readonly number[]): Decision {
  if (verdict.kind === 'delivered') return { kind: 'delivered' };
  const { message } = verdict;
  const delayMs = delaysMs[attempt - 1];
  if (verdict.kind === 'permanent' || delayMs === undefined) return { kind: 'fail', message };
  return { kind: 'retry', waitMs: Math.max(delayMs, verdict.retryAfterMs), message };
}

/** A receiver can hold its own events back by this much at most. */
export const retryAfterMaxMs = 60_000;

function classifyTransportError({
  cause,
  detail,
}: PostResult & { readonly kind: 'broken' }): Verdict {
  const message = detail === undefined ? cause : `${cause}: ${detail}`;
  return cause === 'blocked address'
    ? { kind: 'permanent', status: undefined, message }
    : { kind: 'retryable', status: undefined, message, retryAfterMs: 0 };
}

/** RFC 9110 section 15: what lies outside the five classes is treated as 5xx. */
function isWorthRetrying(status: number, retry4xx: readonly number[]): boolean {
  if (status >= 400 && status < 500) return retry4xx.includes(status);
  return status < 200 || status >= 500;
}

/** `Retry-After` (RFC 9110 section 10.2.3) as a wait; 0 for none, the past, or anything else. */
function retryAfterMs(value: string | undefined, now: Millis): number {
  if (value === undefined) return 0;
  const text = value.trim();
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : (httpDate(text, now) ?? 0) - now;
  return Math.min(Math.max(waitMs, 0), retryAfterMaxMs);
}

/** The three forms of RFC 9110 section 5.6.7. Read by hand: `Date.parse` takes far more. */
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

/** Of two digits: the year nearest to now, and of two as near the one ahead. */
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
