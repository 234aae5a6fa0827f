import type { Millis } from '../../core/clock.ts';
import type { NewEvent, Appended, Offset, LogEvent } from '../../core/types.ts';
import type { StepQuery } from './upkeep.ts';

export interface LogStore {
  /**
   * Appends all of `events` at the next offsets, or none. Concurrent calls share a commit. Durable
   * when it resolves. A chosen id that the log has, or that an open failure of a pruned event has,
   * returns its first offset and writes nothing; so does a repeat within `events`. With another `content`
   * than the log has, or than an earlier one of `events`, it throws `StoreEventIdInUse`; an event without one counts
   * as the same.
   * Throws `StoreContentRefused` when the content of this call is at fault; calls in the same
   * commit are not affected. `waitedMs`: how long its caller has waited for the store already; with that,
   * too, it has its result in time.
   */
  append(tenant: number, events: readonly NewEvent[], waitedMs?: Millis): Promise<Appended[]>;
  /** Returns the last offset assigned, 0 when the log is empty. */
  head(tenant: number): Promise<Offset>;
  /** Returns the heads of several logs, in the order of `tenants`. */
  heads(tenants: readonly number[]): Promise<readonly Offset[]>;
  /**
   * Returns a mark for each block of tenants that has any, by the block's number; see
   * `core/tenant-blocks.ts`. The mark of a block changes when a log in it has grown, so that a
   * caller with many tenants reads the heads of a few only.
   */
  headMarks(): Promise<ReadonlyMap<number, string>>;
  /**
   * Returns events after `after` of the wanted types (all types when absent), oldest first, until
   * `take` events or `bytesMax` characters of bodies are reached (at least one event when any
   * matches). Scans a bounded number of offsets and days: `scannedTo` is where it stopped.
   */
  page(tenant: number, query: LogQuery): Promise<LogPage>;
  /**
   * Returns the oldest event of the log that was accepted at or after `since`; one past the head
   * when there is none. With 0 that is the oldest event.
   */
  firstSince(tenant: number, since: Millis): Promise<Offset>;
  /**
   * Removes the oldest events published longer ago than `olderThanMs`, at most `take`, and never
   * one that the cursor of an enabled stream has not passed. See `UpkeepStore` for how age is
   * measured. Events that open deliveries need are kept for these. Returns how many were removed.
   */
  prune(tenant: number, query: StepQuery): Promise<number>;
}

export interface LogQuery {
  readonly after: Offset;
  /** Last offset to scan; absent means up to the head. */
  readonly upTo?: Offset | undefined;
  readonly types?: readonly string[] | undefined;
  readonly take: number;
  readonly bytesMax: number;
}

export interface LogPage {
  readonly events: readonly LogEvent[];
  /** Every matching event up to here is in `events`, or at or before `after`. */
  readonly scannedTo: Offset;
}
