import { sleep } from '../../../core/sleep.ts';
import { dayMs, dayOf } from '../../../core/units.ts';
import type { UpkeepStore } from '../../port/upkeep.ts';
import { type Database, numbers } from './database.ts';
import { walkOn } from './history-pruner.ts';
import { horizonOf } from '../../commands/horizon.ts';
import { type DeliveryKey, firstDelivery } from '../../commands/kept.ts';
import { run } from './commands.ts';
import type { KnownStore, StoreIdentity } from './identity.ts';
import { type DayDeps, type DayTable, daysOf, isLeftOver, removeFirst } from './old-days.ts';

/** Days whose events are all pruned, to be removed. */
interface Going {
  /** The store in which the bodies were copied; another one may lack the copies. */
  readonly known: KnownStore;
  readonly days: readonly number[];
  /** Once every transaction up to here is over, no new row needs an event of these days. */
  readonly barrier: string;
  readonly after: DeliveryKey;
  readonly isKept: boolean;
}

/**
 * Removes days of the log that every tenant has pruned. The bodies that open deliveries still need
 * are first copied to `kept_events`, a few deliveries per call; then each call removes one day.
 * After a fail-over or a restore it starts from scratch.
 */
export function createEventDayDropper(deps: DayDeps): UpkeepStore['dropEvents'] {
  const { db, identity } = deps;
  let going: Going | undefined;

  const step = async (
    known: KnownStore,
    { olderThanMs, take }: Parameters<UpkeepStore['dropEvents']>[0],
  ): Promise<number> => {
    const before = dayOf(await run(db, horizonOf(olderThanMs)));
    const tables = await daysOf(db, 'events', 0);
    if ((await removeFirst(deps, tables.filter(isLeftOver))) > 0) return 1;
    const old = tables.filter((table) => !isLeftOver(table) && table.day < before);
    going = stillThere(going, known, old) ?? (await startOn(db, known, old));
    if (going === undefined) return 0;
    if (going.isKept) {
      const { days } = going;
      const kept = old.filter(({ day }) => days.includes(day));
      return removeFirst(deps, kept, known);
    }
    if (!(await waitPast(deps, going.barrier))) return 0;
    const last = await keepBodies(deps, going, take);
    going = { ...going, after: last ?? firstDelivery, isKept: last === undefined };
    return 1;
  };

  return (query) => identity.compared((known) => step(known, query));
}

/** Returns `undefined` once all of its days are removed, and in another store. */
function stillThere(
  going: Going | undefined,
  known: KnownStore,
  old: readonly DayTable[],
): Going | undefined {
  if (going?.known !== known) return undefined;
  return old.some(({ day }) => going.days.includes(day)) ? going : undefined;
}

async function startOn(
  db: Database,
  known: KnownStore,
  old: readonly DayTable[],
): Promise<Going | undefined> {
  const days: number[] = [];
  for (const { day } of old) if (!(await isNeeded(db, day))) days.push(day);
  if (days.length === 0) return undefined;
  const row = await db.get<{ barrier: string }>`
    select pg_snapshot_xmax(pg_current_snapshot())::text as barrier`;
  return { known, days, barrier: row?.barrier ?? '0', after: firstDelivery, isKept: false };
}

/**
 * Returns whether some tenant has not pruned all events of the day. Only lagging tenants are
 * checked, each by the index: an `exists` may be planned as a scan of the day.
 */
async function isNeeded(db: Database, day: number): Promise<boolean> {
  const end = (day + 1) * dayMs;
  const needed = await db.get`
    select 1 from tenants t cross join lateral (
      select 1 from events e
      where e.tenant = t.id and e."offset" > t.pruned_to
        and e.published_at >= ${day * dayMs} and e.published_at < ${end}
      order by e."offset" limit 1) as left_over
    where t.oldest_at < ${end} and t.head > t.pruned_to
    limit 1`;
  return needed !== undefined;
}

/**
 * Transactions of Leat last for milliseconds: a step waits for them, and the next step for longer
 * ones.
 */
const barrierTries = { most: 10, pauseMs: 100 };

async function waitPast({ db, clock }: DayDeps, barrier: string): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    if (await isPast(db, barrier)) return true;
    if (tries === barrierTries.most) return false;
    await sleep(clock, barrierTries.pauseMs);
  }
}

/**
 * Returns whether every transaction from before the barrier is over; those that only read do not
 * count.
 */
async function isPast(db: Database, barrier: string): Promise<boolean> {
  const row = await db.get<{ past: boolean }>`
    select pg_snapshot_xmin(pg_current_snapshot()) >= ${barrier}::text::xid8 as past`;
  return row?.past === true;
}

/** Copies bodies for the next open deliveries. Returns the last delivery, if there are more. */
async function keepBodies(
  { db, identity }: { readonly db: Database; readonly identity: StoreIdentity },
  { days, after }: Going,
  take: number,
): Promise<DeliveryKey | undefined> {
  const from = Math.min(...days);
  const to = Math.max(...days);
  return identity.transact(db, 'relaxed', async (tx) => {
    const page = await walkOn(tx, after, take);
    const needing = page.filter(
      ({ offset, event_day: day, has_body: hasBody }) =>
        offset !== null && !hasBody && (day === null || (day >= from && day <= to)),
    );
    const byTenant = Map.groupBy(needing, ({ tenant }) => tenant);
    await Promise.all(
      [...byTenant].map(
        ([tenant, rows]) => tx.run`
          insert into kept_events (tenant, "offset", id, body, trace)
          select tenant, "offset", id, body, trace from events
          where tenant = ${tenant}
            and "offset" = any(${numbers(rows.map(({ offset }) => offset))}::bigint[])
            and published_at >= ${from * dayMs} and published_at < ${(to + 1) * dayMs}
          on conflict do nothing`,
      ),
    );
    return page.length < take ? undefined : page.at(-1);
  });
}
