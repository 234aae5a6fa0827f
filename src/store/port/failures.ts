import type { Millis } from '../../core/clock.ts';
import type { GroupSort } from '../../core/page.ts';
import type { ErrorCode } from '../../core/error-code.ts';
import type { Attempt, DeliveredEvent } from '../../core/types.ts';
import type { FailureFilter } from './deliveries.ts';
import type { Page } from './page.ts';

/** The part of the store port that reads the failures of all streams of a tenant. */
export interface FailureStore {
  /**
   * Returns open failures and deliveries that wait for a retry, newest first: by when the failure was
   * opened, or the cycle began. Reads a bounded number of rows, and may return fewer than `take`, or
   * none, with `next`.
   */
  list(tenant: number, query: ListQuery): Promise<Page<ListedDelivery>>;
  /** Returns the open failures by stream and error code. */
  groups(tenant: number, query: GroupQuery): Promise<FailureGroups>;
}

/** Selects open failures, combined with AND. */
export interface FailureSelection extends FailureFilter {
  readonly eventIds?: readonly string[] | undefined;
  /** Applied to the time at which the record was opened: `failedFrom` inclusive, `failedTo` exclusive. */
  readonly failedFrom?: Millis | undefined;
  readonly failedTo?: Millis | undefined;
  /** Of the last failed attempt; also the classes `http_4xx` and `http_5xx`. */
  readonly codes?: readonly string[] | undefined;
}

export interface ListQuery extends FailureSelection {
  readonly streams?: readonly string[] | undefined;
  /** `failed`: open failures. `retrying`: deliveries that wait for a retry and are no failures. */
  readonly statuses: readonly ('failed' | 'retrying')[];
  /** The `next` of the page before. */
  readonly after: string | undefined;
  readonly take: number;
  readonly bytesMax: number;
}

/** An open failure, or a delivery that waits for a retry. */
export interface ListedDelivery {
  readonly stream: string;
  readonly event: DeliveredEvent;
  /** Oldest first, at most the newest 100. */
  readonly attempts: readonly Attempt[];
  readonly code: ErrorCode | undefined;
  /** When the failure was opened; absent for what waits for a retry. */
  readonly failedAt: Millis | undefined;
  /** When the next attempt is due, if it waits for one and may be sent. */
  readonly nextAttemptAt: Millis | undefined;
}

export interface GroupQuery {
  readonly streams?: readonly string[] | undefined;
  readonly codes?: readonly string[] | undefined;
  /** `-count` by default. */
  readonly sort?: GroupSort | undefined;
  /** The `next` of the page before. */
  readonly after: string | undefined;
  readonly take: number;
}

export interface FailureGroups extends Page<FailureGroup> {
  /** Groups on all pages. */
  readonly total: number;
  /** The time of the store. */
  readonly now: Millis;
}

/** Open failures of one stream with the same error code. */
export interface FailureGroup {
  readonly stream: string;
  readonly code: ErrorCode | undefined;
  readonly count: number;
  /** When the first and the last of them were opened. */
  readonly firstFailedAt: Millis;
  readonly lastFailedAt: Millis;
  /** When an attempt failed last with this code; absent for a selection of failures. */
  readonly lastAttemptAt: Millis | undefined;
  /** The one with that attempt if it is still open, else the newest of them. */
  readonly sample: {
    readonly eventId: string;
    readonly eventType: string;
    readonly error: string | undefined;
  };
}
