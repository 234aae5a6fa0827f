import type { Millis } from '../../core/clock.ts';
import type { StreamStore } from '../port.ts';
import type { Database } from './database.ts';

const hourMs = 3_600_000;

/** Deliveries that ended: successes, and cycles that were exhausted. */
export interface Ended {
  readonly delivered: number;
  readonly failed: number;
}

/** Adds to the hour of `now`. */
export function addStats(
  db: Database,
  { tenant, stream }: { readonly tenant: number; readonly stream: string },
  { delivered, failed }: Ended,
  now: Millis,
): void {
  if (delivered === 0 && failed === 0) return;
  db.run`
    insert into stream_stats (tenant, stream, hour, delivered, failed)
    values (${tenant}, ${stream}, ${now - (now % hourMs)}, ${delivered}, ${failed})
    on conflict do update set
      delivered = delivered + excluded.delivered, failed = failed + excluded.failed`;
}

/** Hours of the window that have counts, oldest first. */
export function listStats(
  db: Database,
  tenant: number,
  stream: string,
  window: Parameters<StreamStore['stats']>[2],
): Awaited<ReturnType<StreamStore['stats']>> {
  const rows = db.all<Ended & { readonly hour: Millis }>`
    select hour, delivered, failed from stream_stats
    where tenant = ${tenant} and stream = ${stream}
      and hour >= ${window.from} and hour < ${window.to}
    order by hour`;
  return rows.map((row) => ({ ...row }));
}
