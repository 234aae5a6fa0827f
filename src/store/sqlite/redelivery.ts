import type { Millis } from '../../core/clock.ts';
import type { DeliveryState } from '../../core/types.ts';
import type { DeliveryStore, FailureFilter } from '../port/deliveries.ts';
import { outcomeCodes } from '../rows/attempts.ts';
import type { Run } from '../rows/runs.ts';
import { wasDelivered } from './attempts.ts';
import type { Database } from './database.ts';
import { readRun } from './runs.ts';

/** Starts a new cycle for one failure; see {@link DeliveryStore.redeliver}. */
export function redeliver(
  db: Database,
  tenant: number,
  stream: string,
  eventId: string,
  now: Millis,
): Awaited<ReturnType<DeliveryStore['redeliver']>> {
  const run = readRun(db, tenant, stream);
  if (run === undefined) return 'unknown';
  const row = db.get<{ state: DeliveryState }>`
    select state from deliveries
    where tenant = ${tenant} and stream = ${stream} and event_id = ${eventId}`;
  if (row === undefined) return wasDelivered(db, run, eventId) ? 'delivered' : 'unknown';
  if (row.state !== 'failed') return 'retrying';
  start(db, run, [eventId], now);
  return 'accepted';
}

/** Starts a new cycle for every failure that matches, and returns how many. */
export function redeliverMany(
  db: Database,
  tenant: number,
  stream: string,
  filter: FailureFilter,
  now: Millis,
): number {
  const run = readRun(db, tenant, stream);
  if (run === undefined) return 0;
  const types = filter.types === undefined ? undefined : JSON.stringify(filter.types);
  const rows = db.all<{ event_id: string }>`
    select event_id from deliveries
    where tenant = ${tenant} and stream = ${stream} and failed_at is not null and state = 'failed'
      and (${types} is null or type in (select value from json_each(${types})))
      and time >= ${filter.from ?? -Infinity} and time < ${filter.to ?? Infinity}
    order by failed_at, event_id`;
  return start(
    db,
    run,
    rows.map((row) => row.event_id),
    now,
  );
}

/**
 * In batches: one request of an operator may match thousands of failures of a stream that was down.
 */
function start(db: Database, run: Run, eventIds: readonly string[], now: Millis): number {
  const ids = JSON.stringify(eventIds);
  db.run`
    insert into attempts (stream_key, event_key, at, duration_ms, outcome, status, error)
    select ${run.key}, coalesce(offset, leat_test_key(event_id)), ${now}, 0,
      ${outcomeCodes.redelivered}, null, null
    from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream}
      and event_id in (select value from json_each(${ids}))`;
  return db.run`
    update deliveries set kind = 'redelivery', state = 'retrying', attempt = 1, due_at = ${now}
    where tenant = ${run.tenant} and stream = ${run.stream}
      and event_id in (select value from json_each(${ids}))`;
}
