import type { Millis } from '../../core/clock.ts';
import type { Offset, Replay } from '../../core/types.ts';
import { Call, type Commands } from '../directory/command.ts';
import type { AddedRows, ReplaySteps } from '../directory/replays.ts';
import type { StoredReplay } from '../rows/replays.ts';
import type { Run } from '../rows/runs.ts';
import { type MaterializeStep, sentBefore } from '../rules/replay.ts';
import type { Database } from './database.ts';

/** Creates the steps of commands on replays. */
export function createReplaySteps({ transact }: Commands): ReplaySteps {
  return {
    transact: (command) => transact('relaxed', command),
    addRows: (...read) => new Call((db: Database) => addRows(db, ...read)),
  };
}

function addRows(
  db: Database,
  run: Run,
  replay: StoredReplay,
  { after, upTo, types, take }: Extract<MaterializeStep, { step: 'read' }>,
  now: Millis,
): AddedRows {
  if (types.length === 0) return { upTo, offsets: [] };
  const rows = db.all<{ offset: Offset }>`
    insert into deliveries (tenant, stream, event_id, offset, type, time, kind, state, attempt,
      due_at)
    select e.tenant, ${run.stream}, e.id, e.offset, e.type, e.time, 'replay', 'retrying', 1, ${now}
    from events e
    where e.tenant = ${run.tenant} and e.offset > ${after} and e.offset <= ${upTo}
      and e.type in (select value from json_each(${JSON.stringify(types)}))
      and not exists (
        select 1 from deliveries d
        where d.tenant = e.tenant and d.stream = ${run.stream} and d.event_id = e.id)
      and (e.offset <= ${replay.passed} or coalesce((
        select min(a.at) from attempts a where a.stream_key = ${run.key} and a.event_key = e.offset),
        0) < ${sentBefore(replay)})
    order by e.offset limit ${take}
    returning offset`;
  const offsets = rows.map(({ offset }) => offset).toSorted((one, other) => one - other);
  return { upTo, offsets };
}

/** Adds the counts of a batch of outcomes to the progress of the stream's replay. */
export function addProgress(
  db: Database,
  { tenant, stream }: Pick<Run, 'tenant' | 'stream'>,
  { sent, failed }: Pick<Replay, 'sent' | 'failed'>,
): void {
  if (sent + failed === 0) return;
  db.run`
    update replays set sent = sent + ${sent}, failed = failed + ${failed}
    where tenant = ${tenant} and stream = ${stream} and status = 'running'`;
}
