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
  /** 0 or 1 where the engine has no truth values. */
  readonly failed_within: boolean | number;
}

export function troubledOf(row: TroubledRow): TroubledStream {
  const { id, name, status, consecutive, total, disabled_at } = row;
  const disabledAt = disabled_at ?? undefined;
  const failedWithin = Boolean(row.failed_within);
  return { id, name, status, health: { consecutive, total }, disabledAt, failedWithin };
}
