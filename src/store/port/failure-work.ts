import type { FailureSelection } from './failures.ts';
import type { StepQuery } from './upkeep.ts';

/**
 * Requests about many failures, which are accepted at once and worked on in steps: redeliveries and
 * dismissals. A request is about the failures that are open when it is accepted.
 */
export interface FailureWorkStore {
  /**
   * Stores a request for the failures that are open now, and counts them. Nothing else changes before
   * {@link FailureWorkStore.step}. `too_many`: 20 requests of the tenant have work left.
   */
  create(request: NewFailureWork): Promise<'accepted' | { readonly refused: 'too_many' }>;
  /**
   * Works on the next few hundred failures of a request. Several callers at once do no harm: what one
   * leaves undone another one continues. Upkeep removes history that is older than `historyMs`, but not of
   * what the step opens.
   */
  step(tenant: number, id: string, historyMs: number): Promise<StepResult>;
  /** Returns requests with work left, whoever has accepted them. */
  unfinished(take: number): Promise<readonly { readonly tenant: number; readonly id: string }[]>;
  /**
   * A step of upkeep, see `UpkeepStore`: deletes requests of all tenants without work that are older than
   * `olderThanMs`, at most `take`. Returns how many.
   */
  prune(query: StepQuery): Promise<number>;
}

/** `more`: there is more work. `waiting`: it waits for a stream, for two seconds at most. */
export type StepResult = 'more' | 'waiting' | 'done';

export interface NewFailureWork {
  readonly tenant: number;
  /** A prefix and 22 base58 characters. */
  readonly id: string;
  /** Absent for all streams. */
  readonly streams: readonly string[] | undefined;
  readonly selection: FailureSelection;
  /** Id of the client that sent it. */
  readonly createdBy: string;
}

/** What requests about many failures have in common when they are shown. */
export interface FailureWork {
  readonly id: string;
  /** Failures that matched when it was accepted; see {@link FailureWork.isAtLeast}. */
  readonly total: number;
  /** Those that stay as they are. */
  readonly skipped: number;
  /** There were too many failures to count at once: the total grows while the request takes them. */
  readonly isAtLeast: boolean;
  readonly createdAt: number;
  readonly createdBy: string;
}
