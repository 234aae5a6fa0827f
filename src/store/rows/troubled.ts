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
  readonly new_failures: number;
}

export function troubledOf(row: TroubledRow): TroubledStream {
  const { id, name, status, consecutive, total, disabled_at, new_failures: newFailures } = row;
  const disabledAt = disabled_at ?? undefined;
  return { id, name, status, health: { consecutive, total }, disabledAt, newFailures };
}
