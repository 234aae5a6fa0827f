import { storedForms } from '../../core/mailbox.ts';
import { storedNames } from '../../core/name.ts';
import type { KeyedSerialQueue } from '../../core/serial-queue.ts';
import type { LogEvent, NewEvent, User } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { Page } from '../port/page.ts';
import type { UserQuery, UserSort, UserStore } from '../port/users.ts';
import { conversionOf } from '../rows/fields.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { changesOf, columnsOf, valuesOf } from './columns.ts';
import { type Command, engine, Lock, type On, PageRead, sql, type Statement } from './command.ts';
import { forUpdate, Fragment, oneOf, piece, unlocked, verbatim } from './dialect.ts';

export interface UserDeps extends On {
  readonly hint: (hint: Hint) => void;
  /** Changes of one user by this process follow each other, each with the result of the one before. */
  readonly userChanges: KeyedSerialQueue;
}

/** Creates the store of the users of the database connections. */
export function createUserStore(deps: UserDeps): UserStore {
  const { on, userChanges } = deps;
  const { lists } = on;
  const { read } = on.commands;
  return {
    get: (tenant, id) => read(get(tenant, id)),
    byEmail: (tenant, email) => lists.read(byEmail(tenant, email)),
    list: (tenant, query) => lists.read(list(tenant, query)),
    listFrom: (tenant, page) => lists.read(listFrom(tenant, page)),
    create: (user, event) =>
      userChanges.run(
        keyOf(user),
        async () => (await write(deps, user, event, () => create(user))) ?? duplicate,
      ),
    update: (tenant, id, decide) =>
      decided(deps, { tenant, id }, async (before) => {
        if (before === undefined) return refuse(deps, { tenant, id }, before, unknown);
        const decision = await decide(before);
        if ('refused' in decision) return refuse(deps, before, before, decision);
        const { createdAt, connection } = before;
        const after = { ...decision.after, tenant, id, connection, createdAt };
        return write(deps, after, decision.event, () => update(before, after));
      }),
    delete: async (tenant, id, emit) => {
      const result = await decided(deps, { tenant, id }, async (before) =>
        before === undefined
          ? refuse(deps, { tenant, id }, before, unknown)
          : write(deps, before, emit(before), () => remove(before)),
      );
      return 'removed' in result;
    },
  };
}

type UserKey = Pick<User, 'tenant' | 'id'>;

function keyOf({ tenant, id }: UserKey): string {
  return `${tenant} ${id}`;
}

/** Decides on a user as it is, and again while another node changes it meanwhile. */
function decided<T>(
  { on, userChanges }: UserDeps,
  key: UserKey,
  decide: (before: User | undefined) => Promise<T | undefined>,
): Promise<T> {
  return userChanges.run(keyOf(key), async () => {
    for (;;) {
      const result = await decide(await on.commands.read(get(key.tenant, key.id)));
      if (result !== undefined) return result;
    }
  });
}

/**
 * Writes a change of a user and appends its event in one transaction, unless the change is refused. Returns
 * `undefined` when another node has changed the user since the change was decided.
 */
async function write<T extends object>(
  { on, hint }: UserDeps,
  { tenant, profileJson }: User,
  event: NewEvent,
  change: () => Command<T | undefined>,
): Promise<T | undefined> {
  let written: readonly LogEvent[] = [];
  const result = await on.commands.transact('confirmed', change, {
    length: profileJson.length + event.body.length,
    *run(changed) {
      const isWritten = changed !== undefined && !('refused' in changed);
      written = isWritten ? yield* engine.append(tenant, [event]) : [];
    },
  });
  if (written.length > 0) hint({ kind: 'appended', tenant, events: written });
  return result;
}

/** Returns a refusal once what it was decided from is durable; `undefined` as {@link write} does. */
function refuse<T>(
  { on }: UserDeps,
  key: UserKey,
  before: User | undefined,
  refusal: T,
): Promise<T | undefined> {
  return on.commands.transact('confirmed', function* () {
    return (yield* isUnchanged(key, before)) ? refusal : undefined;
  });
}

type UserRow = RowOf<typeof tables.users>;
const columns = columnsOf(tables.users);
const { fieldsOf: userOf, cellsOf: rowOf } = conversionOf(tables.users);

function* get(tenant: number, id: string, lock: Fragment = unlocked): Command<User | undefined> {
  const row = yield* sql.get<UserRow>`
    select ${columns} from users where tenant = ${tenant} and id = ${id} ${lock}`;
  return row && userOf(row);
}

function* byEmail(tenant: number, email: string): Command<User[]> {
  const rows = yield* sql.all<UserRow>`
    select ${columns} from users where tenant = ${tenant} and email ${oneOf(storedForms(email))} order by id`;
  return rows.map(userOf);
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
      select ${columns} from users where tenant = ${tenant} and id > ${read.at(-1)?.id ?? after}
      order by id limit ${limit}`,
  });
  const items = rows.map(userOf);
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

function* list(tenant: number, query: UserQuery): Command<Awaited<ReturnType<UserStore['list']>>> {
  const page = yield* pageOf(tenant, query);
  if (page === undefined) return { refused: 'too_many_to_sort' };
  if (page.isCut) return { refused: 'too_large' };
  const count = query.counted
    ? yield* sql.get<{ total: number }>`
        select count(*) as total from users where tenant = ${tenant}`
    : undefined;
  return { items: page.rows.map(userOf), total: count?.total ?? 0 };
}

/** Returns `undefined` where all users would have to be sorted and there are too many. */
function* pageOf(
  tenant: number,
  query: UserQuery,
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
  const rows = yield* sortedUsers({ tenant, field, descending, take: perPage, skip });
  return { rows, isCut: false };
}

/** Returns the statement that reads a page of users in an order of user-order.ts. */
export function usersIn(
  order: string,
  { tenant, limit, offset }: Readonly<Record<'tenant' | 'limit' | 'offset', number>>,
): Statement<UserRow[]> {
  return sql.all`
    select ${columns} from users where tenant = ${tenant}
    order by ${verbatim(order)} limit ${limit} offset ${offset}`;
}

interface SortQuery {
  readonly tenant: number;
  readonly field: string;
  readonly descending: boolean;
  readonly take: number;
  readonly skip: number;
}

/**
 * Sorts all users of a tenant by a field of their profiles, about 1 µs each; a field that no user has leaves
 * the ids to sort. Missing values and null come before numbers and booleans, those before texts, those before
 * the rest.
 */
function sortedUsers({ tenant, field, descending, take, skip }: SortQuery): Statement<UserRow[]> {
  return sql.all<UserRow>`
    select ${columns}
    from ${withValue(tenant, field)}
    order by ${byValue(descending)}, id
    limit ${take} offset ${skip}`;
}

/** Differs because each engine reads JSON in its own way; `offset 0` lets PostgreSQL do so once for each user. */
function withValue(tenant: number, field: string): Fragment {
  return new Fragment({
    sqlite: piece`(
      select users.*, (select value from json_each(profile) where key = ${field}) as value
      from users where tenant = ${tenant})`,
    postgres: piece`(
      select users.*,
        case when profile !~ ${unreadable} then profile::json -> ${field}::text end as value
      from users where tenant = ${tenant}
      offset 0) as valued`,
  });
}

/** SQLite compares values of all types. */
function byValue(descending: boolean): Fragment {
  const direction = descending ? -1 : 1;
  return new Fragment({
    sqlite: piece`iif(${descending}, null, value), iif(${descending}, value, null) desc`,
    postgres: piece`
      ${direction}::integer * case coalesce(json_typeof(value), 'null')
        when 'null' then 0 when 'number' then 1 when 'boolean' then 1 when 'string' then 2 else 3
      end,
      ${direction}::integer * case json_typeof(value)
        when 'number' then (value #>> '{}')::numeric
        when 'boolean' then (value #>> '{}')::boolean::integer
      end,
      case when not ${descending} and json_typeof(value) = 'string' then value #>> '{}' end
        collate "C",
      case when ${descending} and json_typeof(value) = 'string' then value #>> '{}' end
        collate "C" desc`,
  });
}

/** JSON texts with U+0000 or half a surrogate pair, from which PostgreSQL extracts nothing. */
const unreadable = String.raw`[^\\](\\\\)*\\u(0000|[dD][89a-fA-F])`;

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

const unknown = { refused: 'unknown' } as const;
const duplicate = { refused: 'duplicate' } as const;

function* create(user: User): Command<Awaited<ReturnType<UserStore['create']>>> {
  if (yield* clashes(user)) return duplicate;
  const inserted = yield* sql.run`
    insert into users ${valuesOf(tables.users, rowOf(user))} on conflict do nothing`;
  return inserted === 0 ? duplicate : { created: user };
}

/** Returns whether a user is still as it was read; it stays so until the commit. */
function* isUnchanged({ tenant, id }: UserKey, before: User | undefined): Command<boolean> {
  const present = yield* get(tenant, id, forUpdate);
  if (before === undefined || present === undefined) return before === present;
  const fields = Object.keys(before) as (keyof User)[];
  return fields.every((field) => present[field] === before[field]);
}

function* update(
  before: User,
  after: User,
): Command<{ updated: User } | { refused: 'duplicate' } | undefined> {
  const { tenant, id, email, username } = after;
  if (!(yield* isUnchanged(before, before))) return undefined;
  const isRenamed = email !== before.email || username !== before.username;
  if (isRenamed && (yield* clashes(after, before))) return duplicate;
  yield* sql.run`
    update users set ${changesOf(tables.users, rowOf(after))}
    where tenant = ${tenant} and id = ${id}`;
  return { updated: after };
}

function* remove(before: User): Command<{ readonly removed: User } | undefined> {
  const { tenant, id } = before;
  if (!(yield* isUnchanged(before, before))) return undefined;
  yield* sql.run`delete from users where tenant = ${tenant} and id = ${id}`;
  yield* sql.run`delete from role_users where tenant = ${tenant} and "user" = ${id}`;
  return { removed: before };
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

/**
 * Orders of users that an index has. Users with the same value follow in the order of their ids, in
 * the same direction: then a page is read from the index alone, even where thousands share a value.
 */
const orders: ReadonlyMap<string, readonly [ascending: string, descending: string]> = new Map([
  ['user_id', ['id', 'id desc']],
  ['created_at', ['created_at, id', 'created_at desc, id desc']],
  ['updated_at', ['updated_at, id', 'updated_at desc, id desc']],
  ['email', ['email, id', 'email desc, id desc']],
  ['username', ['username nulls first, id', 'username desc nulls last, id desc']],
]);

/** Returns an order that an index has, as SQL; `undefined` for any other field. */
export function indexedOrder(
  field: string,
  { descending }: { readonly descending: boolean },
): string | undefined {
  return orders.get(field)?.[descending ? 1 : 0];
}
