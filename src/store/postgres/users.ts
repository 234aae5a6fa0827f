import type { LogEvent, NewEvent, User } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { Page } from '../port/page.ts';
import type { UserDecision, UserQuery, UserSort, UserStore } from '../port/users.ts';
import { orderedPageWithin } from '../rules/user-order.ts';
import type { Database, Queries } from './database.ts';
import type { StoreIdentity } from './identity.ts';
import { appendWithin } from './log.ts';
import { advisoryLock } from './advisory-lock.ts';
import { boundedRows, boundOf, type CountedRow, rowBytes } from '../rows/bounded.ts';
import { userOf, type UserRow } from '../rows/users.ts';

export interface UserDeps {
  readonly db: Database;
  readonly identity: StoreIdentity;
  readonly hint: (hint: Hint) => void;
}

/** The users of the database connections; every change appends its event in the same commit. */
export function createUserStore({ db, identity, hint }: UserDeps): UserStore {
  /** Commits a change with its event, then tells the watchers; no events: no change. */
  const commit = async <T>(
    tenant: number,
    work: (tx: Queries) => Promise<Changed<T>>,
  ): Promise<T> => {
    const { answer, written } = await identity.transact(db, 'confirmed', work);
    if (written.length > 0) hint({ kind: 'appended', tenant, events: written });
    return answer;
  };
  return {
    get: (tenant, id) => get(db, tenant, id),
    byEmail: (tenant, email) => byEmail(db, tenant, email.toLowerCase()),
    list: (tenant, query) => list(db, tenant, query),
    listFrom: (tenant, page) => listFrom(db, tenant, page),
    create: (user, event) => commit(user.tenant, (tx) => create(tx, user, event)),
    update: (tenant, id, decide) => commit(tenant, (tx) => update(tx, { tenant, id, decide })),
    delete: (tenant, id, emit) => commit(tenant, (tx) => remove(tx, tenant, id, emit)),
  };
}

interface Changed<T> {
  readonly answer: T;
  readonly written: readonly LogEvent[];
}

async function get(db: Queries, tenant: number, id: string): Promise<User | undefined> {
  const row = await db.get<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant} and id = ${id}`;
  return row && userOf(tenant, row);
}

async function byEmail(db: Queries, tenant: number, email: string): Promise<User[]> {
  const rows = await db.all<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant} and email = ${email} order by id`;
  return rows.map((row) => userOf(tenant, row));
}

async function listFrom(
  db: Queries,
  tenant: number,
  { after, take, bytesMax }: Parameters<UserStore['listFrom']>[1],
): Promise<Page<User>> {
  // Differs because PostgreSQL sends a result as a whole: it leaves out what is too much by itself.
  const read = await db.all<UserRow & CountedRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at, found
    from (
      select page.*, count(*) over () as found, row_number() over (order by id) as number,
        sum(octet_length(profile) + ${rowBytes}::integer) over (order by id) as bytes
      from (
        select id, connection, email, username, password_hash, profile, created_at, updated_at
        from users where tenant = ${tenant} and id > ${after ?? ''}
        order by id limit ${take + 1}
      ) as page
    ) as sized
    where bytes <= ${boundOf(bytesMax)}::bigint or number = 1
    order by id`;
  const { rows, hasMore } = boundedRows(read, take);
  const items = rows.map((row) => userOf(tenant, row));
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

async function list(db: Queries, tenant: number, query: UserQuery): ReturnType<UserStore['list']> {
  const [rows, count] = await Promise.all([
    pageOf(db, tenant, query),
    query.counted
      ? db.get<{ total: number }>`select count(*) as total from users where tenant = ${tenant}`
      : undefined,
  ]);
  if (rows === undefined) return { refused: 'too_many_to_sort' };
  if (!rows.every(isWhole)) return { refused: 'too_large' };
  return { items: rows.map((row) => userOf(tenant, row)), total: count?.total ?? 0 };
}

/** `undefined` where every user had to be read and there are too many. */
async function pageOf(
  db: Queries,
  tenant: number,
  { page, perPage, sort, bytesMax }: UserQuery,
): Promise<(UserRow | CutRow)[] | undefined> {
  const bounds = { tenant, take: perPage, skip: page * perPage };
  // PostgreSQL takes no text with a U+0000, and reads no member of that name.
  const { field, descending, max } =
    sort === undefined || sort.field.includes('\u0000') ? byId : sort;
  const ordered = orderedPageWithin(field, { descending });
  if (ordered !== undefined) {
    return db.all(ordered, boundOf(bytesMax), tenant, perPage, page * perPage);
  }
  if (max === undefined || (await isLarger(db, tenant, max))) return undefined;
  return sorted(db, bounds, { field, descending });
}

/** Of a page that is too large: its profiles stay where they are. */
type CutRow = Omit<UserRow, 'profile'> & { readonly profile: null };

function isWhole(row: UserRow | CutRow): row is UserRow {
  return row.profile !== null;
}

const byId = { field: 'user_id', descending: false, max: undefined };

/** Reads the sizes of at most `users` profiles, none of their texts. */
async function isLarger(
  db: Queries,
  tenant: number,
  { users, bytes }: UserSort['max'],
): Promise<boolean> {
  const row = await db.get<{ users: number; bytes: number }>`
    select count(*) as users, coalesce(sum(bytes), 0)::bigint as bytes
    from (
      select octet_length(profile) as bytes from users where tenant = ${tenant} limit ${users + 1}) as sizes`;
  return row !== undefined && (row.users > users || row.bytes > bytes);
}

interface Bounds {
  readonly tenant: number;
  readonly take: number;
  readonly skip: number;
}

/**
 * The name of the field is a value like any other; one that no user has leaves the ids to sort.
 * What is nothing comes before numbers and booleans, those before texts, those before the rest.
 * `offset 0` lets PostgreSQL find the value once for each user instead of once for each use.
 */
function sorted(
  db: Queries,
  { tenant, take, skip }: Bounds,
  { field, descending }: { field: string; descending: boolean },
): Promise<UserRow[]> {
  const direction = descending ? -1 : 1;
  return db.all<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from (
      select users.*,
        case when profile !~ ${unreadable} then profile::json -> ${field}::text end as value
      from users where tenant = ${tenant}
      offset 0
    ) as valued
    order by
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
        collate "C" desc,
      id
    limit ${take} offset ${skip}`;
}

/** JSON texts with U+0000 or half a surrogate pair, of which PostgreSQL extracts nothing. */
const unreadable = String.raw`[^\\](\\\\)*\\u(0000|[dD][89a-fA-F])`;

type Created = Awaited<ReturnType<UserStore['create']>>;

async function create(tx: Queries, user: User, event: NewEvent): Promise<Changed<Created>> {
  const { tenant, id, connection, email, username, passwordHash, profileJson } = user;
  await lockNames(tx, user);
  const inserted = await tx.run`
    insert into users (tenant, id, connection, email, username, password_hash, profile, created_at,
      updated_at)
    values (${tenant}, ${id}, ${connection}, ${email}, ${username}, ${passwordHash},
      ${profileJson}, ${user.createdAt}, ${user.updatedAt})
    on conflict do nothing`;
  if (inserted === 0) return unchanged(duplicate);
  const { written } = await appendWithin(tx, tenant, [event]);
  return { answer: { created: user }, written };
}

/** Id, tenant, connection and instant of creation stay as they are. */
async function update<R extends string>(
  tx: Queries,
  {
    tenant,
    id,
    decide,
  }: {
    tenant: number;
    id: string;
    decide: (before: User) => UserDecision<R> | Promise<UserDecision<R>>;
  },
): Promise<Changed<{ updated: User } | { refused: R | 'unknown' | 'duplicate' }>> {
  const before = await locked(tx, tenant, id);
  if (before === undefined) return unchanged({ refused: 'unknown' });
  const decision = await decide(before);
  if ('refused' in decision) return unchanged(decision);
  const { connection, createdAt } = before;
  const after = { ...decision.after, tenant, id, connection, createdAt };
  const isRenamed = after.email !== before.email || after.username !== before.username;
  if (isRenamed && (await clashes(tx, after))) return unchanged(duplicate);
  await tx.run`
    update users set email = ${after.email}, username = ${after.username},
      password_hash = ${after.passwordHash}, profile = ${after.profileJson},
      updated_at = ${after.updatedAt}
    where tenant = ${tenant} and id = ${id}`;
  const { written } = await appendWithin(tx, tenant, [decision.event]);
  return { answer: { updated: after }, written };
}

async function remove(
  tx: Queries,
  tenant: number,
  id: string,
  emit: (before: User) => NewEvent,
): Promise<Changed<boolean>> {
  const before = await locked(tx, tenant, id);
  if (before === undefined) return unchanged(false);
  const event = emit(before);
  await tx.run`delete from users where tenant = ${tenant} and id = ${id}`;
  await tx.run`delete from role_users where tenant = ${tenant} and "user" = ${id}`;
  const { written } = await appendWithin(tx, tenant, [event]);
  return { answer: true, written };
}

/** The user, which nobody else changes or gives a role until the commit. */
async function locked(tx: Queries, tenant: number, id: string): Promise<User | undefined> {
  const row = await tx.get<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant} and id = ${id} for update`;
  return row && userOf(tenant, row);
}

const duplicate = { refused: 'duplicate' } as const;

function unchanged<T>(answer: T): Changed<T> {
  return { answer, written: [] };
}

/** Whether another user of the connection has the e-mail or the username; so until the commit. */
async function clashes(tx: Queries, user: User): Promise<boolean> {
  const { tenant, id, connection, email, username } = user;
  await lockNames(tx, user);
  const other = await tx.get`
    select 1 from users
    where tenant = ${tenant} and connection = ${connection} and id <> ${id}
      and (email = ${email} or username = ${username})`;
  return other !== undefined;
}

/** Nobody takes a name of the connection between an update's look and its write. */
async function lockNames(tx: Queries, { tenant, connection }: User): Promise<void> {
  await advisoryLock(tx, `users ${tenant} ${connection}`);
}
