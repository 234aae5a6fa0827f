import type { DeliveryState } from './types.ts';

/** What became of an event at one stream (docs/http-api.md#states-of-an-event). */
export type EventState =
  | 'failed'
  | 'retrying'
  | 'in_progress'
  | 'blocked'
  | 'dismissed'
  | 'delivered'
  | 'skipped'
  | 'filtered'
  | 'waiting';

/** What is known of an event at one stream. */
export interface EventEvidence {
  /** The state of its delivery, if that has a row. */
  readonly row: DeliveryState | undefined;
  /** The history has a success. */
  readonly isDelivered: boolean;
  /** A failure of it was dismissed. */
  readonly isDismissed: boolean;
  /** The stream began after it. */
  readonly isBeforeStart: boolean;
  /** The stream was subscribed to its type at some time. */
  readonly wasSubscribed: boolean;
  /** It is in a skipped range. */
  readonly isSkipped: boolean;
  /** It matched the selection of the stream at its offset. */
  readonly isSelected: boolean;
  /** The cursor is at its offset or has passed it. */
  readonly isPassed: boolean;
}

const statesOfRows: Readonly<Record<DeliveryState, EventState>> = {
  failed: 'failed',
  retrying: 'retrying',
  parked: 'in_progress',
  blocked: 'blocked',
};

/**
 * Returns the state by the first rule that holds; `undefined` when the event was not meant for the
 * stream. An event that the cursor has passed without any other trace was delivered, and its history
 * was removed.
 */
export function eventStateOf(evidence: EventEvidence): EventState | undefined {
  const { row } = evidence;
  if (row !== undefined) return statesOfRows[row];
  if (evidence.isDelivered) return 'delivered';
  if (evidence.isDismissed) return 'dismissed';
  if (evidence.isBeforeStart || !evidence.wasSubscribed) return undefined;
  if (evidence.isSkipped) return 'skipped';
  if (!evidence.isSelected) return 'filtered';
  return evidence.isPassed ? 'delivered' : 'waiting';
}
