import type { Millis } from '../../core/clock.ts';
import {
  consoleLimits,
  type ConsoleRole,
  type ConsoleSession,
  endOfSession,
} from '../../core/console-session.ts';
import type { ConsoleSessionStore, NewSession } from '../port/console-sessions.ts';
import { skewMaxMs } from '../port/time.ts';
import { conversionOf } from '../rows/fields.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { columnsOf, valuesOf } from './columns.ts';
import { type Command, Lock, sql, together, type On } from './command.ts';
import { andEquals, forKeyShare, verbatim } from './dialect.ts';

/** Creates the store of the sessions of the console. */
export function createConsoleSessionStore({ on }: On): ConsoleSessionStore {
  const { read, transact } = on.commands;
  const get = (tenant: number, secretHash: Uint8Array) => read(open(tenant, secretHash));
  return {
    addCode: (code) => transact('durable', () => addCode(code)),
    roleOfCode: (tenant, codeHash) => read(roleOfCode(tenant, codeHash)),
    redeem: (tenant, codeHash, session) =>
      transact('confirmed', () => redeem(tenant, codeHash, session)),
    begin: (session) => transact('durable', () => begin(session)),
    get: async (tenant, secretHash, isUse) => {
      const row = await get(tenant, secretHash);
      if (row === undefined) return undefined;
      if (!isUse || row.now - row.used_at < consoleLimits.useEveryMs) return sessionOf(row);
      const used = await transact('relaxed', () => use(tenant, secretHash, row));
      // Otherwise it was used by another request, or has ended.
      const current = used ?? (await get(tenant, secretHash));
      return current && sessionOf(current);
    },
    end: (tenant, secretHash) => transact('confirmed', () => end(tenant, secretHash)),
    list: (tenant) => on.lists.read(list(tenant)),
    endMany: (tenant, which) => transact('confirmed', () => endMany(tenant, which)),
    prune: ({ take }) => transact('relaxed', () => prune(Math.min(take, pruneMax))),
  };
}

type SessionRow = RowOf<typeof tables.console_sessions>;
const columns = columnsOf(tables.console_sessions);
const { fieldsOf: sessionOf } = conversionOf(tables.console_sessions, { without: ['secret_hash'] });

/** A session that was used while the store's clock was ahead would last too long, so it has ended. */
const isOpen = verbatim(`ends_at > leat_now() and used_at <= leat_now() + ${skewMaxMs}`);

/** The same for codes. */
const isValid = verbatim(
  `expires_at > leat_now() and expires_at <= leat_now() + ${consoleLimits.codeMs + skewMaxMs}`,
);

function* addCode({
  tenant,
  codeHash,
  role,
}: Parameters<ConsoleSessionStore['addCode']>[0]): Command<boolean> {
  const now = yield* beginning(tenant);
  if (now === undefined) return false;
  yield* sql.run`delete from console_codes where tenant = ${tenant} and not (${isValid})`;
  yield* sql.run`
    delete from console_codes where tenant = ${tenant} and code_hash in (
      select code_hash from console_codes where tenant = ${tenant}
      order by expires_at desc, code_hash limit ${rowsMax} offset ${consoleLimits.codesMax - 1})`;
  yield* sql.run`
    insert into console_codes (tenant, code_hash, role, expires_at)
    values (${tenant}, ${codeHash}, ${role}, ${now + consoleLimits.codeMs})`;
  return true;
}

/** Above the number of rows that a tenant can have: PostgreSQL has no word for SQLite's `limit -1`. */
const rowsMax = 1_000_000;

/**
 * Returns the time of the store, unless the tenant is unknown. Until the commit nothing else adds to the
 * rows that are counted, and the tenant stays.
 */
function* beginning(tenant: number): Command<Millis | undefined> {
  yield* new Lock(`console ${tenant}`);
  const row = yield* sql.get<{ now: Millis }>`
    select leat_now() as now from tenants where id = ${tenant} ${forKeyShare}`;
  return row?.now;
}

function* roleOfCode(tenant: number, codeHash: Uint8Array): Command<ConsoleRole | undefined> {
  const code = yield* sql.get<{ role: ConsoleRole }>`
    select role from console_codes
    where tenant = ${tenant} and code_hash = ${codeHash} and ${isValid}`;
  return code?.role;
}

function* redeem(
  tenant: number,
  codeHash: Uint8Array,
  session: Parameters<ConsoleSessionStore['redeem']>[2],
): Command<ConsoleSession | undefined> {
  const now = yield* beginning(tenant);
  if (now === undefined) return undefined;
  const code = yield* sql.get<{ role: ConsoleRole }>`
    delete from console_codes
    where tenant = ${tenant} and code_hash = ${codeHash} and ${isValid} returning role`;
  if (code === undefined) return undefined;
  return yield* insert({ ...session, tenant, role: code.role, mapping: undefined }, now);
}

function* begin(session: NewSession): Command<ConsoleSession | undefined> {
  const now = yield* beginning(session.tenant);
  return now === undefined ? undefined : yield* insert(session, now);
}

function* insert(
  { tenant, id, secretHash, role, user, mapping }: NewSession,
  now: Millis,
): Command<ConsoleSession> {
  const endsAt = endOfSession(now, now);
  const row = { tenant, id, role, user, mapping, created_at: now, used_at: now, ends_at: endsAt };
  yield* sql.run`delete from console_sessions where tenant = ${tenant} and not (${isOpen})`;
  if (mapping !== undefined) {
    yield* sql.run`
      delete from console_sessions where tenant = ${tenant} and id in (
        select id from console_sessions where tenant = ${tenant} and "user" = ${user}
        order by created_at desc, id desc limit ${rowsMax} offset ${consoleLimits.ofUserMax - 1})`;
  }
  yield* sql.run`
    delete from console_sessions where tenant = ${tenant} and id in (
      select id from console_sessions where tenant = ${tenant}
      order by created_at desc, id desc limit ${rowsMax} offset ${consoleLimits.sessionsMax - 1})`;
  const { console_sessions: sessions } = tables;
  yield* sql.run`
    insert into console_sessions ${valuesOf(sessions, { ...row, secret_hash: secretHash })}`;
  return { id, tenant, role, user, mapping, createdAt: now, usedAt: now, endsAt };
}

/** Returns the session with this secret unless it has ended, and the time of the store. */
function* open(
  tenant: number,
  secretHash: Uint8Array,
): Command<(SessionRow & { readonly now: Millis }) | undefined> {
  return yield* sql.get<SessionRow & { readonly now: Millis }>`
    select ${columns}, leat_now() as now from console_sessions
    where tenant = ${tenant} and secret_hash = ${secretHash} and ${isOpen}`;
}

/** Returns the same for a change that the session makes: until the commit it does not end. */
export function* heldSession(
  tenant: number,
  secretHash: Uint8Array,
): Command<ConsoleSession | undefined> {
  const row = yield* sql.get<SessionRow>`
    select ${columns} from console_sessions
    where tenant = ${tenant} and secret_hash = ${secretHash} and ${isOpen} ${forKeyShare}`;
  return row && sessionOf(row);
}

/** Records a use at `now`, unless another one was recorded since the row was read. */
function* use(
  tenant: number,
  secretHash: Uint8Array,
  { created_at, used_at, now }: SessionRow & { readonly now: Millis },
): Command<SessionRow | undefined> {
  return yield* sql.get<SessionRow>`
    update console_sessions set used_at = ${now}, ends_at = ${endOfSession(created_at, now)}
    where tenant = ${tenant} and secret_hash = ${secretHash} and used_at = ${used_at} and ${isOpen}
    returning ${columns}`;
}

function* end(tenant: number, secretHash: Uint8Array): Command<boolean> {
  return (yield* remove(tenant, 'secret_hash', secretHash)) > 0;
}

/**
 * Deletes sessions and returns how many were open. One that was used while the clock was ahead goes too:
 * it would open again once the clock is there.
 */
function* remove(
  tenant: number,
  column: 'secret_hash' | 'id',
  value: Uint8Array | string | undefined,
): Command<number> {
  const ended = yield* sql.run`
    delete from console_sessions where tenant = ${tenant} ${andEquals(column, value)} and ${isOpen}`;
  yield* sql.run`
    delete from console_sessions where tenant = ${tenant} ${andEquals(column, value)}`;
  return ended;
}

function* list(tenant: number): Command<ConsoleSession[]> {
  const rows = yield* sql.all<SessionRow>`
    select ${columns} from console_sessions where tenant = ${tenant} and ${isOpen}
    order by created_at desc, id desc`;
  return rows.map(sessionOf);
}

function* endMany(
  tenant: number,
  which: Parameters<ConsoleSessionStore['endMany']>[1],
): Command<number> {
  if (which !== 'all') return yield* remove(tenant, 'id', which.id);
  yield* sql.run`delete from console_codes where tenant = ${tenant}`;
  return yield* remove(tenant, 'id', undefined);
}

/** Maximum rows of a table removed in one step: some milliseconds of SQLite. */
const pruneMax = 100;

/**
 * Those from when the clock was ahead stay until their time, or the next beginning or end of sessions of
 * their tenant: they are few.
 */
function* prune(rows: number): Command<number> {
  const [sessions, codes] = yield* together(
    sql.run`
      delete from console_sessions where (tenant, secret_hash) in (
        select tenant, secret_hash from console_sessions where ends_at <= leat_now()
        order by ends_at limit ${rows})`,
    sql.run`
      delete from console_codes where (tenant, code_hash) in (
        select tenant, code_hash from console_codes where expires_at <= leat_now()
        order by expires_at limit ${rows})`,
  );
  return sessions + codes;
}
