import type { Millis } from '../../core/clock.ts';
import { disabledMessage, healthAfterDisabling } from '../../core/health.ts';
import type { Health } from '../../core/types.ts';
import { outcomeCodes } from '../rows/attempts.ts';
import type { Run } from '../rows/runs.ts';
import type { Database } from './database.ts';
import { addStats } from './stats.ts';

/**
 * Turns first and test deliveries of a stream that was disabled into failures, each with an entry
 * in its history; redeliveries continue, and a replay pauses. `retrying`: those that wait for an
 * attempt when the stream is disabled. `parked`: those whose attempt ended with a former owner.
 * Returns the health after that; the caller writes it.
 */
export function failWaiting(
  db: Database,
  run: Pick<Run, 'key' | 'tenant' | 'stream' | 'health'>,
  state: 'retrying' | 'parked',
  now: Millis,
): Health {
  db.run`
    insert into attempts (stream_key, event_key, at, duration_ms, outcome, status, error)
    select ${run.key}, coalesce(offset, leat_test_key(event_id)), ${now}, 0,
      ${outcomeCodes.failed}, null, ${disabledMessage}
    from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and state = ${state}
      and due_at is not null and kind in ('first', 'test')
    order by due_at, event_id`;
  const failed = db.run`
    update deliveries set state = 'failed', due_at = null, failed_at = ${now}
    where tenant = ${run.tenant} and stream = ${run.stream} and state = ${state}
      and due_at is not null and kind in ('first', 'test')`;
  addStats(db, run, { delivered: 0, failed }, now);
  return healthAfterDisabling(run.health, failed);
}
