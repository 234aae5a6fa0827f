import type { Millis } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/error-code.ts';
import type { Health, Offset, StreamStatus } from '../../core/types.ts';

/**
 * The state of a stream that runs: the row of `runs`, and the columns of `streams` that govern it.
 */
export interface Run {
  /** The key of the stream in `attempts`. */
  readonly key: number;
  readonly tenant: number;
  readonly stream: string;
  readonly cursor: Offset;
  readonly run: number;
  readonly health: Health;
  readonly owner: string | null;
  readonly epoch: number;
  readonly status: StreamStatus;
  readonly version: number;
  /** Since when the stream is paused. */
  readonly pausedAt: Millis | null;
  /** The total of its pauses that ended. */
  readonly pausedMs: number;
  /** Set where a batch has such results: of its last success, and of its last failed attempt. */
  readonly deliveredAt?: Millis | undefined;
  readonly failed?: { readonly at: Millis; readonly code: ErrorCode } | undefined;
  /** Set where a batch or a change begins or ends the time in which attempts fail; it may do both. */
  readonly failing?: Failing | undefined;
}

/** A change of `failing_since`: when the oldest attempt began that failed since the last success. */
export interface Failing {
  /** There was a success. */
  readonly ends: boolean;
  /** When the oldest attempt began that failed after it. */
  readonly from: Millis | undefined;
}

/** The columns of a run. */
export interface RunRow extends Omit<Run, 'health' | 'pausedAt' | 'pausedMs'> {
  readonly paused_at: Millis | null;
  readonly paused_ms: number;
  readonly consecutive_failures: number;
  readonly total_failures: number;
}

/**
 * Returns the run of a row. Each property by its name: the rest of a destructured row took a twentieth of
 * the main thread where many streams settle.
 */
export function runOf(row: RunRow): Run {
  return {
    key: row.key,
    tenant: row.tenant,
    stream: row.stream,
    cursor: row.cursor,
    run: row.run,
    health: { consecutive: row.consecutive_failures, total: row.total_failures },
    owner: row.owner,
    epoch: row.epoch,
    status: row.status,
    version: row.version,
    pausedAt: row.paused_at,
    pausedMs: row.paused_ms,
  };
}
