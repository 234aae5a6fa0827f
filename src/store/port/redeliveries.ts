import type { FailureWork, FailureWorkStore } from './failure-work.ts';
import type { Page } from './page.ts';

/**
 * The part of the store port that redelivers failures of many streams: a step begins their cycles, or
 * cancels those that have not begun.
 */
export interface RedeliveryStore extends FailureWorkStore {
  get(tenant: number, id: string): Promise<Redelivery | undefined>;
  /** Returns the requests of a tenant, newest first; `after` is the `next` of the page before. */
  list(
    tenant: number,
    page: { readonly after: string | undefined; readonly take: number },
  ): Promise<Page<Redelivery>>;
  /**
   * Marks a request that is running as cancelled; its steps cancel what has not begun. `cancelling`: it
   * was cancelled before, and has steps left.
   */
  cancel(tenant: number, id: string): Promise<'cancelled' | 'cancelling' | 'over' | 'unknown'>;
}

/** A request (`rdl_…`) and its progress. */
export interface Redelivery extends FailureWork {
  readonly status: 'running' | 'done' | 'cancelled';
  readonly delivered: number;
  readonly failed: number;
  /**
   * Those that were being redelivered already or were closed before their turn, that were cancelled, or
   * whose stream was deleted.
   */
  readonly skipped: number;
}
