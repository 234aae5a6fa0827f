import type { Millis } from '../../core/clock.ts';
import { storedForms } from '../../core/mailbox.ts';
import { storedNames } from '../../core/name.ts';
import type { NewEvent, User } from '../../core/types.ts';
import type { Page } from '../port/page.ts';
import type { UserDecision, UserQuery, UserSort, UserStore } from '../port/users.ts';
import { type Command, Lock, type On, PageRead, sql, type Statement } from './command.ts';
import { type Fragment, forUpdate, oneOf, unlocked, verbatim } from './dialect.ts';
import { indexedOrder } from './user-order.ts';

export interface UserDeps extends On {
  readonly change: ChangeUser;
  /** Returns the statement that sorts all users of a tenant by a field of their profiles. */
  readonly sorted: (query: SortQuery) => Statement<UserRow[]>;
}

/**
 * Changes a user and appends its event in the same commit. Changes of one user follow each other: the
 * user that `plan` reads stays as it is until the change is written.
 */
export type ChangeUser = <T>(
  user: Pick<User, 'tenant' | 'id'>,
  plan: (read: <R>(command: Command<R>) => Promise<R>) => Promise<UserChange<T>>,
) => Promise<T>;

export type UserChange<T> =
  /** Nothing is written. */
  | { readonly result: T }
  | {
      readonly write: () => Command<Written<T>>;
      readonly event: NewEvent;
      /** Characters that `write` writes, the event not counted. */
      readonly length: number;
    };

export interface Written<T> {
  readonly result: T;
  /** Without it the event is not appended. */
  readonly isWritten: boolean;
}

export interface SortQuery {
  readonly tenant: number;
  readonly field: string;
  readonly descending: boolean;
  readonly take: number;
  readonly skip: number;
}

/** Creates the store of the users of the database connections. */
export function createUserStore({ on, change, sorted }: UserDeps): UserStore {
  const { lists } = on;
  return {
    get: (tenant, id) => on.commands.read(get(tenant, id)),
    byEmail: (tenant, email) => lists.read(byEmail(tenant, email)),
    list: (tenant, query) => lists.read(list(tenant, query, sorted)),
    listFrom: (tenant, page) => lists.read(listFrom(tenant, page)),
    create: (user, event) =>
      change(user, async () => {
        const { length } = user.profileJson;
        return { write: () => create(user), event, length };
      }),
    update: (tenant, id, decide) =>
      change({ tenant, id }, async (readFirst) => {
        const before = await readFirst(get(tenant, id, forUpdate));
        return before === undefined ? { result: unknown } : updated(before, await decide(before));
      }),
    delete: (tenant, id, emit) =>
      change({ tenant, id }, async (readFirst) => {
        const before = await readFirst(get(tenant, id, forUpdate));
        if (before === undefined) return { result: false };
        return { write: () => remove(before), event: emit(before), length: 0 };
      }),
  };
}

export interface UserRow {
  readonly id: string;
  readonly connection: string;
  readonly email: string;
  readonly username: string | null;
  readonly password_hash: string;
  readonly profile: string;
  readonly created_at: Millis;
  readonly updated_at: Millis;
}

function userOf(tenant: number, row: UserRow): User {
  return {
    tenant,
    id: row.id,
    connection: row.connection,
    email: row.email,
    username: row.username ?? undefined,
    passwordHash: row.password_hash,
    profileJson: row.profile,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function* get(tenant: number, id: string, lock: Fragment = unlocked): Command<User | undefined> {
  const row = yield* sql.get<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant} and id = ${id} ${lock}`;
  return row && userOf(tenant, row);
}

function* byEmail(tenant: number, email: string): Command<User[]> {
  const rows = yield* sql.all<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant} and email ${oneOf(storedForms(email))} order by id`;
  return rows.map((row) => userOf(tenant, row));
}

function* listFrom(
  tenant: number,
  { after = '', take, bytesMax }: Parameters<UserStore['listFrom']>[1],
): Command<Page<User>> {
  const { rows, hasMore } = yield* new PageRead<UserRow>({
    take,
    bytesMax,
    columns: ['profile'],
    order: 'id',
    rowsAfter: (read, limit) => sql.all`
      select id, connection, email, username, password_hash, profile, created_at, updated_at
      from users where tenant = ${tenant} and id > ${read.at(-1)?.id ?? after}
      order by id limit ${limit}`,
  });
  const items = rows.map((row) => userOf(tenant, row));
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

function* list(
  tenant: number,
  query: UserQuery,
  sorted: UserDeps['sorted'],
): Command<Awaited<ReturnType<UserStore['list']>>> {
  const page = yield* pageOf(tenant, query, sorted);
  if (page === undefined) return { refused: 'too_many_to_sort' };
  if (page.isCut) return { refused: 'too_large' };
  const count = query.counted
    ? yield* sql.get<{ total: number }>`
        select count(*) as total from users where tenant = ${tenant}`
    : undefined;
  return { items: page.rows.map((row) => userOf(tenant, row)), total: count?.total ?? 0 };
}

/** Returns `undefined` where all users would have to be sorted and there are too many. */
function* pageOf(
  tenant: number,
  query: UserQuery,
  sorted: UserDeps['sorted'],
): Command<{ readonly rows: readonly UserRow[]; readonly isCut: boolean } | undefined> {
  const { page, perPage, bytesMax } = query;
  const { field, descending, max } = sortOf(query);
  const skip = page * perPage;
  const order = indexedOrder(field, { descending });
  if (order !== undefined) {
    return yield* new PageRead<UserRow>({
      take: perPage,
      bytesMax,
      columns: ['profile'],
      order,
      rowsAfter: (read, take) => {
        const limit = Math.min(take, perPage - read.length);
        return usersIn(order, { tenant, limit, offset: skip + read.length });
      },
    });
  }
  if (max === undefined || (yield* isLarger(tenant, max))) return undefined;
  // Small enough for one page: `max` bounds the profiles of all users together.
  const rows = yield* sorted({ tenant, field, descending, take: perPage, skip });
  return { rows, isCut: false };
}

/** Returns the statement that reads a page of users in an order of user-order.ts. */
export function usersIn(
  order: string,
  { tenant, limit, offset }: Readonly<Record<'tenant' | 'limit' | 'offset', number>>,
): Statement<UserRow[]> {
  return sql.all`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant}
    order by ${verbatim(order)} limit ${limit} offset ${offset}`;
}

/** No field of a profile has U+0000 in its name on PostgreSQL, and no statement takes it. */
function sortOf({ sort }: UserQuery): Omit<UserSort, 'max'> & { readonly max?: UserSort['max'] } {
  const isByField = sort !== undefined && !sort.field.includes('\u0000');
  return isByField ? sort : { field: 'user_id', descending: false };
}

/** Reads the sizes of at most `users` profiles, and no profile. */
function* isLarger(tenant: number, { users, bytes }: UserSort['max']): Command<boolean> {
  const row = yield* sql.get<{ users: number; bytes: number }>`
    select count(*) as users, cast(coalesce(sum(bytes), 0) as bigint) as bytes
    from (
      select octet_length(profile) as bytes from users where tenant = ${tenant} limit ${users + 1}
    ) as sizes`;
  return row !== undefined && (row.users > users || row.bytes > bytes);
}

type Created = Awaited<ReturnType<UserStore['create']>>;

const unknown = { refused: 'unknown' } as const;
const duplicate = { result: { refused: 'duplicate' }, isWritten: false } as const;

function* create(user: User): Command<Written<Created>> {
  const { tenant, id, connection, email, username, passwordHash, profileJson } = user;
  if (yield* clashes(user)) return duplicate;
  const inserted = yield* sql.run`
    insert into users (tenant, id, connection, email, username, password_hash, profile, created_at,
      updated_at)
    values (${tenant}, ${id}, ${connection}, ${email}, ${username}, ${passwordHash},
      ${profileJson}, ${user.createdAt}, ${user.updatedAt})
    on conflict do nothing`;
  return inserted === 0 ? duplicate : { result: { created: user }, isWritten: true };
}

type Updated<R> = { updated: User } | { refused: R | 'unknown' | 'duplicate' };

/** Id, tenant, connection and instant of creation stay as they are. */
function updated<R extends string>(
  before: User,
  decision: UserDecision<R>,
): UserChange<Updated<R>> {
  if ('refused' in decision) return { result: decision };
  const { tenant, id, connection, createdAt } = before;
  const after = { ...decision.after, tenant, id, connection, createdAt };
  const { length } = after.profileJson;
  return { write: () => update(before, after), event: decision.event, length };
}

function* update(
  before: User,
  after: User,
): Command<Written<{ updated: User } | { refused: 'unknown' | 'duplicate' }>> {
  const { tenant, id, email, username, passwordHash, profileJson, updatedAt } = after;
  const isRenamed = email !== before.email || username !== before.username;
  if (isRenamed && (yield* clashes(after, before))) return duplicate;
  const changed = yield* sql.run`
    update users set email = ${email}, username = ${username}, password_hash = ${passwordHash},
      profile = ${profileJson}, updated_at = ${updatedAt}
    where tenant = ${tenant} and id = ${id}`;
  // On SQLite the user may be deleted with its tenant while `decide` works.
  if (changed === 0) return { result: unknown, isWritten: false };
  return { result: { updated: after }, isWritten: true };
}

function* remove({ tenant, id }: User): Command<Written<boolean>> {
  const removed = yield* sql.run`delete from users where tenant = ${tenant} and id = ${id}`;
  if (removed === 0) return { result: false, isWritten: false };
  yield* sql.run`delete from role_users where tenant = ${tenant} and "user" = ${id}`;
  return { result: true, isWritten: true };
}

/** Returns whether another user of the connection has the mailbox or the username, until the commit. */
function* clashes(user: User, before?: User): Command<boolean> {
  const { tenant, id, connection, email, username } = user;
  // Two users of before these rules may have the same mailbox or name, and keep it.
  const emails = email === before?.email ? [email] : storedForms(email);
  const isKept = username === before?.username;
  const names = username === undefined ? [] : isKept ? [username] : storedNames(username);
  yield* lockNames(user);
  const other = yield* sql.get`
    select 1 from users
    where tenant = ${tenant} and connection = ${connection} and id <> ${id}
      and (email ${oneOf(emails)} or username ${oneOf(names)})`;
  return other !== undefined;
}

/** Keeps other commands from taking a name of the connection between a check and a write. */
function lockNames({ tenant, connection }: User): Lock {
  return new Lock(`users ${tenant} ${connection}`);
}
