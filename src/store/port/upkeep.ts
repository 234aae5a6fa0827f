import type { Offset, StreamStatus } from '../../core/types.ts';

/**
 * The part of the store port that keeps the store within its retention. Ages are measured by the
 * store's clock, and never from a later instant than the newest event of the store: a clock that
 * is ahead makes nothing old that was published within the retention before that event.
 *
 * Steps are bounded in rows and time. None holds a lock that publishing or delivering needs for
 * more than some milliseconds, and none waits for one: a step that finds something in use leaves
 * it to a later call. A step returns how much it did; 0 means that there is nothing to do now.
 */
export interface UpkeepStore {
  /**
   * Takes the lease on the upkeep of this store, or renews it, for `leaseMs`. False while another
   * process holds it.
   */
  lead(leader: string, leaseMs: number): Promise<boolean>;
  /** Ends the lease if `leader` holds it. */
  resign(leader: string): Promise<void>;
  /** Makes room for the events and the history of the next days, where the engine needs that. */
  prepare(): Promise<void>;
  /**
   * Tenants after `after` that may have events to prune (see {@link LogStore.prune}), in order of
   * id. `next` is absent when there are no more.
   */
  tenantsToPrune(query: {
    readonly olderThanMs: number;
    readonly after: number;
    readonly take: number;
  }): Promise<{ readonly tenants: readonly number[]; readonly next: number | undefined }>;
  /** Frees what pruned events occupy, except for the bodies that open deliveries need. */
  dropEvents(query: StepQuery): Promise<number>;
  /**
   * Goes on with a pass over kept bodies and kept history, and removes what of them no delivery needs.
   * Returns how much it checked, needed or not; 0 once the pass has reached the end, and the next call
   * begins another one.
   */
  releaseKept(query: { readonly take: number }): Promise<number>;
  /** Returns free space of the store to the file system, where the engine does not itself. */
  shrink(): Promise<number>;
  /**
   * Of a few tenants after `after`: enabled streams whose oldest event that is not settled is older
   * than `olderThanMs`, those for which a percentage is noted, and streams disabled for their lag
   * whose alert is not noted as stored. `next` is absent when there are no more tenants.
   */
  lagging(query: {
    readonly olderThanMs: number;
    readonly after: number;
  }): Promise<{ readonly streams: readonly LaggingStream[]; readonly next: number | undefined }>;
  /**
   * Notes the percentage of the bound on lag that was reported, or with 0 of a disabled stream that
   * the alert about that is stored. Does nothing when another one was noted since it was listed.
   */
  noteLag(stream: LaggingStream, percent: number): Promise<void>;
  /**
   * Disables the stream with the reason `lag` unless it has moved on since it was listed. Waiting
   * retries and untried tests become failures, as when it is disabled by hand. It is listed until
   * {@link UpkeepStore.noteLag} says that its alert is stored.
   */
  disableLagging(stream: LaggingStream): Promise<boolean>;
}

/** What a step of upkeep goes by. */
export interface StepQuery {
  readonly olderThanMs: number;
  /** Rows to remove at most. */
  readonly take: number;
}

/** A stream that is far behind, or was until it was disabled for that. */
export interface LaggingStream {
  readonly tenant: number;
  readonly stream: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly cursor: Offset;
  /** Age of its oldest event that is not settled; 0 when the lag is over or the event is pruned. */
  readonly lagMs: number;
  /** Percentage of the bound that was reported last, 0 for none. */
  readonly reportedPercent: number;
  /** How long ago that was, by the store's clock. */
  readonly reportedAgoMs: number;
}
