import {
  type AuditCount,
  type AuditEntry,
  type AuditKey,
  type AuditType,
  auditTypes,
  formatAuditKey,
  parseAuditKey,
  type RecordedEntry,
} from '../../core/audit-log.ts';
import type { Millis } from '../../core/clock.ts';
import type { AuditFilter, AuditLogStore } from '../port/audit-log.ts';
import type { Page } from '../port/page.ts';
import type { StepQuery } from '../port/upkeep.ts';
import { conversionOf } from '../rows/fields.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { columnsOf } from './columns.ts';
import { type Command, sql, type Statement, together, type On } from './command.ts';
import { andEquals, listed, oneOf, oneOfNumbers, verbatim } from './dialect.ts';

/** Creates the store of the audit log; recording.ts has the entries of changes. */
export function createAuditLogStore({ on }: On): AuditLogStore {
  const { read, transact } = on.commands;
  return {
    get: (tenant, id) => read(get(tenant, id)),
    list: (tenant, query) => on.lists.read(list(tenant, query)),
    listNumbered: (tenant, query) => on.lists.read(listNumbered(tenant, query)),
    add: (entries) => transact('durable', () => add(entries)),
    prune: (query) => transact('relaxed', () => prune(query)),
  };
}

/** Records one entry, or adds `count` to that of the same id. */
export function* record(entry: AuditEntry, count = 1, ageMs = 0): Command<void> {
  const { tenant, id, type, description, clientId, ip, userAgent, details } = entry;
  yield* together(
    sql.run`
      insert into audit_log (tenant, id, at, type, description, client, client_name, ip, user_agent,
        details, count)
      values (${tenant}, ${id}, leat_now() - ${ageMs}, ${type}, ${description}, ${clientId},
        (select name from clients where tenant = ${tenant} and id = ${clientId}), ${ip},
        ${userAgent}, ${JSON.stringify(details)}, ${count})
      on conflict (tenant, id) do update set count = audit_log.count + excluded.count`,
    sql.run`
      insert into audit_targets (tenant, id, target, type, client, at)
      select l.tenant, l.id, listed.value, l.type, l.client, l.at
      from ${listed(details.targets)} cross join audit_log l
      where l.tenant = ${tenant} and l.id = ${id}
      on conflict do nothing`,
  );
}

/**
 * In the order of ids, so that two nodes that add to the same counts never deadlock. Entries of tenants
 * that were deleted meanwhile are left out: nothing would remove them before their retention ends.
 */
function* add(entries: readonly AuditCount[]): Command<void> {
  const tenants = [...new Set(entries.map(({ entry }) => entry.tenant))];
  const found = yield* sql.all<{ id: number }>`
    select id from tenants where id ${oneOfNumbers(tenants)}`;
  const present = new Set(found.map(({ id }) => id));
  const kept = entries.filter(({ entry }) => present.has(entry.tenant));
  const inOrder = kept.toSorted(
    (one, other) => one.entry.tenant - other.entry.tenant || compareTexts(one.entry, other.entry),
  );
  for (const { entry, count, ageMs } of inOrder) yield* record(entry, count, ageMs);
}

function compareTexts(one: { readonly id: string }, other: { readonly id: string }): number {
  if (one.id === other.id) return 0;
  return one.id < other.id ? -1 : 1;
}

type EntryRow = RowOf<typeof tables.audit_log>;

const { fieldsOf: entryOf } = conversionOf(tables.audit_log);

function* get(tenant: number, id: string): Command<RecordedEntry | undefined> {
  const [entry] = yield* entriesOf(tenant, [id]);
  return entry;
}

/** Returns the entries with these ids, newest first. */
function* entriesOf(tenant: number, ids: readonly string[]): Command<RecordedEntry[]> {
  const rows = yield* sql.all<EntryRow>`
    select ${columnsOf(tables.audit_log)} from audit_log where tenant = ${tenant} and id ${oneOf(ids)}`;
  return rows.toSorted(newestFirst).map(entryOf);
}

function* list(
  tenant: number,
  query: Parameters<AuditLogStore['list']>[1],
): Command<Page<RecordedEntry>> {
  const after = query.after === undefined ? beforeAll : parseAuditKey(query.after);
  if (after === undefined) return { items: [], next: undefined };
  const keys = yield* keysOf(tenant, query, after, query.take + 1);
  const page = keys.slice(0, query.take);
  const items = yield* entriesOf(tenant, idsOf(page));
  const last = keys.length > query.take ? page.at(-1) : undefined;
  return { items, next: last && formatAuditKey(last) };
}

function* listNumbered(
  tenant: number,
  query: Parameters<AuditLogStore['listNumbered']>[1],
): Command<Awaited<ReturnType<AuditLogStore['listNumbered']>>> {
  const { skip, take, totalMax } = query;
  const keys = yield* keysOf(tenant, query, beforeAll, totalMax);
  const items = yield* entriesOf(tenant, idsOf(keys.slice(skip, skip + take)));
  return { items, total: keys.length };
}

/** The key before the first page: later than every entry. */
const beforeAll: AuditKey = { at: Number.MAX_SAFE_INTEGER, id: '' };

function idsOf(keys: readonly AuditKey[]): string[] {
  return keys.map(({ id }) => id);
}

/**
 * Returns the newest keys that match, from indexes alone: one statement for each type, because an
 * index has the entries of one type in order.
 */
function* keysOf(
  tenant: number,
  filter: AuditFilter,
  after: AuditKey,
  take: number,
): Command<AuditKey[]> {
  const types = filter.types === undefined ? auditTypes : new Set(filter.types);
  // One upper bound: SQLite begins at the first of two, and would read all between them.
  const end = { at: filter.to ?? Number.MAX_SAFE_INTEGER, id: '' };
  const before = end.at <= after.at ? end : after;
  const range = { ...filter, tenant, before, take };
  const found = yield* together(...[...types].map((type) => keysOfType(range, type)));
  return found.flat().toSorted(newestFirst).slice(0, take);
}

interface KeyRange extends AuditFilter {
  readonly tenant: number;
  readonly before: AuditKey;
  readonly take: number;
}

function keysOfType(range: KeyRange, type: AuditType): Statement<AuditKey[]> {
  const { tenant, client, target, before, take, from = Number.MIN_SAFE_INTEGER } = range;
  const table = verbatim(target === undefined ? 'audit_log' : 'audit_targets');
  return sql.all`
    select at, id from ${table}
    where tenant = ${tenant} and type = ${type}
      ${andEquals('target', target)} ${andEquals('client', client)}
      and (at, id) < (${before.at}, ${before.id}) and at >= ${from}
    order by at desc, id desc limit ${take}`;
}

function newestFirst(one: AuditKey, other: AuditKey): number {
  return other.at - one.at || compareTexts(other, one);
}

function* prune({ olderThanMs, take }: StepQuery): Command<number> {
  return yield* removeOldest(yield* entryHorizon(olderThanMs), Math.min(take, pruneMax));
}

/** Removes the oldest entries from before an instant, with their targets. Returns how many. */
export function* removeOldest(before: Millis, rows: number): Command<number> {
  yield* sql.run`
    delete from audit_targets where (tenant, id) in (
      select tenant, id from audit_log where at < ${before} order by at, tenant, id limit ${rows})`;
  return yield* sql.run`
    delete from audit_log where (tenant, id) in (
      select tenant, id from audit_log where at < ${before} order by at, tenant, id limit ${rows})`;
}

/** Maximum entries removed in one step; SQLite, which blocks the process, has a pruner of its own. */
const pruneMax = 100;

/**
 * Returns the instant before which entries are older than `olderThanMs`: as for events, a clock that is
 * ahead must not make everything old at once. Entries count, too, where nothing is published.
 */
export function* entryHorizon(olderThanMs: number): Command<Millis> {
  const row = yield* sql.get<{ now: Millis; newest: Millis | null }>`
    select leat_now() as now, (
      select max(at) from (
        select max(last_published_at) as at from tenants union all select max(at) from audit_log
      ) as ends) as newest`;
  if (row === undefined) throw new Error('A select of an aggregate returned no row.');
  return Math.min(row.now, row.newest ?? Infinity) - olderThanMs;
}
