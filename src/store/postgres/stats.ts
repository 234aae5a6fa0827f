import type { Millis } from '../../core/clock.ts';
import { dayMs, hourMs } from '../../core/units.ts';
import type { StreamRef } from '../../core/types.ts';
import { numbers, type Queries } from './database.ts';

/** How long hours are kept. */
const keptMs = 90 * dayMs;

/** Deliveries of a stream that ended: successes, and cycles that were exhausted. */
export interface EndedCounts extends StreamRef {
  readonly delivered: number;
  readonly failed: number;
}

/**
 * Adds to the hour of `now`; the first addition of an hour removes the stream's hours that are too
 * old. Written apart from SQLite, where a statement for each stream costs no round trip.
 */
export async function addStats(
  tx: Queries,
  ended: readonly EndedCounts[],
  now: Millis,
): Promise<void> {
  const added = ended.filter(({ delivered, failed }) => delivered + failed > 0);
  if (added.length === 0) return;
  const hour = now - (now % hourMs);
  await tx.get`
    select leat_add_stats(${hour}, ${hour - keptMs},
      ${numbers(added.map(({ tenant }) => tenant))}::int[],
      ${added.map(({ stream }) => stream)}::text[],
      ${numbers(added.map(({ delivered }) => delivered))}::int[],
      ${numbers(added.map(({ failed }) => failed))}::int[])`;
}
