import type { Setting } from '../core/setting.ts';
import { list, retryOption, wholeNumber } from '../core/value.ts';
import { dayMs, KIB, MIB } from '../core/units.ts';

/** Attempts, retries, and when a stream is disabled. */
export const deliverySettings = {
  retry: {
    variable: 'LEAT_RETRY',
    parse: retryOption,
    otherwise: 'as LEAT_RETRY_DELAYS_MS says',
    example: 'hours',
    doc: 'schedule of streams without one: quick, hours, days, or waits in seconds',
  },
  retryDelaysMs: {
    variable: 'LEAT_RETRY_DELAYS_MS',
    parse: list(wholeNumber(0, dayMs), 20),
    fallback: '1000,2000,4000',
    doc: 'waits between attempts in milliseconds, of redeliveries, test events, and where no schedule is set',
  },
  retry4xx: {
    variable: 'LEAT_RETRY_4XX',
    parse: list(wholeNumber(400, 499), 100),
    fallback: '408,429',
    doc: '4xx responses that are retried where a schedule names none; may be empty',
    mayBeEmpty: true,
  },
  attemptTimeoutMs: {
    variable: 'LEAT_ATTEMPT_TIMEOUT_MS',
    parse: wholeNumber(1, 600_000),
    fallback: '10000',
    doc: 'timeout of one attempt in milliseconds',
  },
  streamConcurrency: {
    variable: 'LEAT_STREAM_CONCURRENCY',
    parse: wholeNumber(1, 10_000),
    fallback: '64',
    doc: 'concurrent attempts, per stream',
  },
  concurrency: {
    variable: 'LEAT_CONCURRENCY',
    parse: wholeNumber(1, 100_000),
    fallback: '1024',
    doc: 'concurrent attempts, in total',
  },
  senderThreads: {
    variable: 'LEAT_SENDER_THREADS',
    parse: wholeNumber(0, 256),
    otherwise: 'one per core but one, at least 1',
    example: '4',
    doc: 'threads that sign and send webhooks; with 0 the main thread does',
  },
  connectionSeconds: {
    variable: 'LEAT_CONNECTION_SECONDS',
    parse: wholeNumber(1, 86_400),
    fallback: '60',
    doc: 'seconds after which a connection to a receiver carries no further request, also a busy one',
  },
  inflightBytesMax: {
    variable: 'LEAT_INFLIGHT_BYTES',
    parse: wholeNumber(1_048_576, 1_099_511_627_776),
    fallback: '268435456',
    doc: 'bytes of event bodies in concurrent attempts, in total; further attempts wait',
  },
  disableConsecutive: {
    variable: 'LEAT_DISABLE_CONSECUTIVE',
    parse: wholeNumber(1, 1_000_000),
    fallback: '500',
    doc: 'failures in a row that disable a stream',
  },
  disableTotal: {
    variable: 'LEAT_DISABLE_TOTAL',
    parse: wholeNumber(1, 10_000_000),
    fallback: '5000',
    doc: 'open failures that disable a stream and keep it from being enabled',
  },
} as const satisfies Record<string, Setting>;

/** Constants of the dispatcher and its runners; delivery/settings.ts documents each. */
export const deliveryLimits = {
  parkAfterMs: 1000,
  parkAfterEvents: 256,
  trialMs: 60_000,
  settleMs: 10,
  settleMax: 256,
  slowSlots: 4,
  unansweredBackoffMs: 250,
  unansweredPerSecond: 256,
  claimedBytes: 256 * KIB,
  leaseGraceMs: 5000,
  tailEventsMax: 10_000,
  tailBytesMax: 32 * MIB,
  pageEvents: 1000,
  pageBytes: 4 * MIB,
  lagOffsetsMax: 10_000,
  lagMs: 60_000,
  leaseMs: 10_000,
  leaseStopMs: 7000,
  heartbeatMs: 2500,
  pollMs: 5000,
} as const;
