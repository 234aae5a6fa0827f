import { retryAfterMaxMs } from '../core/retry.ts';
import type { HealthLimits } from '../core/types.ts';

/** Every number the dispatcher goes by; the defaults and constants are in `settings/delivery.ts`. */
export interface DeliverySettings {
  /** Attempts at once, per stream and of the whole node. */
  readonly streamConcurrency: number;
  readonly concurrency: number;
  /** Bytes of bodies of attempts under way, of the whole node. */
  readonly inflightBytesMax: number;
  /** Counted for a row until it is claimed and the size of its body is known. */
  readonly claimedBytes: number;
  /** Attempts at once of a stream whose receiver is slow, at least. */
  readonly slowSlots: number;
  /** A stream pauses for so long after as many attempts in a row that failed without a response… */
  readonly unansweredBackoffMs: number;
  /** …or longer: of all such streams of a tenant so many attempts begin in a second. */
  readonly unansweredPerSecond: number;
  /** The waits between the attempts of a cycle, which has one attempt more than these. */
  readonly retryDelaysMs: readonly number[];
  /** The 4xx statuses that are tried again. */
  readonly retry4xx: readonly number[];
  readonly attemptTimeoutMs: number;
  readonly disable: HealthLimits;
  /** Of the requests, `Leat/<version>`. */
  readonly userAgent: string;
  /** LEAT_ATTRIBUTE_PREFIX. */
  readonly attributePrefix: string;
  /** An attempt is slow, and gets a row, so that the cursor can pass it, after this time… */
  readonly parkAfterMs: number;
  /** …or as soon as this many later events of its stream have settled. */
  readonly parkAfterEvents: number;
  /** Results gather this long, or until there are this many, for one transaction. */
  readonly settleMs: number;
  readonly settleMax: number;
  /** A row of an attempt under way is due this long after the attempt must have ended. */
  readonly leaseGraceMs: number;
  /** Events in memory per tenant, by count and by characters of bodies. */
  readonly tailEventsMax: number;
  readonly tailBytesMax: number;
  /** Events read from the store at once, by count and by characters of bodies. */
  readonly pageEvents: number;
  readonly pageBytes: number;
  /** A cursor with nothing to do is written after so many offsets, or so long. */
  readonly lagOffsetsMax: number;
  readonly lagMs: number;
  /** Nobody else takes the node's streams for so long after a renewal of its lease… */
  readonly leaseMs: number;
  /** …it begins nothing any more so long after it sent the last one, which is earlier… */
  readonly leaseStopMs: number;
  /** …and it renews so often. */
  readonly heartbeatMs: number;
  /** How often the node looks by itself for what it was not told. */
  readonly pollMs: number;
}

/** How long a row belongs to an attempt that is under way: longer than attempts last. */
export function leaseMsOf({
  attemptTimeoutMs,
  leaseGraceMs,
}: Pick<DeliverySettings, 'attemptTimeoutMs' | 'leaseGraceMs'>): number {
  return attemptTimeoutMs + leaseGraceMs;
}

/** The clock of a store may be set back by this much without a wait becoming too long by it. */
const setBackMs = 60_000;

/**
 * No row waits longer by these settings, whether for a retry or for the end of an attempt. One that
 * would was written while the clock of the store was ahead, or with other settings.
 */
export function longestWaitMs(
  settings: Pick<DeliverySettings, 'attemptTimeoutMs' | 'leaseGraceMs' | 'retryDelaysMs'>,
): number {
  const waits = [leaseMsOf(settings), retryAfterMaxMs, ...settings.retryDelaysMs];
  return Math.max(...waits) + setBackMs;
}
