import type {
  HealthLimits,
  Offset,
  DeliveredEvent,
  DeliveryKind,
  Attempt,
  Health,
  Node,
} from '../../core/types.ts';

export interface SettleBatch {
  readonly node: Node;
  /** 1, 2, 3, … per incarnation of the node. */
  readonly batch: number;
  readonly settlements: readonly Settlement[];
  readonly limits: HealthLimits;
}

/** What happened on one stream. */
export interface Settlement {
  readonly tenant: number;
  readonly stream: string;
  readonly epoch: number;
  /** Only results of the stream's present run raise its cursor. */
  readonly run: number;
  /**
   * Of the stream that the node works by. Where that is not the present one, the cursor is not
   * raised over a change of subscriptions: the node has not judged what comes after by it.
   */
  readonly version: number;
  /** Every matching event up to here is settled, or has a row after this batch. */
  readonly cursor: Offset;
  /** In the order in which the attempts ended. */
  readonly outcomes: readonly Outcome[];
}

/** The end of one attempt, or that it takes long enough to be parked. */
export type Outcome = OutcomeOf & {
  readonly event: DeliveredEvent;
  readonly kind: DeliveryKind;
  /** 1-indexed within the cycle. */
  readonly attempt: number;
  /** Whether `deliveries` has a row for it, from before or from this batch. */
  readonly hasRow: boolean;
};

type OutcomeOf =
  /** Unless it is settled, the row is due after `leaseMs`. */
  | { readonly result: 'parked'; readonly leaseMs: number }
  | ({ readonly result: 'delivered' } & Attempted)
  /** The next attempt is due after `delayMs`. */
  | ({ readonly result: 'retry'; readonly delayMs: number; readonly error: string } & Attempted)
  | ({ readonly result: 'failed'; readonly error: string } & Attempted);

type Attempted = Pick<Attempt, 'durationMs' | 'status'> & {
  /** How long ago the attempt began. */
  readonly agoMs: number;
};

export interface SettleResult {
  /** Per settlement, in the same order. */
  readonly streams: readonly SettledStream[];
}

export interface SettledStream {
  /** `lost`: another owner has the stream, or it is gone; nothing was recorded for it. */
  readonly result: 'recorded' | 'lost';
  /** The stream's version now; differs from the owner's when someone changed it, 0 when lost. */
  readonly version: number;
  /** Where its cursor is now; 0 when lost. */
  readonly cursor: Offset;
  /** Set when this batch disabled the stream. */
  readonly disabled: (Health & { readonly reason: 'consecutive' | 'total' }) | undefined;
}
