import type { Clock, Millis } from '../../../core/clock.ts';
import { blockOf, tenantsPerBlock } from '../../../core/tenant-blocks.ts';
import type { LogEvent, Offset } from '../../../core/types.ts';
import { type Appender, createAppender, groupLimits } from '../../appender.ts';
import { horizonOf } from '../../commands/horizon.ts';
import type { LogPage, LogQuery, LogStore } from '../../port/log.ts';
import { traced } from '../../rows/delivered-event.ts';
import { type AppendDeps, createAppend, headOf } from './append.ts';
import { run } from './commands.ts';
import type { Database } from './database.ts';
import { TypeIndex } from './type-index.ts';
import { doInStep, type UpkeepDeps } from './upkeep-step.ts';

/** Offsets that one page scans: about 3 ms for a type that never occurs. */
const scanMax = 10_000;

export interface LogDeps extends UpkeepDeps, AppendDeps {
  /** Runs `action` after the current turn of the event loop has read all its input. */
  readonly defer: (action: () => void) => void;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** An append of the tenant has had no result for long. */
  readonly late: (tenant: number) => void;
}

/**
 * Creates the log of events, with the appender that `close` waits for. Written apart from
 * PostgreSQL because this log is one table with a single writer, read synchronously in bounded
 * steps.
 */
export function createLogStore(deps: LogDeps): LogStore & { readonly appender: Appender } {
  const { db, defer, clock, late } = deps;
  const { append, syncedHeads } = createAppend(deps);
  const appender = createAppender({ ...groupLimits, defer, clock, late, write: append });
  const typeIndex = new TypeIndex(db);
  const head = (tenant: number): Offset => syncedHeads.get(tenant) ?? headOf(db, tenant);
  return {
    appender,
    append: appender.append,
    head: async (tenant) => head(tenant),
    heads: async (tenants) =>
      headsOf(db, tenants).map((last, index) => syncedHeads.get(tenants[index] ?? 0) ?? last),
    headMarks: async () => headMarks(db, syncedHeads),
    page: async (tenant, query) =>
      page(db, typeIndex, tenant, {
        ...query,
        upTo: Math.min(query.upTo ?? Infinity, head(tenant)),
      }),
    firstSince: async (tenant, since) => Math.min(firstSince(db, tenant, since), head(tenant) + 1),
    prune: async (tenant, query) => db.transact('relaxed', () => prune(deps, tenant, query)),
  };
}

/** Reads the heads of many logs with one statement. */
function headsOf(db: Database, tenants: readonly number[]): Offset[] {
  if (tenants.length < 100) return tenants.map((tenant) => headOf(db, tenant));
  const rows = db.all<{ id: number; head: Offset }>`select id, head from tenants`;
  const heads = new Map(rows.map(({ id, head }) => [id, head]));
  return tenants.map((tenant) => heads.get(tenant) ?? 0);
}

/** Returns the oldest retained offset after `after`; one past the head when there is none. */
export function oldestAfter(db: Database, tenant: number, after: Offset): Offset {
  const row = db.get<{ offset: Offset | null }>`
    select min(offset) as offset from events where tenant = ${tenant} and offset > ${after}`;
  return row?.offset ?? Math.max(headOf(db, tenant), after) + 1;
}

/**
 * Bisects the log, because `published_at` never falls along it: an index on it would slow every
 * publish.
 */
function firstSince(db: Database, tenant: number, since: Millis): Offset {
  let first = oldestAfter(db, tenant, 0);
  if (since <= 0) return first;
  let end = headOf(db, tenant) + 1;
  while (first < end) {
    const probe = Math.floor((first + end) / 2);
    const row = db.get<{ published_at: Millis }>`
      select published_at from events where tenant = ${tenant} and offset = ${probe}`;
    if ((row?.published_at ?? -Infinity) < since) first = probe + 1;
    else end = probe;
  }
  return first;
}

type EventRow = readonly [
  offset: Offset,
  id: string,
  type: string,
  time: Millis,
  publishedAt: Millis,
  body: string,
  trace: string | null,
];

type PageQuery = LogQuery & { readonly upTo: Offset };

/**
 * Scans a bounded part of the log and returns where it stopped, so that a rare type cannot block the
 * process: a synchronous engine must cap the work of a call. Where many streams want few of the events,
 * those are found by their types.
 */
function page(db: Database, typeIndex: TypeIndex, tenant: number, query: PageQuery): LogPage {
  const { types, upTo, take } = query;
  const from = oldestAfter(db, tenant, query.after);
  if (types === undefined) return scan(db, tenant, query, from);
  const found = typeIndex.find(tenant, { types, from, upTo, take });
  if (found !== undefined) return readFound(db, tenant, query, found);
  const scanned = scan(db, tenant, query, from);
  const isWasteful = scanned.events.length * wasteFactor < scanned.scannedTo - from;
  if (isWasteful) typeIndex.noteSearched(tenant, from);
  return scanned;
}

/** A read that passes so many times more events than it returns is wasteful. */
const wasteFactor = 8;

function scan(db: Database, tenant: number, query: PageQuery, from: Offset): LogPage {
  const end = Math.min(query.upTo, from + scanMax - 1);
  const types = query.types === undefined ? undefined : JSON.stringify(query.types);
  const rows = db.eachArray<EventRow>`
    select offset, id, type, time, published_at, body, trace from events
    where tenant = ${tenant} and offset between ${from} and ${end}
      and (${types} is null or type in (select value from json_each(${types})))
    order by offset limit ${query.take}`;
  const events = takeBodies(rows, query.bytesMax);
  const full = events.full || events.taken.length >= query.take;
  const scannedTo = full ? (events.taken.at(-1)?.offset ?? query.after) : end;
  return { events: events.taken, scannedTo: Math.max(query.after, scannedTo) };
}

function readFound(
  db: Database,
  tenant: number,
  { after, bytesMax }: PageQuery,
  { offsets, scannedTo }: { readonly offsets: readonly Offset[]; readonly scannedTo: Offset },
): LogPage {
  if (offsets.length === 0) return { events: [], scannedTo: Math.max(after, scannedTo) };
  const rows = db.eachArray<EventRow>`
    select offset, id, type, time, published_at, body, trace from events
    where tenant = ${tenant} and offset in (select value from json_each(${JSON.stringify(offsets)}))
    order by offset`;
  const events = takeBodies(rows, bytesMax);
  const last = events.full ? events.taken.at(-1)?.offset : undefined;
  return { events: events.taken, scannedTo: Math.max(after, last ?? scannedTo) };
}

/** Reads at least one event, then as many as `bytesMax` allows. */
function takeBodies(
  rows: Iterable<EventRow>,
  bytesMax: number,
): { taken: LogEvent[]; full: boolean } {
  const taken: LogEvent[] = [];
  let bytes = 0;
  for (const row of rows) {
    const event = eventOf(row);
    bytes += event.body.length;
    if (taken.length > 0 && bytes > bytesMax) return { taken, full: true };
    taken.push(event);
  }
  return { taken, full: false };
}

function eventOf([offset, id, type, time, publishedAt, body, trace]: EventRow): LogEvent {
  return { offset, id, type, time, publishedAt, body, ...traced(trace) };
}

function prune(deps: LogDeps, tenant: number, query: Parameters<LogStore['prune']>[1]): number {
  const { db, clock } = deps;
  const before = run(deps.db, horizonOf(query.olderThanMs));
  const passed = lowestCursor(db, tenant);
  return doInStep(clock, query.take, (rest) => {
    const oldest = db.all<{ offset: Offset; published_at: Millis }>`
      select offset, published_at from events
      where tenant = ${tenant} and offset <= ${passed}
      order by offset limit ${Math.min(rest, partEvents)}`;
    const keep = oldest.findIndex((event) => event.published_at >= before);
    const last = oldest.at(keep === -1 ? -1 : keep - 1);
    if (keep === 0 || last === undefined) return 0;
    // As in `offsetOf`.
    db.run`
      insert into kept_events (tenant, offset, id, body, trace)
      select e.tenant, e.offset, e.id, e.body, e.trace from events e
      where e.tenant = ${tenant} and e.offset <= ${last.offset} and exists (
        select 1 from deliveries d
        where d.tenant = e.tenant and d.event_id = e.id and d.body is null)
      on conflict do nothing`;
    return db.run`delete from events where tenant = ${tenant} and offset <= ${last.offset}`;
  });
}

/** Events between two checks of the time: one of 240 KiB takes about 0.1 ms. */
const partEvents = 20;

/** Returns the offset that every enabled stream has passed. */
function lowestCursor(db: Database, tenant: number): Offset {
  const row = db.get<{ cursor: Offset | null }>`
    select min(runs.cursor) as cursor
    from runs join streams on streams.tenant = runs.tenant and streams.id = runs.stream
    where runs.tenant = ${tenant} and streams.status = 'enabled'`;
  return row?.cursor ?? Number.MAX_SAFE_INTEGER;
}

/**
 * See `LogStore.headMarks`. Heads never fall and ids are not reused, so no two states have the same
 * mark. Written apart from PostgreSQL, where a node first compares the store with the one it knows.
 */
function headMarks(
  db: Database,
  syncedHeads: ReadonlyMap<number, Offset>,
): ReadonlyMap<number, string> {
  // SQLite receives a number of JavaScript as a real.
  const rows = db.all<{ block: number; mark: string }>`
    select id / cast(${tenantsPerBlock} as integer) as block,
      count(*) || ' ' || max(id) || ' ' || sum(head) as mark
    from tenants group by 1`;
  const marks = new Map(rows.map(({ block, mark }) => [block, mark]));
  // The mark changes once the rest is visible.
  for (const [tenant, head] of syncedHeads) {
    const block = blockOf(tenant);
    marks.set(block, `${marks.get(block)} ${tenant} at ${head}`);
  }
  return marks;
}
