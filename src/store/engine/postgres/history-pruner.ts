import { dayOf } from '../../../core/units.ts';
import type { DeliveryStore } from '../../port/deliveries.ts';
import { type Database, numbers, type Queries } from './database.ts';
import { horizonOf } from '../../commands/horizon.ts';
import {
  deliveriesAfter,
  type DeliveryKey,
  firstDelivery,
  type WalkedDelivery,
} from '../../commands/kept.ts';
import { run } from './commands.ts';
import type { KnownStore, StoreIdentity } from './identity.ts';
import { type DayDeps, type DayTable, daysOf, isLeftOver, removeFirst } from './old-days.ts';

/** A walk over the open deliveries. */
interface Walk {
  /** The store in which the entries moved; in another one they may still be in their days. */
  readonly known: KnownStore;
  /** The days whose entries it moves. They had rows when it started: no others that have are removed after it. */
  readonly days: readonly number[];
  readonly after: DeliveryKey;
  /** It has reached the end. */
  readonly isOver: boolean;
}

/**
 * Removes days of the history. First the entries of open deliveries move to day 0, a few deliveries
 * per call; then each call removes one day. The walk goes over the open deliveries and finds their
 * entries by key, so its cost depends on what is kept and not on the length of the history. After a
 * fail-over or a restore it starts from scratch. Written apart from SQLite, which deletes rows.
 */
export function createHistoryPruner(deps: DayDeps): DeliveryStore['pruneAttempts'] {
  const { db, identity } = deps;
  let walk: Walk | undefined;

  const step = async (
    known: KnownStore,
    { olderThanMs, take }: Parameters<DeliveryStore['pruneAttempts']>[0],
  ): Promise<number> => {
    const before = dayOf(await run(db, horizonOf(olderThanMs)));
    const tables = await daysOf(db, 'attempts', before);
    if ((await removeFirst(deps, tables.filter(isLeftOver))) > 0) return 1;
    const old = tables.filter((table) => !isLeftOver(table) && table.day < before);
    // Each day costs a statement for each page of deliveries, and a store may have a year without rows.
    const filled = old.filter(({ isEmpty }) => !isEmpty);
    walk = covering(walk, known, filled) ?? startOf(known, filled);
    if (walk.isOver) return removeFirst(deps, old, known);
    const last = await keepOpen(deps, walk, take);
    walk = { ...walk, after: last ?? firstDelivery, isOver: last === undefined };
    return 1;
  };

  return (query) => identity.compared((known) => step(known, query));
}

/** Returns `undefined` in another store, and when the walk did not cover an old day with rows. */
function covering(
  walk: Walk | undefined,
  known: KnownStore,
  filled: readonly DayTable[],
): Walk | undefined {
  if (walk?.known !== known) return undefined;
  return filled.every(({ day }) => walk.days.includes(day)) ? walk : undefined;
}

function startOf(known: KnownStore, filled: readonly DayTable[]): Walk {
  const days = filled.map(({ day }) => day);
  return { known, days, after: firstDelivery, isOver: days.length === 0 };
}

/**
 * Moves entries of the next open deliveries to day 0. Returns the last delivery, if there are more.
 */
async function keepOpen(
  { db, identity }: { readonly db: Database; readonly identity: StoreIdentity },
  { after, days }: Walk,
  take: number,
): Promise<DeliveryKey | undefined> {
  return identity.transact(db, 'relaxed', async (tx) => {
    const page = await walkOn(tx, after, take);
    await Promise.all(days.map((day) => keepOf(tx, page, day)));
    return page.length < take ? undefined : page.at(-1);
  });
}

/**
 * `offset 0` makes it a search by the whole index for each delivery: a plain join is planned as a scan
 * of the tenant, and a page has about as many streams as deliveries. For every delivery and every day
 * to remove, because an entry that is missed here is lost, and those days are few.
 */
async function keepOf(tx: Queries, page: readonly WalkedDelivery[], day: number): Promise<void> {
  await tx.run`
    with moved as (
      delete from attempts
      where day = ${day} and ctid = any(array(
        select found.entry
        from unnest(${numbers(page.map((row) => row.tenant))}::int[],
            ${numbers(page.map((row) => row.key))}::bigint[],
            ${numbers(page.map((row) => row.event_key))}::bigint[])
            as d(tenant, stream_key, event_key)
          cross join lateral (
            select a.ctid as entry from attempts a
            where a.day = ${day} and a.tenant = d.tenant and a.stream_key = d.stream_key
              and a.event_key = d.event_key
            offset 0) as found))
      returning *
    )
    insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome, status,
      error, number)
    select 0, tenant, stream_key, event_key, at, duration_ms, outcome, status, error, number
    from moved`;
}

/** Returns the next deliveries of a walk. The statement forces the use of the index of its order. */
export async function walkOn(
  tx: Queries,
  after: DeliveryKey,
  take: number,
): Promise<readonly WalkedDelivery[]> {
  const [, rows] = await Promise.all([
    tx.get`
      select set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
        set_config('enable_seqscan', 'off', true)`,
    run(tx, deliveriesAfter(after, take)),
  ]);
  return rows;
}
