import type { Millis } from '../../../core/clock.ts';
import type { DeliveryStore } from '../../port/deliveries.ts';
import { dayHorizonOf } from '../../commands/horizon.ts';
import {
  deliveriesAfter,
  type DeliveryKey,
  firstDelivery,
  type WalkedDelivery,
} from '../../commands/kept.ts';
import { keepAttempts } from './attempts.ts';
import { run } from './commands.ts';
import { doInStep, type UpkeepDeps } from './upkeep-step.ts';

/** Both phases for one day. */
interface Walk {
  readonly before: Millis;
  readonly after: DeliveryKey;
  readonly phase: 'keeping' | 'removing' | 'over';
}

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
    const before = run(deps.db, dayHorizonOf(olderThanMs));
    if (walk?.before !== before) walk = { before, after: firstDelivery, phase: 'keeping' };
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
    const page: WalkedDelivery[] = run(db, deliveriesAfter(after, partRows));
    for (const { key, event_key: eventKey } of page) keepAttempts(db, { key }, eventKey, before);
    after = page.length < partRows ? undefined : page.at(-1);
    return page.length;
  });
  return after;
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
