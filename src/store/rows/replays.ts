import type { Offset, Replay } from '../../core/types.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { conversionOf } from './fields.ts';

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

export const { fieldsOf: storedReplayOf, cellsOf: cellsOfReplay } = conversionOf(tables.replays);

/** Returns a replay as the port has it. */
export function replayOf(stored: StoredReplay): Replay {
  const { tenant, stream, id, status, from, matched, sent, failed } = stored;
  const { createdAt, finishedAt } = stored;
  return { tenant, stream, id, status, from, matched, sent, failed, createdAt, finishedAt };
}
