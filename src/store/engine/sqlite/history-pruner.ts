import type { Millis } from '../../../core/clock.ts';
import { dayMs } from '../../../core/units.ts';
import type { DeliveryStore } from '../../port/deliveries.ts';
import { horizonOf } from '../../commands/horizon.ts';
import { run } from './commands.ts';
import { doInStep, type UpkeepDeps } from './upkeep-step.ts';

/** The position of a walk over the deliveries. */
interface DeliveryKey {
  readonly tenant: number;
  readonly stream: string;
  readonly event_id: string;
}

/** Both phases for one day. */
interface Walk {
  readonly before: Millis;
  readonly after: DeliveryKey;
  readonly phase: 'keeping' | 'removing' | 'over';
}

const start: DeliveryKey = { tenant: -1, stream: '', event_id: '' };

/**
 * Removes the history of past days. First the entries of open deliveries move to `attempts_kept`,
 * found by their keys; then all old entries are removed from the beginning of the table, which is
 * in the order of writing. So a step costs what it keeps or removes. Entries of a deleted stream,
 * which nothing can reach any more, are removed in the same way, at their age. Written apart from
 * PostgreSQL, which drops the partitions of days.
 */
export function createHistoryPruner(deps: UpkeepDeps): DeliveryStore['pruneAttempts'] {
  const { db } = deps;
  let walk: Walk | undefined;

  return async ({ olderThanMs, take }) => {
    const horizon = run(deps.db, horizonOf(olderThanMs));
    const before = horizon - (horizon % dayMs);
    if (walk?.before !== before) walk = { before, after: start, phase: 'keeping' };
    const { phase, after } = walk;
    if (phase === 'keeping') {
      const last = db.transact('relaxed', () => keepOpen(deps, after, before, take));
      walk = last ? { ...walk, after: last } : { ...walk, phase: 'removing' };
      return 1;
    }
    if (phase === 'over') return 0;
    const removed = db.transact('relaxed', () =>
      doInStep(deps.clock, take, (rest) => removeOldest(deps, before, Math.min(rest, partRows))),
    );
    if (removed === 0) walk = { ...walk, phase: 'over' };
    return removed;
  };
}

/** Rows between two checks of the time: well below a millisecond. */
const partRows = 50;

/** Moves entries of the next open deliveries. Returns the last delivery, if there are more. */
function keepOpen(
  { db, clock }: UpkeepDeps,
  from: DeliveryKey,
  before: Millis,
  take: number,
): DeliveryKey | undefined {
  let after: DeliveryKey | undefined = from;
  doInStep(clock, take, () => {
    if (after === undefined) return 0;
    const page: DeliveryKey[] = db.all<DeliveryKey>`
      select tenant, stream, event_id from deliveries
      where (tenant, event_id, stream) > (${after.tenant}, ${after.event_id}, ${after.stream})
      order by tenant, event_id, stream limit ${partRows}`;
    for (const delivery of page) keep(db, delivery, before);
    after = page.length < partRows ? undefined : page.at(-1);
    return page.length;
  });
  return after;
}

/**
 * Kept entries are older than all others of their event, so their numbers are below every rowid of
 * `attempts` and rise from here. They cannot be those rowids: an empty table assigns them again.
 */
const keptFrom = -(2 ** 52);

function keep(db: UpkeepDeps['db'], { tenant, stream, event_id }: DeliveryKey, before: Millis) {
  const kept = db.run`
    insert into attempts_kept (number, stream_key, event_key, at, duration_ms, outcome, status,
      error)
    select coalesce((select max(number) from attempts_kept), ${keptFrom})
      + row_number() over (order by a.rowid),
      a.stream_key, a.event_key, a.at, a.duration_ms, a.outcome, a.status, a.error
    from deliveries d
    cross join runs r on r.tenant = d.tenant and r.stream = d.stream
    cross join attempts a on a.stream_key = r.key
      and a.event_key = coalesce(d.offset, leat_test_key(d.event_id))
    where d.tenant = ${tenant} and d.stream = ${stream} and d.event_id = ${event_id}
      and a.at < ${before}`;
  if (kept === 0) return;
  db.run`
    delete from attempts where rowid in (
      select a.rowid
      from deliveries d
      cross join runs r on r.tenant = d.tenant and r.stream = d.stream
      cross join attempts a on a.stream_key = r.key
        and a.event_key = coalesce(d.offset, leat_test_key(d.event_id))
      where d.tenant = ${tenant} and d.stream = ${stream} and d.event_id = ${event_id}
        and a.at < ${before})`;
}

/**
 * The walk ends where all of a part is young. Among older entries there may be single younger ones:
 * attempts are in the order in which they ended, and `at` is when they began.
 */
function removeOldest({ db }: UpkeepDeps, before: Millis, take: number): number {
  const rows = db.all<{ row: number; at: Millis }>`
    select rowid as row, at from attempts order by rowid limit ${take}`;
  const old = rows.filter(({ at }) => at < before).map(({ row }) => row);
  if (old.length === 0) return 0;
  return db.run`
    delete from attempts where rowid in (select value from json_each(${JSON.stringify(old)}))`;
}
