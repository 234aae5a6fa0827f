import type { Decision } from '../../core/retry.ts';
import type { DeliveredEvent, DeliveryKind, Health, Offset } from '../../core/types.ts';

/** What a node asks the store to record for one stream. */
export interface Settlement {
  readonly tenant: number;
  readonly stream: string;
  readonly epoch: number;
  /** Only results of the stream's present run raise its cursor. */
  readonly run: number;
  /**
   * The version of the stream that the node works with. While it is not the present one, the cursor
   * is not raised over a change of subscriptions: the node has filtered later events without it.
   */
  readonly version: number;
  /** Every matching event up to here is settled, or has a row after this batch. */
  readonly cursor: Offset;
  /**
   * The settled events above the cursor that the node knows to be stored, for a stream that sends in
   * order, also those of a former run: a new owner does not send them again.
   */
  readonly settledAbove?: readonly Offset[] | undefined;
  /** In the order in which the attempts ended. */
  readonly outcomes: readonly Outcome[];
}

/** The end of one attempt, that it takes long and is parked, or that an event waits behind its key. */
export type Outcome = {
  readonly event: DeliveredEvent;
  readonly kind: DeliveryKind;
  /** 1-indexed within the cycle. */
  readonly attempt: number;
  /** Whether `deliveries` has a row for it, from before or from this batch. */
  readonly hasRow: boolean;
  /** See `order-key.ts`; of ordered first deliveries and their redeliveries. */
  readonly orderKey?: string | undefined;
} & (
  | { readonly result: 'blocked' }
  | {
      readonly result: 'parked';
      /** The row is due after this time unless it is settled before. */
      readonly leaseMs: number;
      /** No attempt is under way, as this node could not make it: its row waits like one for a retry. */
      readonly hasEnded?: true;
    }
  | (Decision & {
      /**
       * Set where the receiver has said that it is gone for good: the version of the stream that the attempt
       * was made for. The stream is disabled, unless it was changed since.
       */
      readonly goneVersion?: number | undefined;
      /** A retry begins at most so long after the cycle, except for pauses; else without a bound. */
      readonly cycleMaxMs?: number | undefined;
      /** How long ago the attempt began. */
      readonly agoMs: number;
      readonly durationMs: number;
    })
);

/** The end of one attempt. */
export type EndedOutcome = Exclude<Outcome, { readonly result: 'parked' | 'blocked' }>;

/** Why a batch disables a stream: failures reach a limit, or the receiver is gone for good. */
export type DisabledBy = 'consecutive' | 'total' | 'gone';

/** What the store recorded for one stream. */
export interface SettledStream {
  /** `lost`: another owner has the stream, or it was deleted; nothing was recorded for it. */
  readonly result: 'recorded' | 'lost';
  /** The present version of the stream, which is not the owner's after a change; 0 when lost. */
  readonly version: number;
  /** The present cursor; 0 when lost. */
  readonly cursor: Offset;
  /** The counters now; zeros when lost. */
  readonly health: Health;
  /**
   * The store knows more of the keys than its outcomes say: a retry became a failure, or the result
   * is of a batch that was recorded before.
   */
  readonly keysChanged?: boolean | undefined;
  /** Why this batch disabled the stream. */
  readonly disabledBy: DisabledBy | undefined;
}
