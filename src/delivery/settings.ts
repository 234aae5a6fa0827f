import { leaseMsOf } from '../core/lease.ts';
import { longestDelayMs, retryAfterMaxMs, withRetry } from '../core/retry-schedule.ts';
import type { HealthLimits, RetryOption } from '../core/types.ts';

/**
 * Every number the dispatcher goes by; the defaults and constants are in `settings/delivery.ts`.
 */
export interface DeliverySettings {
  /** Attempts at once, per stream and of the whole node. */
  readonly streamConcurrency: number;
  readonly concurrency: number;
  /** Bytes of bodies of attempts under way, of the whole node. */
  readonly inflightBytesMax: number;
  /** Bytes counted for a row until it is claimed and the size of its body is known. */
  readonly claimedBytes: number;
  /** Attempts at once of a stream whose receiver is slow, at least. */
  readonly slowSlots: number;
  /** Pause of a stream after `slowSlots` attempts in a row without a response, at least… */
  readonly unansweredBackoffMs: number;
  /** …and longer, so that all such streams of a tenant begin this many attempts per second. */
  readonly unansweredPerSecond: number;
  /** The waits between the attempts of a cycle, which has one attempt more than these. */
  readonly retryDelaysMs: readonly number[];
  /** The schedule of streams without one of their own; `undefined` for that of `retryDelaysMs`. */
  readonly retry?: RetryOption | undefined;
  /** The 4xx statuses that are retried. */
  readonly retry4xx: readonly number[];
  readonly attemptTimeoutMs: number;
  readonly disable: HealthLimits;
  /** `Leat/<version>`. */
  readonly userAgent: string;
  /** LEAT_ATTRIBUTE_PREFIX. */
  readonly attributePrefix: string;
  /** After this time an attempt is slow, and gets a row so that the cursor can pass it… */
  readonly parkAfterMs: number;
  /** …or as soon as this many later events of its stream have settled. */
  readonly parkAfterEvents: number;
  /** Interval between two trials of a stream whose receiver is down. */
  readonly trialMs: number;
  /** Outcomes gather this long, or until there are this many, for one transaction. */
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
  /**
   * The cursor of a stream without matching events is written after this many offsets, or this
   * time.
   */
  readonly lagOffsetsMax: number;
  readonly lagMs: number;
  /** Other nodes do not take the node's streams for this long after a renewal of its lease… */
  readonly leaseMs: number;
  /** …it begins no attempts this long after it sent the last renewal, which is earlier… */
  readonly leaseStopMs: number;
  /** …and it renews at this interval. */
  readonly heartbeatMs: number;
  /** Interval of the poll for changes whose hints were lost. */
  readonly pollMs: number;
}

/** The clock of a store may be set back by this much without making a wait too long. */
const setBackMs = 60_000;

/**
 * Returns the longest wait of a row with these settings, for a retry or for the end of an attempt; a
 * stream with a schedule of its own has longer ones, see `waitRuleOf`. A row that waits longer was
 * written while the clock of the store was ahead, or with other settings.
 */
export function longestWaitMs(
  settings: Pick<DeliverySettings, 'attemptTimeoutMs' | 'leaseGraceMs' | 'retryDelaysMs' | 'retry'>,
): number {
  const ofDefault = longestDelayMs(withRetry(undefined, settings.retry));
  const lease = leaseMsOf(settings, undefined);
  const waits = [lease, retryAfterMaxMs, ofDefault, ...settings.retryDelaysMs];
  return Math.max(...waits) + setBackMs;
}
