import type { Millis } from '../../core/clock.ts';
import type { FailureGroup, FailureSelection } from './failures.ts';
import type { StepQuery } from './upkeep.ts';

/** The part of the store port that closes open failures without sending them. */
export interface DismissalStore {
  /** Returns the ids of streams with open failures, in order: all of them, or those among these. */
  streams(tenant: number, among: readonly string[] | undefined): Promise<string[]>;
  /**
   * Returns the open failures of a stream that match, by the code of their last failed attempt; those
   * that are being redelivered count.
   */
  groups(tenant: number, stream: string, filter: FailureSelection): Promise<FailureGroup[]>;
  /**
   * Closes every failed row of a stream that matches and was opened before the call: the row is
   * removed, the history gets a `dismissed` entry, `total` falls and `consecutive` stays. Takes several
   * transactions where there are hundreds. `older_nodes`: a node runs that cannot read such entries.
   */
  dismiss(
    tenant: number,
    stream: string,
    filter: FailureSelection,
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
