import type { Millis } from '../../core/clock.ts';
import { disabledMessage, healthAfterDisabling } from '../../core/health.ts';
import type { Attempt, Health } from '../../core/types.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import type { Run } from '../rows/runs.ts';
import { endWithStream } from '../rules/pause.ts';
import { type Command, engine, sql, together } from './command.ts';
import { byDue } from './delivery-indexes.ts';
import { forUpdate } from './dialect.ts';
import { entryAt } from './history.ts';
import { countFailed } from './runs.ts';

/**
 * Turns first and test deliveries of a stream that was disabled into failures, each with an entry
 * in its history; redeliveries continue, and a replay pauses. `retrying`: those that wait for an
 * attempt when the stream is disabled. `parked`: those whose attempt ended with a former owner.
 * Returns the health after that; the caller, who has the run locked, writes it.
 */
export function* failWaiting(run: Run, state: 'retrying' | 'parked', now: Millis): Command<Health> {
  const { tenant, stream } = run;
  const [waiting] = yield* together(
    sql.all<HistoryEvent>`
      select event_id as id, "offset" from deliveries
      where tenant = ${tenant} and stream = ${stream} and state = ${state}
        and due_at is not null and ${endWithStream}
      order by due_at, event_id ${forUpdate}`,
    sql.run`
      update deliveries ${byDue} set state = 'failed', due_at = null, failed_at = ${now},
        error_code = 'stream_disabled' ${entryAt(now)}
      where tenant = ${tenant} and stream = ${stream} and state = ${state}
        and due_at is not null and ${endWithStream}`,
  );
  if (waiting.length === 0) return run.health;
  yield* together(
    engine.addEntries(run, waiting, disabledAt(now)),
    countFailed(run, waiting.length, now),
  );
  return healthAfterDisabling(run.health, waiting.length);
}

/** Returns the entry of a delivery that failed because its stream was disabled. */
export function disabledAt(now: Millis): Attempt {
  const entry = { at: now, durationMs: 0, outcome: 'failed' } as const;
  return { ...entry, status: undefined, error: disabledMessage };
}
