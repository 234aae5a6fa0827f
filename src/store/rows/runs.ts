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
}

/** The columns of a run. */
export interface RunRow extends Omit<Run, 'health'> {
  readonly consecutive_failures: number;
  readonly total_failures: number;
}

/** Returns a run with its counters, along with the other columns that were read. */
export function runOf<Row extends RunRow>({
  consecutive_failures: consecutive,
  total_failures: total,
  ...same
}: Row): Omit<Row, 'consecutive_failures' | 'total_failures'> & Pick<Run, 'health'> {
  return { ...same, health: { consecutive, total } };
}
