import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';
import { dayMs, dayOf } from '../../core/units.ts';
import { Call } from '../directory/command.ts';
import type { AddedRows, ReplaySteps } from '../directory/replays.ts';
import type { StoredReplay } from '../rows/replays.ts';
import type { Run } from '../rows/runs.ts';
import { type MaterializeStep, sentBefore } from '../rules/replay.ts';
import type { BatchState } from '../rules/settlement.ts';
import { run as runCommand } from './commands.ts';
import { type Database, numbers, type Queries } from './database.ts';
import type { StoreIdentity } from './identity.ts';
import { daysMax, stretchOf } from './log-days.ts';

/** Creates the steps of commands on replays, whose transactions are on the connections of `db`. */
export function createReplaySteps(db: Database, identity: StoreIdentity): ReplaySteps {
  return {
    transact: (command) => identity.transact(db, 'durable', (tx) => runCommand(tx, command())),
    addRows: (...read) => new Call((tx: Queries) => addRows(tx, ...read)),
  };
}

/**
 * Reads as many days of the stretch as a page of the log spans. The history is read from the day
 * before the replay was accepted: an event whose first attempt is older counts as sent before.
 */
async function addRows(
  tx: Queries,
  run: Run,
  replay: StoredReplay,
  step: Extract<MaterializeStep, { step: 'read' }>,
  now: Millis,
): Promise<AddedRows> {
  const { after, types, take } = step;
  const { upTo, from, to } = await stretchOf(tx, run.tenant, step, daysMax);
  if (types.length === 0) return { upTo, offsets: [] };
  const rows = await tx.all<{ offset: Offset }>`
    insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
      due_at, event_day)
    select e.tenant, ${run.stream}, e.id, e."offset", e.type, e.time, 'replay', 'retrying', 1,
      ${now}, e.published_at / ${dayMs}
    from events e
    where e.tenant = ${run.tenant} and e."offset" > ${after} and e."offset" <= ${upTo}
      and e.published_at >= ${from} and e.published_at < ${to}
      and e.type = any(${types}::text[])
      and not exists (
        select 1 from deliveries d
        where d.tenant = e.tenant and d.stream = ${run.stream} and d.event_id = e.id)
      and (e."offset" <= ${replay.passed} or coalesce((
        select min(a.at) from attempts a
        where a.tenant = e.tenant and a.stream_key = ${run.key} and a.event_key = e."offset"
          and a.day >= ${dayOf(replay.createdAt) - 1}),
        0) < ${sentBefore(replay)})
    order by e."offset" limit ${take}
    returning "offset"`;
  const offsets = rows.map(({ offset }) => offset).toSorted((one, other) => one - other);
  return { upTo, offsets };
}

/** Adds the counts of a batch of outcomes to the progress of replays. */
export async function addProgress(tx: Queries, streams: readonly BatchState[]): Promise<void> {
  const ended = streams.filter(({ replayed }) => replayed.sent + replayed.failed > 0);
  if (ended.length === 0) return;
  await tx.run`
    update replays p set sent = p.sent + u.sent, failed = p.failed + u.failed
    from unnest(${numbers(ended.map(({ run }) => run.tenant))}::int[],
      ${ended.map(({ run }) => run.stream)}::text[],
      ${numbers(ended.map(({ replayed }) => replayed.sent))}::bigint[],
      ${numbers(ended.map(({ replayed }) => replayed.failed))}::bigint[])
      as u(tenant, stream, sent, failed)
    where p.tenant = u.tenant and p.stream = u.stream and p.status = 'running'`;
}
