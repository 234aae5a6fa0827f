import type { Millis } from '../../core/clock.ts';
import type { FailureSelection } from './failures.ts';
import type { Page } from './page.ts';
import type { StepQuery } from './upkeep.ts';

/** The part of the store port that redelivers failures of many streams, one stream after the other. */
export interface RedeliveryStore {
  /**
   * Stores a request for the failures that are open now. {@link RedeliveryStore.step} begins their cycles.
   * `too_many`: 20 requests of the tenant have not begun all of their cycles.
   */
  create(request: NewRedelivery): Promise<'accepted' | { readonly refused: 'too_many' }>;
  /**
   * Begins the cycles of the next stream, or cancels those that have not begun. Returns true while there
   * are more streams. Several callers at once do no harm: what one leaves undone another one continues.
   */
  step(tenant: number, id: string): Promise<boolean>;
  /** Returns requests with work left, whoever has accepted them. */
  unfinished(take: number): Promise<readonly { readonly tenant: number; readonly id: string }[]>;
  get(tenant: number, id: string): Promise<Redelivery | undefined>;
  /** Returns the requests of a tenant, newest first; `after` is the `next` of the page before. */
  list(
    tenant: number,
    page: { readonly after: string | undefined; readonly take: number },
  ): Promise<Page<Redelivery>>;
  /** Marks a request that is running as cancelled; its steps cancel what has not begun. */
  cancel(tenant: number, id: string): Promise<'cancelled' | 'over' | 'unknown'>;
  /**
   * A step of upkeep, see `UpkeepStore`: deletes requests of all tenants without work that are older than
   * `olderThanMs`, at most `take`. Returns how many.
   */
  prune(query: StepQuery): Promise<number>;
}

export interface NewRedelivery {
  readonly tenant: number;
  /** `rdl_` and 22 base58 characters. */
  readonly id: string;
  /** Absent for all streams. */
  readonly streams: readonly string[] | undefined;
  readonly selection: FailureSelection;
  /** Id of the client that sent it. */
  readonly createdBy: string;
}

/** A request and its progress. */
export interface Redelivery {
  readonly id: string;
  readonly status: 'running' | 'done' | 'cancelled';
  /** Failures that it has taken. */
  readonly total: number;
  readonly delivered: number;
  readonly failed: number;
  /** Those that were being redelivered already, that were cancelled, or whose stream was deleted. */
  readonly skipped: number;
  readonly createdAt: Millis;
  readonly createdBy: string;
}
