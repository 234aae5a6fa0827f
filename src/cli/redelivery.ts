import type { Millis } from '../core/clock.ts';
import type { AttemptShown, FailureShown } from './deliveries.ts';

/** Progress of a redelivery request. */
export interface RedeliveryState {
  /** Failures to send again. */
  readonly requested: number;
  readonly delivered: number;
  /** Failed again, without a further retry. */
  readonly failed: number;
  readonly left: number;
}

const attemptsByDefault = 4;
/** Longer than the longest wait between two attempts plus the longest attempt. */
const quietMs = 90_000;

/** Derives the progress of the requested failures from those that are still open. */
export function redeliveryState(
  requested: ReadonlySet<string>,
  records: readonly FailureShown[],
  now: Millis,
): RedeliveryState {
  const open = records.filter(({ id }) => requested.has(id));
  const failed = open.filter(({ attempts }) => hasEnded(attempts, now)).length;
  return {
    requested: requested.size,
    delivered: requested.size - open.length,
    failed,
    left: open.length - failed,
  };
}

/**
 * Returns whether the newest cycle of attempts is over. The API does not report that; it follows from
 * an error that is never retried, from as many attempts as the previous cycle had, or from no attempt
 * for longer than any retry delay.
 */
export function hasEnded(attempts: readonly AttemptShown[], now: Millis): boolean {
  const last = attempts.at(-1);
  if (last === undefined || last.status === 'retrying') return false;
  const start = attempts.findLastIndex(({ status }) => status === 'retrying');
  // The requested redelivery is not in the list yet.
  if (start < 0) return false;
  if (isPermanent(last.error_message ?? '')) return true;
  const isFull = attempts.length - start - 1 >= cycleLength(attempts.slice(0, start));
  return isFull || now - Date.parse(last.timestamp) > quietMs;
}

/** Returns how many attempts the newest previous cycle had that used all its retries. */
function cycleLength(previous: readonly AttemptShown[]): number {
  const last = previous.at(-1);
  if (last === undefined) return attemptsByDefault;
  const start = previous.findLastIndex(({ status }) => status === 'retrying');
  const length = previous.length - start - 1;
  // A cycle that ended early does not count. Only the newest hundred attempts are listed.
  const isComplete = length > 0 && !isPermanent(last.error_message ?? '') && start >= 0;
  if (isComplete || (start < 0 && !isPermanent(last.error_message ?? ''))) return length;
  return start < 0 ? attemptsByDefault : cycleLength(previous.slice(0, start));
}

/** Returns whether an error is not retried within a cycle (docs/http-api.md#attempt-outcomes). */
function isPermanent(error: string): boolean {
  if (error.startsWith('blocked address') || error === 'The event stream is disabled') return true;
  const status = Number(/^(?<status>[34][0-9]{2})(?: - |$)/.exec(error)?.groups?.['status'] ?? 0);
  return status >= 300 && status !== 408 && status !== 429;
}
