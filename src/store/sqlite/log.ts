import type { Millis } from '../../core/clock.ts';
import { StoreContentRefused } from '../../core/errors.ts';
import type { Appended, LogEvent, NewEvent, Offset } from '../../core/types.ts';
import { createAppender, groupLimits, type Appender } from '../appender.ts';
import type { Hint, LogPage, LogQuery, LogStore } from '../port.ts';
import type { StoreTime } from '../port-time.ts';
import { traced } from '../rows/delivered-event.ts';
import type { Database } from './database.ts';
import { headMarks } from './head-marks.ts';
import { doInStep, horizonOf, type UpkeepDeps } from './horizon.ts';

/** Offsets that one page looks at: about 3 ms of scanning for a type that never comes. */
const scanMax = 10_000;

export interface LogDeps extends UpkeepDeps {
  readonly hint: (hint: Hint) => void;
  /** Runs `action` once the present turn of the event loop has taken all its input. */
  readonly defer: (action: () => void) => void;
  readonly time: StoreTime;
}

/** The log of events, and the appender whose end `close` waits for. */
export function createLogStore(deps: LogDeps): LogStore & { readonly appender: Appender } {
  const { db } = deps;
  const appender = createAppender({
    ...groupLimits,
    defer: deps.defer,
    write: (tenant, events) => append(deps, tenant, events),
  });
  return {
    appender,
    append: appender.append,
    head: async (tenant) => headOf(db, tenant),
    heads: async (tenants) => headsOf(db, tenants),
    headMarks: async () => headMarks(db),
    page: async (tenant, query) => page(db, tenant, query),
    firstSince: async (tenant, since) => firstSince(db, tenant, since),
    prune: async (tenant, query) => db.transact('relaxed', () => prune(deps, tenant, query)),
  };
}

function append(
  { db, hint, time }: LogDeps,
  tenant: number,
  events: readonly NewEvent[],
): Appended[] {
  const { appended, written } = db.transact('durable', () =>
    appendWithin(db, tenant, events, time.now()),
  );
  if (written.length > 0) hint({ kind: 'appended', tenant, events: written });
  return appended;
}

/**
 * Appends `events` inside the caller's transaction. Emit `{ kind: 'appended' }` with `written`
 * after the commit, unless it is empty. Throws `StoreContentRefused` when the content is at fault;
 * the caller's transaction must end then.
 */
export function appendWithin(
  db: Database,
  tenant: number,
  events: readonly NewEvent[],
  now: Millis,
): { appended: Appended[]; written: LogEvent[] } {
  const tip = db.get<{ head: Offset; last_published_at: Millis }>`
    select head, last_published_at from tenants where id = ${tenant}`;
  if (tip === undefined) throw new StoreContentRefused(`There is no tenant ${tenant}.`);
  const publishedAt = Math.max(now, tip.last_published_at);
  const appended: Appended[] = [];
  const written: LogEvent[] = [];
  let head = tip.head;
  for (const { id, chosen, type, time, body, trace } of events) {
    // The look-up also finds what this loop has inserted, so it answers repeats in the batch too.
    const first = chosen ? offsetOf(db, tenant, id) : undefined;
    if (first !== undefined) {
      appended.push({ id, offset: first, repeated: true });
      continue;
    }
    const offset = (head += 1);
    db.run`insert into events (tenant, offset, id, type, time, published_at, body, trace)
      values (${tenant}, ${offset}, ${id}, ${type}, ${time}, ${publishedAt}, ${body}, ${trace})`;
    appended.push({ id, offset, repeated: false });
    written.push({ offset, id, type, time, publishedAt, body, ...traced(trace) });
  }
  if (written.length > 0) {
    db.run`update tenants set head = ${head}, last_published_at = ${publishedAt}
      where id = ${tenant}`;
  }
  return { appended, written };
}

/** Where the log has the event, or had it while a delivery of the pruned event is still open. */
function offsetOf(db: Database, tenant: number, id: string): Offset | undefined {
  const row =
    db.get<{ offset: Offset }>`
      select offset from events where tenant = ${tenant} and id = ${id}` ??
    // Without statistics SQLite takes all deliveries of a tenant for ten, and walks over them.
    db.get<{ offset: Offset }>`
      select offset from deliveries indexed by deliveries_event
      where tenant = ${tenant} and event_id = ${id} and offset is not null limit 1`;
  return row?.offset;
}

/** The last offset given out, 0 for a tenant that is unknown. */
export function headOf(db: Database, tenant: number): Offset {
  const row = db.get<{ head: Offset }>`select head from tenants where id = ${tenant}`;
  return row?.head ?? 0;
}

/** Reads the heads of many logs with one statement. */
function headsOf(db: Database, tenants: readonly number[]): Offset[] {
  if (tenants.length < 100) return tenants.map((tenant) => headOf(db, tenant));
  const rows = db.all<{ id: number; head: Offset }>`select id, head from tenants`;
  const heads = new Map(rows.map(({ id, head }) => [id, head]));
  return tenants.map((tenant) => heads.get(tenant) ?? 0);
}

/** The oldest retained offset after `after`; one past the head when there is none. */
export function oldestAfter(db: Database, tenant: number, after: Offset): Offset {
  const row = db.get<{ offset: Offset | null }>`
    select min(offset) as offset from events where tenant = ${tenant} and offset > ${after}`;
  return row?.offset ?? Math.max(headOf(db, tenant), after) + 1;
}

/** Halves the log, as `published_at` never falls along it: an index on it would cost every publish. */
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

interface EventRow {
  readonly offset: Offset;
  readonly id: string;
  readonly type: string;
  readonly time: Millis;
  readonly published_at: Millis;
  readonly body: string;
  readonly trace: string | null;
}

/**
 * Looks at a bounded stretch and says how far it came, so that a rare type cannot hold the process
 * up: a synchronous engine must cap the work of a call. An index on type would spare the scan and
 * cost every publish a fifth of its time.
 */
function page(db: Database, tenant: number, query: LogQuery): LogPage {
  const upTo = Math.min(query.upTo ?? Infinity, headOf(db, tenant));
  const from = oldestAfter(db, tenant, query.after);
  const end = Math.min(upTo, from + scanMax - 1);
  const types = query.types === undefined ? undefined : JSON.stringify(query.types);
  const rows = db.each<EventRow>`
    select offset, id, type, time, published_at, body, trace from events
    where tenant = ${tenant} and offset between ${from} and ${end}
      and (${types} is null or type in (select value from json_each(${types})))
    order by offset limit ${query.take}`;
  const events = takeBodies(rows, query.bytesMax);
  const full = events.full || events.taken.length >= query.take;
  const scannedTo = full ? (events.taken.at(-1)?.offset ?? query.after) : end;
  return { events: events.taken, scannedTo: Math.max(query.after, scannedTo) };
}

/** At least one event, then as many as `bytesMax` allows. */
function takeBodies(
  rows: Iterable<EventRow>,
  bytesMax: number,
): { taken: LogEvent[]; full: boolean } {
  const taken: LogEvent[] = [];
  let bytes = 0;
  for (const row of rows) {
    bytes += row.body.length;
    if (taken.length > 0 && bytes > bytesMax) return { taken, full: true };
    taken.push(eventOf(row));
  }
  return { taken, full: false };
}

function eventOf(row: EventRow): LogEvent {
  const { offset, id, type, time, published_at: publishedAt, body, trace } = row;
  return { offset, id, type, time, publishedAt, body, ...traced(trace) };
}

function prune(deps: LogDeps, tenant: number, query: Parameters<LogStore['prune']>[1]): number {
  const { db, clock } = deps;
  const before = horizonOf(deps, query.olderThanMs);
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
        select 1 from deliveries d indexed by deliveries_event
        where d.tenant = e.tenant and d.event_id = e.id and d.body is null)
      on conflict do nothing`;
    return db.run`delete from events where tenant = ${tenant} and offset <= ${last.offset}`;
  });
}

/** Events between two looks at the time: one of 240 KiB takes about 0.1 ms. */
const partEvents = 20;

/** What every enabled stream has passed. */
function lowestCursor(db: Database, tenant: number): Offset {
  const row = db.get<{ cursor: Offset | null }>`
    select min(runs.cursor) as cursor
    from runs join streams on streams.tenant = runs.tenant and streams.id = runs.stream
    where runs.tenant = ${tenant} and streams.status = 'enabled'`;
  return row?.cursor ?? Number.MAX_SAFE_INTEGER;
}
