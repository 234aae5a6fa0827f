import type { Clock, Millis } from '../../../core/clock.ts';
import { tenantsPerBlock } from '../../../core/tenant-blocks.ts';
import type { Appended, LogEvent, NewEvent, Offset } from '../../../core/types.ts';
import { dayOf } from '../../../core/units.ts';
import { type Appender, createAppender, groupLimits } from '../../appender.ts';
import { horizonOf } from '../../commands/horizon.ts';
import { daysMax } from '../../commands/runs.ts';
import type { Hint } from '../../port/hints.ts';
import type { LogPage, LogQuery, LogStore } from '../../port/log.ts';
import { traced } from '../../rows/delivered-event.ts';
import { appendWithin } from './append.ts';
import { run } from './commands.ts';
import { type Database, numbers, type Queries } from './database.ts';
import type { KnownStore, StoreIdentity } from './identity.ts';
import { lockMs, unlessInUse } from './old-days.ts';
import type { Pools } from './pools.ts';

/** Offsets that one page scans: some milliseconds for a type that never occurs. */
const scanMax = 10_000;

export interface LogDeps {
  readonly pools: Pick<Pools, 'publishing' | 'log' | 'commands'>;
  readonly identity: StoreIdentity;
  readonly hint: (hint: Hint) => void;
  /** Runs `action` after the current turn of the event loop has read all its input. */
  readonly defer: (action: () => void) => void;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** An append of the tenant has had no result for long. */
  readonly late: (tenant: number) => void;
}

/**
 * Creates the log of events, with the appender that `close` waits for. Written apart from SQLite
 * because this log has a partition for each day, and because nodes append to it at the same time.
 */
export function createLogStore(deps: LogDeps): LogStore & { readonly appender: Appender } {
  const { identity } = deps;
  const appender = createAppender({
    ...groupLimits,
    defer: deps.defer,
    clock: deps.clock,
    late: deps.late,
    write: (tenant, events, leftMs) => append(deps, tenant, events, leftMs),
  });
  return {
    appender,
    append: appender.append,
    head: async (tenant) => (await comparedTip(deps, tenant)).head,
    heads: (tenants) => comparedHeads(deps, tenants),
    headMarks: () => headMarks({ db: deps.pools.log, identity }),
    page: (tenant, query) => identity.compared((known) => page(deps, known, tenant, query)),
    firstSince: (tenant, since) => firstSince(deps, tenant, since),
    prune: (tenant, query) => prune(deps, tenant, query),
  };
}

async function append(
  { pools: { publishing }, identity, hint }: LogDeps,
  tenant: number,
  events: readonly NewEvent[],
  leftMs: Millis,
): Promise<Appended[]> {
  // The server gives up before this process does, so that nothing is stored after a refusal.
  const waitMs = Math.max(Math.floor(leftMs) - marginMs, marginMs);
  const { appended, written } = await identity.compared((known) =>
    appendWithin(publishing, tenant, events, { known, waitMs }),
  );
  const last = written.at(-1);
  if (last === undefined) return appended;
  identity.sawHead(tenant, last.offset);
  hint({ kind: 'appended', tenant, events: written });
  return appended;
}

/** For the way to the server and back. */
const marginMs = 1000;

/** The ends of a log. */
interface Tip {
  /** The last offset assigned. */
  readonly head: Offset;
  /** Events up to here are pruned, even if a partition still has them. */
  readonly prunedTo: Offset;
}

/** Returns the ends of a log on the store that this process joined. */
async function comparedTip(
  { pools: { log: db }, identity }: LogDeps,
  tenant: number,
): Promise<Tip> {
  return identity.compared(async (known) => {
    const tip = await knownTip(db, known, tenant);
    identity.sawHead(tenant, tip.head);
    return tip;
  });
}

async function comparedHeads(
  { pools: { log: db }, identity }: LogDeps,
  tenants: readonly number[],
): Promise<Offset[]> {
  if (tenants.length === 0) return [];
  return identity.compared(async ({ generation, identity: own, flushed, seen }) => {
    const rows = await db.all<{ tenant: number; head: Offset; flushed: number | null }>`
      with compared as materialized (
        select leat_compare(${generation}, ${own}, ${flushed}) as flushed)
      select requested.tenant, coalesce(head, 0) as head, flushed
      from compared
      cross join unnest(${numbers(tenants)}::int[]) with ordinality as requested(tenant, n)
      left join tenants on id = requested.tenant order by n`;
    seen(rows[0]?.flushed);
    for (const { tenant, head } of rows) identity.sawHead(tenant, head);
    return rows.map(({ head }) => head);
  });
}

async function knownTip(
  db: Queries,
  { generation, identity, flushed, seen }: KnownStore,
  tenant: number,
): Promise<Tip> {
  const row = await db.get<{ head: Offset; pruned_to: Offset; flushed: number | null }>`
    select coalesce(head, 0) as head, coalesce(pruned_to, 0) as pruned_to, flushed
    from (select leat_compare(${generation}, ${identity}, ${flushed}) as flushed) as compared
    left join tenants on id = ${tenant}`;
  seen(row?.flushed);
  return { head: row?.head ?? 0, prunedTo: row?.pruned_to ?? 0 };
}

interface PageRow {
  // Of an event; null in the last row.
  readonly offset: Offset;
  readonly id: string;
  readonly type: string;
  readonly time: Millis;
  readonly published_at: Millis;
  readonly body: string;
  readonly trace: string | null;
  // Of the page; null in all rows but the last.
  readonly head: Offset | null;
  readonly flushed: number | null;
  readonly scanned_to: Offset | null;
}

async function page(
  { pools: { log: db }, identity: { sawHead } }: LogDeps,
  { generation, identity, flushed, seen }: KnownStore,
  tenant: number,
  { after, upTo, types, take, bytesMax }: LogQuery,
): Promise<LogPage> {
  // Without a filter of types the page takes the next events.
  const offsets = types === undefined ? Math.min(take, scanMax) : scanMax;
  const bytes = Math.floor(Math.min(bytesMax, Number.MAX_SAFE_INTEGER));
  const rows = await db.all<PageRow>`
    select * from leat_page(${generation}, ${identity}, ${flushed}, ${tenant}, ${after}, ${upTo},
      ${offsets}, ${daysMax}, ${types}::text[], ${take}, ${bytes})`;
  const end = rows.pop();
  if (end === undefined) throw new Error('A function that returns a row returned none.');
  seen(end.flushed);
  sawHead(tenant, end.head ?? 0);
  return { events: rows.map(eventOf), scannedTo: end.scanned_to ?? after };
}

function eventOf(row: PageRow): LogEvent {
  const { offset, id, type, time, published_at: publishedAt, body, trace } = row;
  return { offset, id, type, time, publishedAt, body, ...traced(trace) };
}

async function firstSince(deps: LogDeps, tenant: number, since: Millis): Promise<Offset> {
  const db = deps.pools.log;
  const { head, prunedTo } = await comparedTip(deps, tenant);
  if (since <= 0) return prunedTo + 1;
  return (await lastBefore(db, tenant, { after: prunedTo, upTo: head }, since)) + 1;
}

interface PruneRow {
  readonly head: Offset;
  readonly last_published_at: Millis;
  readonly pruned_to: Offset;
  readonly oldest_at: Millis;
  readonly cursor: Offset | null;
}

/**
 * Moves the beginning of the log, by any distance, with one row. Finds it without a lock, by a few
 * searches in days that may be removed.
 */
async function prune(
  deps: LogDeps,
  tenant: number,
  { olderThanMs, take }: Parameters<LogStore['prune']>[1],
): Promise<number> {
  const db = deps.pools.commands;
  const before = await run(db, horizonOf(olderThanMs));
  const row = await db.get<PruneRow>`
    select head, last_published_at, pruned_to, oldest_at, (
      select min(r.cursor) from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
      where r.tenant = t.id and s.status = 'enabled') as cursor
    from tenants t where t.id = ${tenant}`;
  if (row === undefined) return 0;
  const oldest = row.pruned_to;
  const upTo = Math.min(row.head, row.cursor ?? Infinity, oldest + take);
  const prunedTo = Math.max(oldest, await lastBefore(db, tenant, { after: oldest, upTo }, before));
  // The instants of publication never fall along the log.
  const oldestAt =
    prunedTo === row.head
      ? row.last_published_at
      : ((await publicationOf(db, tenant, prunedTo + 1)) ?? row.oldest_at);
  if (prunedTo === oldest && oldestAt === row.oldest_at) return 0;
  const moved = await moveBeginning(deps, tenant, { from: oldest, to: prunedTo, oldestAt });
  return moved ? prunedTo - oldest : 0;
}

/**
 * Returns false when the tenant is in use, or when a stream was enabled in the meantime that needs
 * events before the new beginning. The lock excludes that from here on, and the cursors are read
 * after it.
 */
async function moveBeginning(
  { pools: { commands: db }, identity }: LogDeps,
  tenant: number,
  { from, to, oldestAt }: { readonly from: Offset; readonly to: Offset; readonly oldestAt: Millis },
): Promise<boolean> {
  let isMoved = false;
  await unlessInUse(() =>
    identity.transact(db, 'relaxed', async (tx) => {
      const [, , moved] = await Promise.all([
        tx.get`select set_config('lock_timeout', ${`${lockMs}ms`}, true)`,
        tx.get`select 1 from tenants where id = ${tenant} for no key update`,
        tx.run`
          update tenants t set pruned_to = ${to}, oldest_at = ${oldestAt}
          where id = ${tenant} and pruned_to = ${from} and head >= ${to} and not exists (
            select 1 from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
            where r.tenant = t.id and s.status = 'enabled' and r.cursor < ${to})`,
        // The day of the oldest event that is left stays.
        tx.run`
          delete from log_days
          where tenant = ${tenant} and first_offset < (
            select max(d.first_offset) from log_days d join tenants t on t.id = d.tenant
            where t.id = ${tenant} and d.first_offset <= t.pruned_to + 1)`,
      ]);
      isMoved = moved > 0;
    }),
  );
  return isMoved;
}

/**
 * Returns the last offset of a stretch published before an instant, which never falls along the
 * log. The search starts at the first event of the last day before that of the instant.
 */
async function lastBefore(
  db: Queries,
  tenant: number,
  stretch: { readonly after: Offset; readonly upTo: Offset },
  before: Millis,
): Promise<Offset> {
  const days = await db.get<{ old: Offset | null; young: Offset | null }>`
    select max(first_offset) filter (where day < ${dayOf(before)}) as old,
      min(first_offset) filter (where day > ${dayOf(before)}) as young
    from log_days where tenant = ${tenant}`;
  let upTo = Math.min(stretch.upTo, (days?.young ?? Infinity) - 1);
  let after = Math.max(stretch.after, Math.min(days?.old ?? 0, upTo));
  // Usually all of it is old, or nothing.
  for (let probe = upTo; after < upTo; probe = Math.ceil((after + upTo) / 2)) {
    if (((await publicationOf(db, tenant, probe)) ?? Infinity) < before) after = probe;
    else upTo = probe - 1;
  }
  return after;
}

/** Returns when the event at an offset was published; `undefined` when the log does not have it. */
async function publicationOf(
  db: Queries,
  tenant: number,
  offset: Offset,
): Promise<Millis | undefined> {
  const row = await db.get<{ at: Millis | null }>`
    select leat_published_at(${tenant}, ${offset}::bigint) as at`;
  return row?.at ?? undefined;
}

/**
 * See `LogStore.headMarks`. Heads never fall and ids are not reused, so no two states have the same
 * mark. Written apart from SQLite, where no fail-over or restore can change the store meanwhile.
 */
function headMarks({
  db,
  identity,
}: {
  readonly db: Database;
  readonly identity: StoreIdentity;
}): Promise<ReadonlyMap<number, string>> {
  return identity.compared(async ({ generation, identity: own, flushed, seen }) => {
    // At least one row: the comparison is also needed where there are no tenants.
    const rows = await db.all<{
      block: number | null;
      mark: string | null;
      flushed: number | null;
    }>`
      with compared as materialized (
        select leat_compare(${generation}, ${own}, ${flushed}) as flushed),
      marks as (
        select id / ${tenantsPerBlock}::int as block,
          count(*) || ' ' || max(id) || ' ' || sum(head) as mark
        from tenants group by 1)
      select block, mark, flushed from compared left join marks on true`;
    seen(rows[0]?.flushed);
    return new Map(
      rows.flatMap(({ block, mark }) => (block === null || mark === null ? [] : [[block, mark]])),
    );
  });
}
