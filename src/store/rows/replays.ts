import type { Offset, Replay } from '../../core/types.ts';
import type { RowOf } from '../table.ts';
import type { tables } from '../tables.ts';

/** A replay with the state that commands need. */
export interface StoredReplay extends Replay {
  /** Events up to here have a row, or were skipped. */
  readonly position: Offset;
  /** The last event of the range. */
  readonly to: Offset;
  /** Where the stream's cursor was when the replay was accepted. */
  readonly passed: Offset;
  readonly types: readonly string[] | undefined;
  /** The chosen events of the range, in order; absent for all of them. */
  readonly offsets?: readonly Offset[] | undefined;
}

export type ReplayRow = RowOf<typeof tables.replays>;

/** Returns a replay with the state that commands need. */
export function storedReplayOf(row: ReplayRow): StoredReplay {
  const { tenant, stream, id, position, passed, matched, sent, failed, status } = row;
  return {
    tenant,
    stream,
    id,
    status,
    from: row.from_offset,
    matched,
    sent,
    failed,
    createdAt: row.created_at,
    finishedAt: row.finished_at ?? undefined,
    position,
    to: row.to_offset,
    passed,
    types: row.event_types === null ? undefined : (JSON.parse(row.event_types) as string[]),
    offsets: row.offsets === null ? undefined : (JSON.parse(row.offsets) as Offset[]),
  };
}

/** Returns a replay as the port has it. */
export function replayOf(stored: StoredReplay): Replay {
  const { tenant, stream, id, status, from, matched, sent, failed } = stored;
  const { createdAt, finishedAt } = stored;
  return { tenant, stream, id, status, from, matched, sent, failed, createdAt, finishedAt };
}
