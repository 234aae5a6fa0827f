import type { DeliveryKind, Health, Offset } from '../core/types.ts';
import type { Replacement } from '../store/port/ownership.ts';

/**
 * What the dispatcher tells about its work: for logs, metrics and tests. Texts in it are cleared of
 * the stream's secrets; none has event data.
 */
export type DeliveryReport =
  | AttemptReport
  /** A failure was recorded that brought the stream to a limit; it is disabled now. */
  | (StreamReport & {
      readonly kind: 'stream_disabled';
      readonly health: Health;
      readonly reason: 'consecutive' | 'total';
    })
  /** The node works for the stream from `cursor` on. */
  | (StreamReport & { readonly kind: 'stream_owned'; readonly cursor: Offset })
  /**
   * It no longer does: the stream was deleted, has another owner, or is disabled and has nothing
   * left to send.
   */
  | (StreamReport & { readonly kind: 'stream_lost' })
  /** A batch of results is in the store. */
  | { readonly kind: 'settled'; readonly outcomes: number }
  /** The store refused the texts of one result; it was recorded without them. */
  | (StreamReport & {
      readonly kind: 'settle_culprit';
      readonly eventId: string;
      readonly error: unknown;
    })
  /**
   * The store refused a result even without texts. Its stream is left alone until the next start,
   * which sends from its cursor again: nothing is lost, and the other streams go on.
   */
  | (StreamReport & {
      readonly kind: 'settle_stuck';
      readonly eventId: string;
      readonly error: unknown;
    })
  /** The store failed; the work is repeated until it goes through. Told once per outage. */
  | { readonly kind: 'store_unavailable'; readonly error: unknown }
  | { readonly kind: 'store_recovered' }
  /**
   * The store failed over or was restored. The node has dropped what it knew of the store and has
   * joined again.
   */
  | (Replacement & { readonly kind: 'store_replaced' })
  /** An error that is none of the store's outages: a bug. The work is repeated all the same. */
  | { readonly kind: 'unexpected'; readonly error: unknown };

/** One attempt has ended and its slot is free; what came of it is about to be recorded. */
export type AttemptReport = StreamReport & {
  readonly kind: 'attempt';
  readonly eventId: string;
  readonly eventType: string;
  readonly deliveryKind: DeliveryKind;
  /** 1-indexed within the cycle. */
  readonly attempt: number;
  /** `failed`: none follows, the delivery is a failure. */
  readonly result: 'delivered' | 'retry' | 'failed';
  readonly status: number | undefined;
  /** The error message of docs/http-api.md#attempt-errors; `undefined` when delivered. */
  readonly error: string | undefined;
  readonly durationMs: number;
  /**
   * From the acceptance of the event to the end of the attempt; `undefined` where this node did not
   * take the event from the log.
   */
  readonly sincePublishedMs: number | undefined;
};

interface StreamReport {
  readonly tenant: number;
  readonly stream: string;
}
