import type { DeliveryKind, Health, Offset } from '../core/types.ts';
import type { ShortageChange } from './http/shortages.ts';
import type { DisabledBy } from '../store/port/settlement.ts';
import type { Replacement } from '../store/port/ownership.ts';

/**
 * A report of the dispatcher, for logs, metrics and tests. Texts in it are redacted; none has event
 * data.
 */
export type DeliveryReport =
  | AttemptReport
  /** A recorded failure disabled the stream. */
  | (StreamReport & {
      readonly kind: 'stream_disabled';
      readonly health: Health;
      readonly reason: DisabledBy;
    })
  /** The receiver of a stream with a schedule of its own is down: fresh events wait in the log… */
  | (StreamReport & { readonly kind: 'receiver_down' })
  /** …until it takes a delivery again. */
  | (StreamReport & { readonly kind: 'receiver_up' })
  /** The node owns the stream and sends from `cursor` on. */
  | (StreamReport & { readonly kind: 'stream_owned'; readonly cursor: Offset })
  /**
   * The node does not own the stream any more: it was deleted, has another owner, or is disabled
   * and has nothing left to send.
   */
  | (StreamReport & { readonly kind: 'stream_lost' })
  /** A batch of outcomes is in the store. */
  | { readonly kind: 'settled'; readonly outcomes: number }
  /** The store refused the text of one outcome; it was recorded without it. */
  | (StreamReport & {
      readonly kind: 'settle_culprit';
      readonly eventId: string;
      readonly error: unknown;
    })
  /**
   * The store refused an outcome even without its text. Its stream is abandoned for a while, and then sent
   * from its cursor again: no event is lost, and other streams are not affected.
   */
  | (StreamReport & {
      readonly kind: 'settle_stuck';
      readonly eventId: string;
      /** Of the stream. */
      readonly name: string;
      /** Of the error: a SQLSTATE, or one of SQLite. */
      readonly code: string;
      readonly error: unknown;
    })
  /** The store failed; commands are retried until they succeed. Reported once per outage. */
  | { readonly kind: 'store_unavailable'; readonly error: unknown }
  | { readonly kind: 'store_recovered' }
  /**
   * The store failed over or was restored; the node has dropped its memory of it and joined again.
   */
  | (Replacement & { readonly kind: 'store_replaced' })
  /** This node is short of something that deliveries need, or no longer is. */
  | (ShortageChange & { readonly kind: 'shortage' })
  /** An error that is no outage of the store; a command that failed is retried all the same. */
  | { readonly kind: 'unexpected'; readonly error: unknown };

/** One attempt has ended; its slot is free and its outcome about to be recorded. */
export type AttemptReport = StreamReport & {
  readonly kind: 'attempt';
  readonly eventId: string;
  readonly eventType: string;
  readonly deliveryKind: DeliveryKind;
  /** 1-indexed within the cycle. */
  readonly attempt: number;
  /** `failed`: no attempt follows, the delivery is a failure. */
  readonly result: 'delivered' | 'retry' | 'failed';
  readonly status: number | undefined;
  /** The error message of docs/http-api.md#attempt-errors; `undefined` when delivered. */
  readonly error: string | undefined;
  readonly durationMs: number;
  /**
   * From the acceptance of the event to the end of the attempt; `undefined` where this node did not
   * read the event from the log.
   */
  readonly sincePublishedMs: number | undefined;
};

interface StreamReport {
  readonly tenant: number;
  readonly stream: string;
}
