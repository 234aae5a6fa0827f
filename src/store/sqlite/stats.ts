import type { Millis } from '../../core/clock.ts';
import { dayMs, hourMs } from '../../core/units.ts';
import type { Database } from './database.ts';

/** How long hours are kept. */
const keptMs = 90 * dayMs;

/** Deliveries that ended: successes, and cycles that were exhausted. */
export interface EndedCounts {
  readonly delivered: number;
  readonly failed: number;
}

/**
 * Adds to the hour of `now`; the first addition of an hour removes the stream's hours that are too
 * old. Written apart from PostgreSQL, which counts all streams of a batch with one statement.
 */
export function addStats(
  db: Database,
  { tenant, stream }: { readonly tenant: number; readonly stream: string },
  { delivered, failed }: EndedCounts,
  now: Millis,
): void {
  const added = delivered + failed;
  if (added === 0) return;
  const hour = now - (now % hourMs);
  const row = db.get<{ ended: number }>`
    insert into stream_stats (tenant, stream, hour, delivered, failed)
    values (${tenant}, ${stream}, ${hour}, ${delivered}, ${failed})
    on conflict do update set
      delivered = delivered + excluded.delivered, failed = failed + excluded.failed
    returning delivered + failed as ended`;
  if (row?.ended !== added) return;
  db.run`
    delete from stream_stats
    where tenant = ${tenant} and stream = ${stream} and hour < ${hour - keptMs}`;
}
