import type { DatabaseSync } from 'node:sqlite';
import { entryHorizon, removeOldest } from '../../commands/audit-log.ts';
import { type Command, sql } from '../../commands/command.ts';
import { oneOfNumbers } from '../../commands/dialect.ts';
import type { StoreCommands } from '../../commands/store-commands.ts';
import { createBodyWalk, createWalk, type WalkedPage } from '../../commands/kept.ts';
import type { AuditLogStore } from '../../port/audit-log.ts';
import type { UpkeepStore } from '../../port/upkeep.ts';
import { run } from './commands.ts';
import type { Database } from './database.ts';
import { doInStep, type UpkeepDeps } from './upkeep-step.ts';

/**
 * Keeps a file within its retention. The file belongs to this process, so it leads, and events and
 * history need no partitions: what is left is written apart from PostgreSQL. A step that blocks the
 * event loop ends after some 5 ms.
 */
export function createUpkeepStore(
  deps: UpkeepDeps & { readonly connection: DatabaseSync },
): Omit<UpkeepStore, keyof StoreCommands['upkeep']> {
  const { db, connection, clock } = deps;
  return {
    prepare: () => Promise.resolve(),
    // Pruning deletes them.
    dropEvents: () => Promise.resolve(0),
    releaseKept: createKeptReleaser(deps),
    shrink: async () => doInStep(clock, Infinity, () => shrink(db, connection)),
  };
}

/** A step checks some kept bodies and some kept history. */
function createKeptReleaser({ db, clock }: UpkeepDeps): UpkeepStore['releaseKept'] {
  const walks = [createBodyWalk(), createWalk(beforeAll, releaseHistory)];
  return async ({ take }) =>
    db.transact('relaxed', () => {
      let checked = 0;
      for (const walk of walks) {
        checked += doInStep(clock, take, () => run(db, walk.next(partRows)));
      }
      if (!walks.every((walk) => walk.isOver())) return checked;
      for (const walk of walks) walk.restart();
      return 0;
    });
}

/** Below every number of kept history. */
const beforeAll = Number.MIN_SAFE_INTEGER;

function* releaseHistory(after: number, take: number): Command<WalkedPage<number>> {
  const rows = yield* sql.all<{ number: number; needed: number }>`
    select k.number, case when k.event_key >= 0 then exists (
      select 1 from runs r join deliveries d
        on d.tenant = r.tenant and d.stream = r.stream and d.offset = k.event_key
      where r.key = k.stream_key)
    else exists (
      select 1 from runs r join deliveries d
        on d.tenant = r.tenant and d.stream = r.stream and d.offset is null
      where r.key = k.stream_key and leat_test_key(d.event_id) = k.event_key)
    end as needed
    from attempts_kept k where k.number > ${after} order by k.number limit ${take}`;
  const over = rows.filter(({ needed }) => needed === 0).map(({ number }) => number);
  if (over.length > 0) yield* sql.run`delete from attempts_kept where number ${oneOfNumbers(over)}`;
  return { checked: rows.length, last: rows.length < take ? undefined : rows.at(-1)?.number };
}

/** Rows between two checks of the time. */
const partRows = 50;

/** Free pages that stay in the file, so that it does not shrink and grow all the time: 4 MiB. */
const sparePages = 1024;
/** Pages between two checks of the time: less than a millisecond. */
const shrinkPages = 32;

/**
 * Returns how many pages were removed from the file; 0 as well if it was created without
 * `auto_vacuum`.
 */
function shrink(db: Database, connection: DatabaseSync): number {
  const before = freePages(connection);
  if (before <= sparePages || !isShrinkable(connection)) return 0;
  const pages = Math.min(shrinkPages, before - sparePages);
  db.transact('relaxed', () => connection.exec(`pragma incremental_vacuum(${pages})`));
  return Math.max(0, before - freePages(connection));
}

/**
 * Returns whether free space of the file is returned to the file system: see `tuning` in
 * connection.ts.
 */
export function isShrinkable(connection: DatabaseSync): boolean {
  return connection.prepare('pragma auto_vacuum').get()?.['auto_vacuum'] === incremental;
}

/** The value of `auto_vacuum = incremental` in SQLite. */
const incremental = 2;

function freePages(connection: DatabaseSync): number {
  return Number(connection.prepare('pragma freelist_count').get()?.['freelist_count']);
}

/** Removes old entries of the audit log, a few between two checks of the time. */
export function createEntryPruner({ db, clock }: UpkeepDeps): AuditLogStore['prune'] {
  return async ({ olderThanMs, take }) =>
    db.transact('relaxed', () => {
      const before = run(db, entryHorizon(olderThanMs));
      return doInStep(clock, take, (rest) =>
        run(db, removeOldest(before, Math.min(rest, partEntries))),
      );
    });
}

/** An entry has up to some 50 targets, at random places of their indexes: less than 10 ms. */
const partEntries = 10;
