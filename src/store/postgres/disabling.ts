import type { Millis } from '../../core/clock.ts';
import { disabledMessage, healthAfterDisabling } from '../../core/health.ts';
import type { Health, Offset } from '../../core/types.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import { addAttempts, type Entry } from './attempts.ts';
import type { Queries } from './database.ts';
import { dayOf } from './partitions.ts';
import type { Run } from '../rows/runs.ts';
import { addStats } from './stats.ts';

/**
 * Turns first and test deliveries of a stream that was disabled into failures, each with an entry
 * in its history; redeliveries continue, and a replay pauses. `retrying`: those that wait for an
 * attempt when the stream is disabled. `parked`: those whose attempt ended with a former owner.
 * Returns the health after that; the caller, who has the run locked, writes it.
 */
export async function failWaiting(
  tx: Queries,
  run: Run,
  state: 'retrying' | 'parked',
  now: Millis,
): Promise<Health> {
  const rows = await tx.all<{ event_id: string; offset: Offset | null }>`
    with failed as (
      select event_id, due_at from deliveries
      where tenant = ${run.tenant} and stream = ${run.stream} and state = ${state}
        and due_at is not null and kind in ('first', 'test')
      for update
    ), changed as (
      update deliveries d set state = 'failed', due_at = null, failed_at = ${now},
        attempts_from = least(d.attempts_from, ${dayOf(now)}::int),
        attempts_to = greatest(d.attempts_to, ${dayOf(now)}::int)
      from failed
      where d.tenant = ${run.tenant} and d.stream = ${run.stream} and d.event_id = failed.event_id
      returning d.event_id, d."offset", failed.due_at
    )
    select event_id, "offset" from changed order by due_at, event_id`;
  await addAttempts(
    tx,
    rows.map((row) =>
      disabledEntry(run, { id: row.event_id, offset: row.offset ?? undefined }, now),
    ),
  );
  const { tenant, stream } = run;
  await addStats(tx, [{ tenant, stream, delivered: 0, failed: rows.length }], now);
  return healthAfterDisabling(run.health, rows.length);
}

/** Returns the entry of a delivery that failed because its stream was disabled. */
export function disabledEntry(run: Run, event: HistoryEvent, now: Millis): Entry {
  const ended = { outcome: 'failed', status: undefined, error: disabledMessage } as const;
  return { run, event, attempt: { at: now, durationMs: 0, ...ended } };
}
