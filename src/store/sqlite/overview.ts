import { statSync } from 'node:fs';
import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';
import type { OverviewStore, StoreSize, StreamPosition, TenantOverview } from '../port/overview.ts';
import type { Database } from './database.ts';
import { headOf } from './append.ts';
import { oldestAfter } from './log.ts';

/** Creates the store of sizes and counts. Every query reads a bounded number of events. */
export function createOverviewStore({
  db,
  file,
}: {
  readonly db: Database;
  /** The database file; `undefined` in memory. */
  readonly file?: string | undefined;
}): OverviewStore {
  return {
    engine: async () => ({ name: `SQLite ${versionOf(db)}`, now: undefined }),
    // Defects of the tables are found when the file is opened.
    faults: () => Promise.resolve([]),
    size: async () => size(db, file),
    tenant: async (id) => overview(db, id),
    behind: async (tenant, take) => behind(db, tenant, take),
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

function overview(db: Database, tenant: number): TenantOverview | undefined {
  const row = db.get<{ head: Offset }>`select head from tenants where id = ${tenant}`;
  if (row === undefined) return undefined;
  const { head } = row;
  const oldest = oldestAfter(db, tenant, 0);
  // Offsets have no gaps.
  const events = head - oldest + 1;
  const streams = db.get<{
    enabled: number;
    failing: number;
    disabled: number;
    failures: number;
    cursor: Offset | null;
  }>`
    select count(*) filter (where s.status = 'enabled' and r.consecutive_failures = 0) as enabled,
      count(*) filter (where s.status = 'enabled' and r.consecutive_failures > 0) as failing,
      count(*) filter (where s.status = 'disabled') as disabled,
      coalesce(sum(r.total_failures), 0) as failures,
      min(r.cursor) filter (where s.status = 'enabled') as cursor
    from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
    where s.tenant = ${tenant}`;
  const cursor = Math.max(streams?.cursor ?? head, oldest - 1);
  return {
    head,
    events,
    aboutBytes: Math.round(events * averageBytes(db, tenant)),
    oldestPublishedAt: publishedAt(db, tenant, oldest),
    newestPublishedAt: publishedAt(db, tenant, head),
    streams: {
      enabled: streams?.enabled ?? 0,
      failing: streams?.failing ?? 0,
      disabled: streams?.disabled ?? 0,
    },
    openFailures: streams?.failures ?? 0,
    lag: { events: head - cursor, since: publishedAt(db, tenant, cursor + 1) },
  };
}

/**
 * Returns the bytes of a body, averaged over the oldest and the newest hundred; a length is read
 * without its text.
 */
function averageBytes(db: Database, tenant: number): number {
  const row = db.get<{ bytes: number | null }>`
    select avg(bytes) as bytes from (
      select * from (select octet_length(body) as bytes from events
        where tenant = ${tenant} order by offset limit 100)
      union all
      select * from (select octet_length(body) as bytes from events
        where tenant = ${tenant} order by offset desc limit 100))`;
  return row?.bytes ?? 0;
}

/**
 * Returns `undefined` where the log has no event, even if a part of an append is above its head.
 */
function publishedAt(db: Database, tenant: number, offset: Offset): Millis | undefined {
  const row = db.get<{ published_at: Millis }>`
    select published_at from events where tenant = ${tenant} and offset = ${offset}
      and offset <= (select head from tenants where id = ${tenant})`;
  return row?.published_at;
}

function behind(db: Database, tenant: number, take: number): StreamPosition[] {
  const head = headOf(db, tenant);
  const rows = db.all<Pick<StreamPosition, 'id' | 'name' | 'status' | 'cursor'>>`
    select s.id, s.name, s.status, r.cursor
    from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
    where s.tenant = ${tenant} and s.status = 'enabled' and r.cursor < ${head}
    order by r.cursor, s.id limit ${take}`;
  return rows.map(({ id, name, status, cursor }) => {
    const first = oldestAfter(db, tenant, cursor);
    const since = publishedAt(db, tenant, first);
    return { id, name, status, cursor, events: head - first + 1, since };
  });
}
