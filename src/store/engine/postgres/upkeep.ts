import type { UpkeepStore } from '../../port/upkeep.ts';
import type { Database } from './database.ts';
import { makeDaysAhead } from './partitions.ts';
import { createEventDayDropper } from './event-days.ts';
import { type Command, sql } from '../../commands/command.ts';
import type { StoreCommands } from '../../commands/store-commands.ts';
import { createBodyWalk, createWalk, type WalkedPage } from '../../commands/kept.ts';
import { run } from './commands.ts';
import type { StoreIdentity } from './identity.ts';
import { type DayDeps, lockMs, unlessInUse } from './old-days.ts';

/**
 * Keeps a database within its retention. The state of its steps is in memory of this process.
 * Written apart from SQLite because one of many nodes leads, and old days are removed as a whole.
 */
export function createUpkeepStore(deps: DayDeps): Omit<UpkeepStore, keyof StoreCommands['upkeep']> {
  const { db, identity } = deps;
  return {
    prepare: async () => {
      await unlessInUse(() => makeDaysAhead(db, lockMs));
    },
    dropEvents: createEventDayDropper(deps),
    releaseKept: createKeptReleaser(db, identity),
    shrink: () => Promise.resolve(0),
  };
}

/**
 * A step checks some kept bodies and the kept history of one stream: a settlement then has nothing
 * to count, and settlements of streams that need the same event do not wait for each other.
 */
function createKeptReleaser(db: Database, identity: StoreIdentity): UpkeepStore['releaseKept'] {
  const bodies = createBodyWalk();
  const history = createWalk({ tenant: -1, key: -1 }, releaseHistory);
  // A body that no delivery needed in another store may be needed in this one.
  const nextBodies = (take: number): Promise<number> =>
    identity.transact(db, 'relaxed', (tx) => run(tx, bodies.next(take)));
  return async ({ take }) => {
    const checked = bodies.isOver() ? 0 : await nextBodies(take);
    const all = checked + (await run(db, history.next(take)));
    if (!bodies.isOver() || !history.isOver()) return all;
    bodies.restart();
    history.restart();
    return 0;
  };
}

interface HistoryKey {
  readonly tenant: number;
  readonly key: number;
}

function* releaseHistory(after: HistoryKey): Command<WalkedPage<HistoryKey>> {
  const next = yield* sql.get<HistoryKey>`
    select tenant, stream_key as key from attempts
    where day = 0 and (tenant, stream_key) > (${after.tenant}::int, ${after.key}::bigint)
    order by tenant, stream_key limit 1`;
  if (next === undefined) return { checked: 0, last: undefined };
  yield* sql.run`
    delete from attempts a
    where a.day = 0 and a.tenant = ${next.tenant} and a.stream_key = ${next.key}
      and a.event_key not in (
        select coalesce(d."offset", leat_test_key(d.event_id))
        from deliveries d join runs r on r.tenant = d.tenant and r.stream = d.stream
        where r.tenant = ${next.tenant} and r.key = ${next.key})`;
  return { checked: 1, last: next };
}
