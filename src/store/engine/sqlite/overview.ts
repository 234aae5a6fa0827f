import { statSync } from 'node:fs';
import type { OverviewDeps } from '../../commands/overview.ts';
import type { StoreSize } from '../../port/overview.ts';
import type { Database } from './database.ts';

/**
 * Returns what only this engine knows of itself.
 *
 * @param file of the database; `undefined` in memory
 */
export function engineOverview(db: Database, file: string | undefined): OverviewDeps['engine'] {
  return {
    engine: async () => ({ name: `SQLite ${versionOf(db)}`, now: undefined }),
    server: () => Promise.resolve(undefined),
    // Defects of the tables are found when the file is opened.
    faults: () => Promise.resolve([]),
    size: async () => size(db, file),
  };
}

function versionOf(db: Database): string {
  const row = db.get<{ version: string }>`select sqlite_version() as version`;
  return row?.version ?? '';
}

function size(db: Database, file: string | undefined): StoreSize {
  const pages = db.get<{ pages: number; bytes: number; free: number; vacuum: number }>`
    select page_count as pages, page_size as bytes, freelist_count as free, auto_vacuum as vacuum
    from pragma_page_count, pragma_page_size, pragma_freelist_count, pragma_auto_vacuum`;
  const pageBytes = pages?.bytes ?? 0;
  const wal =
    file === undefined ? 0 : (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0);
  return {
    bytes: (pages?.pages ?? 0) * pageBytes + wal,
    freeBytes: (pages?.free ?? 0) * pageBytes,
    shrinks: (pages?.vacuum ?? 0) > 0,
  };
}
