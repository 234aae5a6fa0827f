import type { Millis } from '../../core/clock.ts';
import type { StreamStatus } from '../../core/types.ts';
import type { TroubledStream } from '../port.ts';

/** A stream with its counters, as the engines answer it. */
export interface TroubledRow {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly consecutive: number;
  readonly total: number;
  readonly disabled_at: Millis | null;
  /** One of the engine's words for yes or no. */
  readonly failed_within: boolean | number | null;
}

export function troubledOf(row: TroubledRow): TroubledStream {
  const { id, name, status, consecutive, total, disabled_at } = row;
  const disabledAt = disabled_at ?? undefined;
  const failedWithin = Boolean(row.failed_within);
  return { id, name, status, health: { consecutive, total }, disabledAt, failedWithin };
}
