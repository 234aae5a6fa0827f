import { attemptNumbers } from '../core/attempt-numbers.ts';
import { formatTime } from '../core/date.ts';
import { errorCodeOf } from '../core/attempt-error.ts';
import { formatOffset } from '../core/offset.ts';
import type { Attempt } from '../core/types.ts';
import type { AttemptShown, StreamAttemptShown, TracedEventShown } from '../schemas/event-log.ts';
import { type EventDelivery, historyMax, type StreamAttempt } from '../store/port/event-log.ts';

/** Attempts of one delivery that are shown. */
const shownMax = 20;

/**
 * Returns what became of an event at one stream (docs/http-api.md#states-of-an-event).
 *
 * @param isRecent whether the event is younger than all attempts that may have been removed
 */
export function showEventDelivery(
  delivery: EventDelivery,
  isRecent: boolean,
): TracedEventShown['deliveries'][number] {
  const { stream, name, state, nextAttemptAt, attempts } = delivery;
  const numbers = attemptNumbers(attempts, isRecent ? isShort(delivery) : isKept(delivery));
  const isPruned =
    state === 'delivered' && !attempts.some(({ outcome }) => outcome === 'delivered');
  return {
    event_stream_id: stream,
    name,
    state,
    ...(nextAttemptAt === undefined ? {} : { next_attempt_at: formatTime(nextAttemptAt) }),
    ...(isPruned ? { attempts_pruned: true } : {}),
    attempts: attempts
      .map((attempt, index): AttemptShown => {
        const number = numbers[index];
        return { ...(number === undefined ? {} : { attempt: number }), ...showEntry(attempt) };
      })
      .slice(-shownMax),
  };
}

function isShort({ attempts }: EventDelivery): boolean {
  return attempts.length < historyMax;
}

const openStates: ReadonlySet<EventDelivery['state']> = new Set([
  'failed',
  'retrying',
  'in_progress',
  'blocked',
]);

/** Returns whether the history is that of one open delivery, which stays until it ends. */
function isKept(delivery: EventDelivery): boolean {
  const { state, attempts } = delivery;
  const isOne = !attempts.some(({ outcome }) => outcome === 'delivered' || outcome === 'dismissed');
  return openStates.has(state) && isOne && isShort(delivery);
}

/** Returns one attempt of a stream. */
export function showStreamAttempt({ offset, event, attempt }: StreamAttempt): StreamAttemptShown {
  return {
    ...(event === undefined ? {} : { event_id: event.id, event_type: event.type }),
    offset: formatOffset(offset, event?.id),
    ...showEntry(attempt),
  };
}

function showEntry(attempt: Attempt): Omit<AttemptShown, 'attempt'> {
  const { at, durationMs, outcome, status, error } = attempt;
  const timestamp = formatTime(at);
  if (outcome === 'redelivered') return { timestamp, status: 'retrying' };
  if (outcome === 'dismissed') return { timestamp, status: 'dismissed' };
  const http = status === undefined ? {} : { http_status: status };
  const request = { timestamp, status: outcome, duration: durationMs, ...http };
  if (outcome === 'delivered') return request;
  return { ...request, error_code: errorCodeOf(attempt), error_message: error ?? '' };
}
