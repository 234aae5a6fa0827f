import type { Millis } from '../core/clock.ts';
import { decide, type AttemptResult } from '../core/retry.ts';
import { type DefaultSchedule, scheduleFor } from '../core/retry-schedule.ts';
import type { Stream } from '../core/types.ts';
import type { EndedOutcome, Outcome } from '../store/port/settlement.ts';
import type { InFlightAttempt } from './runner.ts';

/** Returns the outcome of an attempt that has ended. */
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
): EndedOutcome {
  const secrets = withTokens(attempt.template?.secrets ?? [], attempt.request?.tokens ?? []);
  const { kind, event } = attempt;
  const schedule = scheduleFor(kind, attempt.runner.stream.delivery, defaults);
  const { delaysMs: retryDelaysMs, retry4xx, retryAfterMaxMs, cycleMaxMs } = schedule;
  const spreadBy = schedule.isSpread ? event.id : undefined;
  const rules = { retryDelaysMs, retry4xx, retryAfterMaxMs, spreadBy, secrets, now: ended.now };
  const trial = trialOf(attempt, ended.elapsedMs);
  const before = trial === undefined ? attempt.attempt : trial.attempt;
  const { isGone, ...decision } = { isGone: false, ...decide(result, before, rules) };
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

/**
 * Returns both lists as one; the same one for the same lists, because texts are searched faster for a
 * list that was used before.
 */
function withTokens(secrets: readonly string[], tokens: readonly string[]): readonly string[] {
  if (tokens.length === 0) return secrets;
  const known = joined.get(secrets);
  if (known?.tokens === tokens) return known.all;
  const all = [...secrets, ...tokens];
  joined.set(secrets, { tokens, all });
  return all;
}

/** The last join of each list of secrets: each stream has one. */
const joined = new WeakMap<
  readonly string[],
  { readonly tokens: readonly string[]; readonly all: readonly string[] }
>();

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
