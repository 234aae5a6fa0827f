import type { Millis } from '../../core/clock.ts';
import { nextHealth } from '../../core/health.ts';
import type { Health } from '../../core/types.ts';
import { outcomeCodes } from './attempts.ts';
import type { Database } from './database.ts';
import type { Run } from './runs.ts';
import { addStats } from './stats.ts';

/** What the history says of a delivery that ended because its stream was disabled. */
const message = 'The event stream is disabled';

/** The stream is disabled already: no limit is left to be reached. */
const noLimits = { consecutive: Infinity, total: Infinity };

/**
 * Turns first and test deliveries of a stream that was disabled into failures, each with an entry
 * in its history; redeliveries go on. `retrying`: those that wait for an attempt, at the moment of
 * disabling. `parked`: those whose attempt a former owner took with it. Answers the health after;
 * the caller writes it.
 */
export function failWaiting(
  db: Database,
  run: Pick<Run, 'key' | 'tenant' | 'stream' | 'health'>,
  state: 'retrying' | 'parked',
  now: Millis,
): Health {
  db.run`
    insert into attempts (stream_key, offset, event_id, at, duration_ms, outcome, status, error)
    select ${run.key}, offset, iif(offset is null, event_id, null), ${now}, 0,
      ${outcomeCodes.failed}, null, ${message}
    from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and state = ${state}
      and due_at is not null and kind <> 'redelivery'
    order by due_at, event_id`;
  const failed = db.run`
    update deliveries set state = 'failed', due_at = null, failed_at = ${now}
    where tenant = ${run.tenant} and stream = ${run.stream} and state = ${state}
      and due_at is not null and kind <> 'redelivery'`;
  addStats(db, run, { delivered: 0, failed }, now);
  let health = run.health;
  for (let count = 0; count < failed; count += 1) {
    health = nextHealth(health, { ended: 'failed', wasOpen: false }, noLimits).health;
  }
  return health;
}
