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
  const rows = await tx.all<StreamRef & { first: boolean }>`
    insert into stream_stats as s (tenant, stream, hour, delivered, failed)
    select u.tenant, u.stream, ${hour}, u.delivered, u.failed
    from unnest(${numbers(added.map(({ tenant }) => tenant))}::int[],
      ${added.map(({ stream }) => stream)}::text[],
      ${numbers(added.map(({ delivered }) => delivered))}::int[],
      ${numbers(added.map(({ failed }) => failed))}::int[])
      as u(tenant, stream, delivered, failed)
    on conflict (tenant, stream, hour) do update set
      delivered = s.delivered + excluded.delivered, failed = s.failed + excluded.failed
    returning tenant, stream, xmax = 0 as first`;
  const fresh = rows.filter(({ first }) => first);
  if (fresh.length === 0) return;
  await tx.run`
    delete from stream_stats
    where hour < ${hour - keptMs} and (tenant, stream) in (select * from unnest(
      ${numbers(fresh.map(({ tenant }) => tenant))}::int[],
      ${fresh.map(({ stream }) => stream)}::text[]))`;
}
