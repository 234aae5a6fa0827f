import type { Millis } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/error-code.ts';
import type { FailureFilter } from './deliveries.ts';
import type { StepQuery } from './upkeep.ts';

/** The part of the store port that closes open failures without sending them. */
export interface DismissalStore {
  /** Returns the ids of streams with open failures, in order: all of them, or those among these. */
  streams(tenant: number, among: readonly string[] | undefined): Promise<string[]>;
  /**
   * Returns the open failures of a stream that match, by the code of their last failed attempt; those
   * that are being redelivered count.
   */
  groups(tenant: number, stream: string, filter: DismissalFilter): Promise<FailureGroup[]>;
  /**
   * Closes every failed row of a stream that matches and was opened before the call: the row is
   * removed, the history gets a `dismissed` entry, `total` falls and `consecutive` stays. Takes several
   * transactions where there are hundreds. `older_nodes`: a node runs that cannot read such entries.
   */
  dismiss(
    tenant: number,
    stream: string,
    filter: DismissalFilter,
  ): Promise<StreamDismissal | { readonly refused: 'older_nodes' }>;
  /** Stores the result of a request. */
  add(result: NewDismissal): Promise<Dismissal>;
  get(tenant: number, id: string): Promise<Dismissal | undefined>;
  /**
   * A step of upkeep, see {@link UpkeepStore}: deletes results of all tenants that are older than
   * `olderThanMs`, at most `take`. Returns how many.
   */
  prune(query: StepQuery): Promise<number>;
}

/** Selects open failures of a stream, combined with AND. */
export interface DismissalFilter extends FailureFilter {
  readonly eventIds?: readonly string[] | undefined;
  /** Applied to the time at which the record was opened: `failedFrom` inclusive, `failedTo` exclusive. */
  readonly failedFrom?: Millis | undefined;
  readonly failedTo?: Millis | undefined;
  /** Applied to the last failed attempt; also the classes `http_4xx` and `http_5xx`. */
  readonly codes?: readonly string[] | undefined;
}

/** Open failures of one stream with the same error code. */
export interface FailureGroup {
  readonly stream: string;
  readonly code: ErrorCode | undefined;
  readonly count: number;
  readonly firstFailedAt: Millis;
  readonly lastFailedAt: Millis;
  /** The newest of them. */
  readonly sample: {
    readonly eventId: string;
    readonly eventType: string;
    readonly error: string | undefined;
  };
}

/** What became of the matching failures of one stream. */
export interface StreamDismissal {
  readonly dismissed: number;
  /** Those that are being redelivered. */
  readonly redelivering: number;
  /**
   * Those above the cursor. Their rows keep the next owner from sending their events again, so they are
   * left until the cursor has passed them.
   */
  readonly above: number;
}

/** A result to store. */
export type NewDismissal = Omit<Dismissal, 'createdAt'>;

/** The result of one request. */
export interface Dismissal {
  readonly tenant: number;
  /** `dsm_` and 22 base58 characters. */
  readonly id: string;
  readonly dismissed: number;
  /** Matching failures that stay open. */
  readonly skipped: number;
  readonly createdAt: Millis;
  /** Id of the client that sent it. */
  readonly createdBy: string;
}
