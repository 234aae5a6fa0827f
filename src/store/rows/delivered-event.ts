import type { Millis } from '../../core/clock.ts';
import type { DeliveredEvent, Offset } from '../../core/types.ts';

/** The columns of a delivery that describe its event; `body` comes from the log or the row. */
export interface EventColumns {
  readonly event_id: string;
  readonly offset: Offset | null;
  readonly type: string;
  readonly time: Millis;
  readonly body: string | null;
  /** Present when the row is about to be sent; from the same source as `body`. */
  readonly trace?: string | null;
}

/** Returns the event of a delivery. A row without a body would break the guarantee of pruning. */
export function deliveredEventOf(row: EventColumns): DeliveredEvent {
  const { event_id: id, offset, type, time, body, trace } = row;
  if (body === null) throw new Error(`Neither the log nor the delivery has the body of ${id}.`);
  return { id, offset: offset ?? undefined, type, time, body, ...traced(trace) };
}

/** Returns the field of an event that most events lack. */
export function traced(trace: string | null | undefined): { trace?: string } {
  return trace === null || trace === undefined ? {} : { trace };
}
