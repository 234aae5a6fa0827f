import type { FailureGroup, FailureSelection } from './failures.ts';
import type { FailureWork, FailureWorkStore } from './failure-work.ts';

/**
 * The part of the store port that closes open failures without sending them: a step removes their rows,
 * their history gets a `dismissed` entry, `total` falls and `consecutive` stays.
 */
export interface DismissalStore extends FailureWorkStore {
  /** Returns the ids of streams with open failures, in order: all of them, or those among these. */
  streams(tenant: number, among: readonly string[] | undefined): Promise<string[]>;
  /**
   * Returns the open failures of a stream that match, by the code of their last failed attempt; those
   * that are being redelivered count.
   */
  groups(tenant: number, stream: string, filter: FailureSelection): Promise<FailureGroup[]>;
  get(tenant: number, id: string): Promise<Dismissal | undefined>;
  /**
   * Opens what a dismissal closed, in the steps of {@link FailureWorkStore.step}: failures of the log whose
   * events are kept, and that nothing has changed since. Nothing changes where an enabled stream would have `below`
   * open failures, or before the dismissal is done.
   */
  reopen(tenant: number, id: string, below: number): Promise<Reopened>;
}

export type Reopened =
  | 'accepted'
  | 'unknown'
  | { readonly refused: 'running' }
  | { readonly refused: 'too_many_failures'; readonly stream: string };

/** A request (`dsm_…`) and its progress. */
export interface Dismissal extends FailureWork {
  readonly status: 'running' | 'done';
  readonly dismissed: number;
  /**
   * Those that are being redelivered, or were closed before their turn, or whose stream was deleted; and
   * those above the cursor of their stream: their rows keep the next owner from sending their events
   * again.
   */
  readonly skipped: number;
  /** Those that were opened again. */
  readonly reopened: number;
}
