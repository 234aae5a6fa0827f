import type { Millis } from '../../core/clock.ts';
import type { StreamStatus } from '../../core/types.ts';
import type { AlertStanding, FailingStream } from '../port/alert-state.ts';

/** A stream with its counters, as the engines answer it. */
export interface FailingStreamRow {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly consecutive: number;
  readonly total: number;
  readonly disabled_at: Millis | null;
  /** One of the engine's words for yes or no. */
  readonly failed_within: boolean | number | null;
}

export function failingStreamOf(row: FailingStreamRow): FailingStream {
  const { id, name, status, consecutive, total, disabled_at } = row;
  const disabledAt = disabled_at ?? undefined;
  const failedWithin = Boolean(row.failed_within);
  return { id, name, status, health: { consecutive, total }, disabledAt, failedWithin };
}

/** Where a tenant stands, as the engines return it; nulls where there was no look. */
export interface StandingRow {
  readonly at: Millis | null;
  readonly state: string | null;
  /** One of the engine's words for yes or no. */
  readonly troubled: boolean | number | null;
}

export function standingOf({ at, state, troubled }: StandingRow): AlertStanding {
  const last = at === null || state === null ? undefined : { at, state };
  return { last, mayBeFailing: Boolean(troubled) };
}
