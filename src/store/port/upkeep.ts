import type { Millis } from '../../core/clock.ts';
import type { Offset, StreamStatus } from '../../core/types.ts';

/**
 * The part of the store port that enforces the retention. Ages are measured by the store's clock,
 * and never from a later instant than the newest event of the store: a clock that is ahead does not
 * make an event old that was published within the retention before that newest event.
 *
 * Steps are bounded in rows and time. None holds a lock that publishing or delivering needs for
 * more than some milliseconds, and none waits for one: a step that finds something in use leaves it
 * to a later call. A step returns how much it did; 0 means that there is nothing to do now.
 */
export interface UpkeepStore {
  /**
   * Acquires or renews the lease on the upkeep of this store, for `leaseMs`. Returns false while
   * another process holds it.
   */
  lead(leader: string, leaseMs: number): Promise<boolean>;
  /** Ends the lease if `leader` holds it. */
  resign(leader: string): Promise<void>;
  /**
   * Creates partitions for the events and the history of the next days, where the engine needs
   * them.
   */
  prepare(): Promise<void>;
  /**
   * Returns tenants after `after` that may have events to prune (see {@link LogStore.prune}), in
   * order of id. `next` is absent when there are no more.
   */
  tenantsToPrune(query: {
    readonly olderThanMs: number;
    readonly after: number;
    readonly take: number;
  }): Promise<{ readonly tenants: readonly number[]; readonly next: number | undefined }>;
  /** Frees the space of pruned events, except for the bodies that open deliveries need. */
  dropEvents(query: StepQuery): Promise<number>;
  /**
   * Continues a pass over kept bodies and kept history, and removes those that no delivery needs.
   * Returns how many it checked, needed or not; 0 once the pass has reached the end, and the next
   * call starts another one.
   */
  releaseKept(query: { readonly take: number }): Promise<number>;
  /** Returns free space of the store to the file system, where the engine does not do so itself. */
  shrink(): Promise<number>;
  /**
   * Returns, for a few tenants after `after`: enabled streams whose oldest unsettled event is older
   * than `olderThanMs`, streams with a recorded percentage, and streams disabled for their lag
   * whose alert is not yet recorded as stored. `next` is absent when there are no more tenants.
   */
  lagging(query: {
    readonly olderThanMs: number;
    readonly after: number;
  }): Promise<{ readonly streams: readonly LaggingStream[]; readonly next: number | undefined }>;
  /**
   * Records the percentage of the bound on lag that was reported, or, with 0 for a disabled stream,
   * that the alert about it is stored. Does nothing if another percentage was recorded since it was
   * listed.
   */
  noteLag(stream: LaggingStream, percent: number): Promise<void>;
  /**
   * Disables the stream with the reason `lag` unless it has moved on since it was listed. Waiting
   * retries and untried tests become failures, as when it is disabled by hand. It stays listed
   * until {@link UpkeepStore.noteLag} records that its alert is stored.
   */
  disableLagging(stream: LaggingStream): Promise<boolean>;
  /**
   * Returns client certificates that have expired, or expire within `withinMs`, and are not yet recorded
   * as reported; those that expire first come first.
   */
  expiringCertificates(query: {
    readonly withinMs: number;
    readonly take: number;
  }): Promise<readonly ExpiringCertificate[]>;
  /** Records what was reported of a certificate. Does nothing if another one was stored since. */
  noteCertificate(certificate: ExpiringCertificate, reported: CertificateReport): Promise<void>;
}

/** What was reported of a certificate: that it expires soon, or that it has expired. */
export type CertificateReport = 'near' | 'expired';

/** The client certificate of a stream. */
export interface ExpiringCertificate {
  readonly tenant: number;
  readonly stream: string;
  readonly name: string;
  readonly expiresAt: Millis;
  /** Until then, by the store's clock; 0 or less once it has expired. */
  readonly leftMs: number;
}

/** The bounds of a step of upkeep. */
export interface StepQuery {
  readonly olderThanMs: number;
  /** Maximum rows to remove. */
  readonly take: number;
}

/** A stream that lags, or lagged until it was disabled for that. */
export interface LaggingStream {
  readonly tenant: number;
  readonly stream: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly cursor: Offset;
  /** Age of its oldest unsettled event; 0 when the lag is over or the event is pruned. */
  readonly lagMs: number;
  /** Percentage of the bound that was reported last, 0 for none. */
  readonly reportedPercent: number;
  /** How long ago that was, by the store's clock. */
  readonly reportedAgoMs: number;
}
