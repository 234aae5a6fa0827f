import type { Millis } from '../../core/clock.ts';
import type { StatsUnit, StoredCounts } from '../../core/delivery-stats.ts';

/**
 * The part of the store port with the statistics of deliveries. Nodes count in memory and record
 * minutes every few seconds, so what they have not recorded is lost when they crash. The counts of
 * `StreamStore.stats` are exact: settlements write them.
 */
export interface DeliveryStatsStore {
  /**
   * Records minutes of one writer, each as a whole: a repeated call changes nothing, and writers do not
   * affect each other. Leaves out streams and tenants that do not exist.
   */
  record(writer: string, minutes: readonly RecordedMinute[]): Promise<void>;
  /**
   * Returns the counts of a stream, or of a whole tenant, in a window. A unit of the window may come in
   * several parts, which its writers have counted or which are not added up yet.
   */
  read(
    about: { readonly tenant: number; readonly stream: string | undefined },
    window: { readonly unit: StatsUnit; readonly from: Millis; readonly to: Millis },
  ): Promise<readonly CountsAt[]>;
  /** Returns the histograms of latency of streams since an instant, in parts; see {@link read}. */
  latencies(
    tenant: number,
    streams: readonly string[],
    since: Millis,
  ): Promise<readonly { readonly stream: string; readonly latency: string }[]>;
  /**
   * A step of upkeep, see `UpkeepStore`: adds minutes up to hours, and hours up to days, some time after
   * their end. A step that is repeated changes nothing.
   */
  rollUp(): Promise<number>;
  /** A step of upkeep: removes what is older than is kept, unless it is not added up yet. */
  prune(query: { readonly take: number }): Promise<number>;
}

/** A minute as one writer has counted it so far. */
export interface RecordedMinute extends StoredCounts {
  readonly tenant: number;
  /** `undefined` for all streams of the tenant together. */
  readonly stream: string | undefined;
  /** Its start. */
  readonly at: Millis;
}

export interface CountsAt extends StoredCounts {
  /** Start of the minute, hour or day. */
  readonly at: Millis;
}
