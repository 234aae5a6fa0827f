import type { DeliveryStore } from '../port.ts';
import type { Database, Queries } from './database.ts';
import { dayOf } from './days.ts';
import { horizonOf } from './horizon.ts';
import { type DayDeps, type DayTable, daysOf, removeDay } from './old-days.ts';

/** Where a walk over the deliveries is. */
export interface DeliveryKey {
  readonly tenant: number;
  readonly stream: string;
  readonly event_id: string;
}

/**
 * Removes days of the history. First the entries of open deliveries move to day 0, a few deliveries
 * at each call; then each call removes one day. The walk goes over the open deliveries and finds
 * their entries by key, so it costs what there is to keep, however long the history is.
 */
export function createHistoryPruner(deps: DayDeps): DeliveryStore['pruneAttempts'] {
  const { db } = deps;
  /** Of the days before `day`; over once it has come to the end. */
  let walk: { day: number; after: DeliveryKey | undefined; isOver: boolean } | undefined;

  return async ({ olderThanMs, take }) => {
    const day = dayOf(await horizonOf(db, olderThanMs));
    const old = (await daysOf(db, 'attempts')).filter((table) => isOld(table, day));
    const [next] = old;
    if (next === undefined) return 0;
    if (next.state === 'attached' && (walk?.day !== day || !walk.isOver)) {
      if (walk?.day !== day) walk = { day, after: undefined, isOver: false };
      const last = await keepOpen(db, walk.after, { day, take });
      walk = { day, after: last, isOver: last === undefined };
      return 1;
    }
    // One that is in use does not keep the others.
    for (const table of old) if (await removeDay(deps, table)) return 1;
    return 0;
  };
}

function isOld({ day, state }: DayTable, before: number): boolean {
  return state !== 'attached' || day < before;
}

/** Moves entries of the next open deliveries to day 0. Returns the last delivery, if there are more. */
async function keepOpen(
  db: Database,
  after: DeliveryKey | undefined,
  { day, take }: { readonly day: number; readonly take: number },
): Promise<DeliveryKey | undefined> {
  return db.transact('relaxed', async (tx) => {
    const page = await deliveriesAfter(tx, after, take);
    const [first] = page;
    const last = page.at(-1);
    if (first === undefined || last === undefined) return undefined;
    // Without statistics of a new day the planner would read all of it.
    const [, moved] = await Promise.all([
      tx.get`
        select set_config('enable_hashjoin', 'off', true),
          set_config('enable_mergejoin', 'off', true)`,
      tx.run`
        with moved as (
          delete from attempts a
          using (
            select d.tenant, r.key, coalesce(d."offset", leat_test_key(d.event_id)) as event_key
            from deliveries d join runs r on r.tenant = d.tenant and r.stream = d.stream
            where (d.tenant, d.stream, d.event_id)
                >= (${first.tenant}::int, ${first.stream}, ${first.event_id})
              and (d.tenant, d.stream, d.event_id)
                <= (${last.tenant}::int, ${last.stream}, ${last.event_id})
              and (d.first_day is null or d.first_day <= ${day})
          ) as open
          where a.tenant = open.tenant and a.stream_key = open.key
            and a.event_key = open.event_key and a.day > 0 and a.day < ${day}
          returning a.*
        )
        insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome, status,
          error, number)
        select 0, tenant, stream_key, event_key, at, duration_ms, outcome, status, error, number
        from moved`,
    ]);
    return page.length < take && moved >= 0 ? undefined : last;
  });
}

/** The next deliveries, in the order of their key. */
export async function deliveriesAfter(
  db: Queries,
  after: DeliveryKey | undefined,
  take: number,
): Promise<DeliveryKey[]> {
  const { tenant, stream, event_id: eventId } = after ?? { tenant: -1, stream: '', event_id: '' };
  return db.all`
    select tenant, stream, event_id from deliveries
    where (tenant, stream, event_id) > (${tenant}::int, ${stream}, ${eventId})
    order by tenant, stream, event_id limit ${take}`;
}
