import type { Clock, Millis } from '../core/clock.ts';
import { redact } from '../core/redact.ts';
import { decide, hasStoredText, type AttemptResult } from '../core/retry.ts';
import { type DefaultSchedule, scheduleFor } from '../core/retry-schedule.ts';
import type { Stream } from '../core/types.ts';
import type { EndedOutcome, Outcome } from '../store/port/settlement.ts';
import type { InFlightAttempt } from './runner.ts';

/** Returns the outcome of an attempt that has ended, without the secrets that it was sent with. */
export function outcomeOf(
  attempt: Pick<
    InFlightAttempt,
    'event' | 'kind' | 'attempt' | 'hasRow' | 'orderKey' | 'startedMs' | 'template' | 'request'
  > & {
    readonly runner: { readonly stream: Pick<Stream, 'delivery'> };
    readonly trialDueMs?: number | undefined;
  },
  result: AttemptResult,
  ended: { readonly now: Millis; readonly elapsedMs: number },
  defaults: DefaultSchedule,
  clock: Pick<Clock, 'elapsedMs'>,
): EndedOutcome {
  const { kind, event } = attempt;
  const schedule = scheduleFor(kind, attempt.runner.stream.delivery, defaults);
  const { delaysMs: retryDelaysMs, retry4xx, retryAfterMaxMs, cycleMaxMs } = schedule;
  const spreadBy = schedule.isSpread ? event.id : undefined;
  const rules = { retryDelaysMs, retry4xx, retryAfterMaxMs, spreadBy, now: ended.now };
  const trial = trialOf(attempt, ended.elapsedMs);
  const before = trial === undefined ? attempt.attempt : trial.attempt;
  const storable = withoutSecrets(result, attempt, clock);
  const { isGone, ...decision } = { isGone: false, ...decide(storable, before, rules) };
  const isAgain = decision.result === 'retry';
  const agoMs = ended.elapsedMs - attempt.startedMs;
  return {
    ...decision,
    ...(isAgain && trial ? { delayMs: trial.leftMs } : {}),
    ...(isAgain && cycleMaxMs !== undefined ? { cycleMaxMs } : {}),
    ...(isGone && event.offset !== undefined ? { goneVersion: attempt.template?.version } : {}),
    event,
    kind,
    attempt: isAgain ? before : attempt.attempt,
    hasRow: attempt.hasRow,
    ...keyOf(attempt),
    agoMs,
    // To the microsecond: the clock is no more precise.
    durationMs: Math.round(agoMs * 1000) / 1000,
  };
}

/** Returns the key of an attempt for its outcome. */
export function keyOf({ orderKey }: Pick<InFlightAttempt, 'orderKey'>): Pick<Outcome, 'orderKey'> {
  return orderKey === undefined ? {} : { orderKey };
}

/**
 * Returns how a trial that fails leaves the schedule as it was: the attempt before it, and what is left
 * of the wait after that one.
 */
function trialOf(
  { attempt, trialDueMs }: { readonly attempt: number; readonly trialDueMs?: number | undefined },
  elapsedMs: number,
): { readonly attempt: number; readonly leftMs: number } | undefined {
  if (trialDueMs === undefined) return undefined;
  return { attempt: Math.max(1, attempt - 1), leftMs: Math.max(0, trialDueMs - elapsedMs) };
}

/** Returns the result with the text that is stored of a response: docs/http-api.md#redaction. */
function withoutSecrets(
  result: AttemptResult,
  { template, request }: Pick<InFlightAttempt, 'template' | 'request'>,
  clock: Pick<Clock, 'elapsedMs'>,
): AttemptResult {
  if (!hasStoredText(result)) return result;
  const secrets = [...(template?.secrets ?? []), ...(request?.tokens ?? [])];
  const begunMs = clock.elapsedMs();
  const isLate = (): boolean => clock.elapsedMs() - begunMs > searchMsMax;
  const redacted = redact(result.text, secrets, result.cut === true, isLate);
  return { ...result, text: 'text' in redacted ? redacted.text : notStored[redacted.withheld] };
}

/** A receiver can send a thousand responses at once. */
const searchMsMax = 10;

const notStored = {
  secret: '(not stored: the response repeats a secret of the stream)',
  time: `(not stored: the search of the response for secrets took more than ${searchMsMax} ms)`,
};

/** Returns by how many an outcome changes the rows that count against the stream's fresh work. */
export function rowsAdded({ kind, hasRow, result }: Outcome): number {
  if (kind === 'redelivery' || kind === 'replay') return 0;
  const after = result === 'parked' || result === 'retry' ? 1 : 0;
  return after - (hasRow ? 1 : 0);
}

/** Returns the outcome with its durations counted from `waitedMs` later. */
export function aged(outcome: Outcome, waitedMs: number): Outcome {
  if (outcome.result === 'blocked') return outcome;
  if (outcome.result === 'parked') {
    return { ...outcome, leaseMs: Math.max(0, outcome.leaseMs - waitedMs) };
  }
  const agoMs = outcome.agoMs + waitedMs;
  if (outcome.result !== 'retry') return { ...outcome, agoMs };
  return { ...outcome, agoMs, delayMs: Math.max(0, outcome.delayMs - waitedMs) };
}

/**
 * Returns the outcome without the receiver's part of its error message: the status, or the cause
 * without its detail, is left. `undefined` when nothing can be removed.
 */
export function withoutText(outcome: Outcome): Outcome | undefined {
  if (!('error' in outcome)) return undefined;
  const error = /^[a-z0-9 ]*/.exec(outcome.error)?.[0].trim() ?? '';
  return error === outcome.error ? undefined : { ...outcome, error };
}
