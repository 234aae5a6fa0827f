import { firstChangeFrom } from '../../../core/subscription.ts';
import type { Offset, Subscription } from '../../../core/types.ts';
import { type Run, runOf, type RunRow } from '../../rows/runs.ts';
import type { Database } from './database.ts';

/** Returns the run of a stream; `undefined` when there is no such stream. */
export function readRun(db: Database, tenant: number, stream: string): Run | undefined {
  const row = db.get<RunRow>`
    select runs.key, runs.tenant, runs.stream, runs.cursor, runs.run, runs.consecutive_failures, runs.total_failures,
      runs.owner, runs.epoch, runs.paused_ms, streams.status, streams.version, streams.paused_at
    from runs join streams on streams.tenant = runs.tenant and streams.id = runs.stream
    where runs.tenant = ${tenant} and runs.stream = ${stream}`;
  return row && runOf(row);
}

/** Writes the changes of a run by settling, disabling and enabling. */
export function writeRun(db: Database, run: Run): void {
  const { ends = false, from } = run.failing ?? {};
  db.run`
    update runs set cursor = ${run.cursor}, run = ${run.run},
      consecutive_failures = ${run.health.consecutive}, total_failures = ${run.health.total},
      paused_ms = ${run.pausedMs},
      last_delivered_at = coalesce(${run.deliveredAt}, last_delivered_at),
      failing_since = (
        select min(began) from (
          select iif(${ends}, null, failing_since) as began
          union all select max(${from}, coalesce(last_delivered_at, 0))))
    where key = ${run.key}`;
  if (run.failed === undefined) return;
  db.run`
    update runs set last_failed_at = ${run.failed.at}, last_error_code = ${run.failed.code}
    where key = ${run.key}`;
}

/** Returns how far a node that works with a version of the stream may raise its cursor. */
export function cursorMax(
  db: Database,
  run: Pick<Run, 'tenant' | 'stream' | 'cursor' | 'version'>,
  version: number,
): Offset {
  if (version === run.version) return Infinity;
  const row = db.get<{ subscriptions: string }>`
    select subscriptions from streams where tenant = ${run.tenant} and id = ${run.stream}`;
  const subscriptions = JSON.parse(row?.subscriptions ?? '[]') as Subscription[];
  return firstChangeFrom(subscriptions, run.cursor) ?? Infinity;
}

/** Records that the stream was changed: its owner has to read it again. */
export function noteChange(db: Database, run: Pick<Run, 'key'>): void {
  db.run`update runs set unseen = 1 where key = ${run.key} and owner is not null`;
}
