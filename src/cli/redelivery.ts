import type { Millis } from '../core/clock.ts';
import type { AttemptShown, FailureShown } from './deliveries.ts';

/** How a redelivery that was asked for goes on. */
export interface RedeliveryState {
  readonly asked: number;
  readonly delivered: number;
  /** Failed again, and nothing more is tried. */
  readonly failed: number;
  readonly left: number;
}

const attemptsByDefault = 4;
/** The longest wait between two attempts, and the longest time of one, with some to spare. */
const quietMs = 90_000;

/** The state of failures that were asked for, by the records that are still there. */
export function redeliveryState(
  asked: ReadonlySet<string>,
  records: readonly FailureShown[],
  now: Millis,
): RedeliveryState {
  const open = records.filter(({ id }) => asked.has(id));
  const failed = open.filter(({ attempts }) => hasEnded(attempts, now)).length;
  return {
    asked: asked.size,
    delivered: asked.size - open.length,
    failed,
    left: open.length - failed,
  };
}

/**
 * Whether the newest cycle of attempts is over. The records do not say so: what tells it are an
 * error that is never retried, as many attempts as the former cycle had, or that nothing has
 * happened for longer than any wait.
 */
export function hasEnded(attempts: readonly AttemptShown[], now: Millis): boolean {
  const last = attempts.at(-1);
  if (last === undefined || last.status === 'retrying') return false;
  const start = attempts.findLastIndex(({ status }) => status === 'retrying');
  // The redelivery that was asked for is not on record yet.
  if (start < 0) return false;
  if (isPermanent(last.error_message ?? '')) return true;
  const isFull = attempts.length - start - 1 >= cycleLength(attempts.slice(0, start));
  return isFull || now - Date.parse(last.timestamp) > quietMs;
}

/** Attempts of the newest of the former cycles that came to the end of its retries. */
function cycleLength(former: readonly AttemptShown[]): number {
  const last = former.at(-1);
  if (last === undefined) return attemptsByDefault;
  const start = former.findLastIndex(({ status }) => status === 'retrying');
  const length = former.length - start - 1;
  // One that ended early tells nothing; of a long history only the newest hundred are shown.
  const isTold = length > 0 && !isPermanent(last.error_message ?? '') && start >= 0;
  if (isTold || (start < 0 && !isPermanent(last.error_message ?? ''))) return length;
  return start < 0 ? attemptsByDefault : cycleLength(former.slice(0, start));
}

/** docs/http-api.md#attempt-outcomes: what is not tried again within a cycle. */
function isPermanent(error: string): boolean {
  if (error.startsWith('blocked address') || error === 'The event stream is disabled') return true;
  const status = Number(/^(?<status>[34][0-9]{2})(?: - |$)/.exec(error)?.groups?.['status'] ?? 0);
  return status >= 300 && status !== 408 && status !== 429;
}
