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
}

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
}
