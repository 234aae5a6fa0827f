import type { Millis } from '../../core/clock.ts';
import type { LogEvent, NewEvent, User } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { Page } from '../port/page.ts';
import type { UserQuery, UserSort, UserStore } from '../port/users.ts';
import { createKeyedSerialQueue } from '../../core/serial-queue.ts';
import { orderedPage } from '../rules/user-order.ts';
import type { StoreTime } from '../port/time.ts';
import type { Database } from './database.ts';
import { appendWithin } from './append.ts';
import type { WalRoom } from './wal-room.ts';
import { readPieces } from '../rows/bounded.ts';
import { profileBytes, userOf, type UserRow } from '../rows/users.ts';

export interface UserDeps {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
  readonly time: StoreTime;
  readonly walRoom: WalRoom;
}

/** The users, and when no change of one is under way. */
export interface SqliteUsers extends UserStore {
  idle(): Promise<void>;
}

/**
 * The users of the database connections; every change appends its event in the same commit. Changes
 * of one user follow one another: deciding on 1 MiB takes some 10 ms, with turns for others, and a
 * transaction has none.
 */
export function createUserStore({ db, hint, time, walRoom }: UserDeps): SqliteUsers {
  const lanes = createKeyedSerialQueue();
  const inLane = <R>(tenant: number, id: string, work: () => Promise<R>): Promise<R> =>
    lanes.run(`${tenant} ${id}`, work);
  /** Commits a change that writes so many characters with its event, then tells the watchers. */
  const commit = async <T>(tenant: number, length: number, work: () => Changed<T>): Promise<T> => {
    await walRoom.make(length);
    const { answer, written } = db.transact('durable', work);
    if (written.length > 0) hint({ kind: 'appended', tenant, events: written });
    await walRoom.clear();
    return answer;
  };
  return {
    get: async (tenant, id) => {
      const row = get(db, tenant, id);
      return row && userOf(tenant, row);
    },
    byEmail: async (tenant, email) => byEmail(db, tenant, email.toLowerCase()),
    list: async (tenant, query) => list(db, tenant, query),
    listFrom: async (tenant, page) => listFrom(db, tenant, page),
    create: (user, event) =>
      inLane(user.tenant, user.id, () =>
        commit(user.tenant, lengthOf(user, event), () => create(db, user, event, time.now())),
      ),
    update: (tenant, id, decide) =>
      inLane(tenant, id, async () => {
        const row = get(db, tenant, id);
        if (row === undefined) return { refused: 'unknown' };
        const before = userOf(tenant, row);
        const decision = await decide(before);
        if ('refused' in decision) return decision;
        const { event } = decision;
        const { connection, createdAt } = before;
        const after = { ...decision.after, tenant, id, connection, createdAt };
        const length = lengthOf(after, event);
        return commit(tenant, length, () => update(db, after, event, time.now()));
      }),
    delete: (tenant, id, emit) =>
      inLane(tenant, id, async () => {
        const row = get(db, tenant, id);
        if (row === undefined) return false;
        const event = emit(userOf(tenant, row));
        const { length } = event.body;
        return commit(tenant, length, () => remove(db, { tenant, id }, event, time.now()));
      }),
    idle: () => lanes.idle(),
  };
}

/** Characters that a change writes. */
function lengthOf({ profileJson }: User, { body }: NewEvent): number {
  return profileJson.length + body.length;
}

interface Changed<T> {
  readonly answer: T;
  readonly written: readonly LogEvent[];
}

function get(db: Database, tenant: number, id: string): UserRow | undefined {
  return db.get<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant} and id = ${id}`;
}

function byEmail(db: Database, tenant: number, email: string): User[] {
  const rows = db.all<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant} and email = ${email} order by id`;
  return rows.map((row) => userOf(tenant, row));
}

async function listFrom(
  db: Database,
  tenant: number,
  page: Parameters<UserStore['listFrom']>[1],
): Promise<Page<User>> {
  const { after = '' } = page;
  const found = (read: readonly UserRow[], take: number): Iterable<UserRow> => db.each`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = ${tenant} and id > ${read.at(-1)?.id ?? after}
    order by id limit ${take}`;
  const { rows, hasMore } = await readPieces(found, page, profileBytes);
  const items = rows.map((row) => userOf(tenant, row));
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

async function list(db: Database, tenant: number, query: UserQuery): ReturnType<UserStore['list']> {
  const { bytesMax, perPage } = query;
  const found = pageOf(db, tenant, query);
  if (found === undefined) return { refused: 'too_many_to_sort' };
  const { rows, isCut } = await readPieces(found, { take: perPage, bytesMax }, profileBytes);
  if (isCut) return { refused: 'too_large' };
  const count = query.counted
    ? db.get<{ total: number }>`select count(*) as total from users where tenant = ${tenant}`
    : undefined;
  return { items: rows.map((row) => userOf(tenant, row)), total: count?.total ?? 0 };
}

/** `undefined` where every user had to be read and there are too many. */
function pageOf(
  db: Database,
  tenant: number,
  { page, perPage, sort }: UserQuery,
): ((read: readonly UserRow[], take: number) => Iterable<UserRow>) | undefined {
  const { field, descending, max } = sort ?? byId;
  const ordered = orderedPage(field, { descending });
  if (ordered !== undefined)
    return (read, take) =>
      db.each(ordered, tenant, Math.min(take, perPage - read.length), page * perPage + read.length);
  if (max === undefined || isLarger(db, tenant, max)) return undefined;
  // Sorting costs more than reading, and the profiles of all users are few bytes.
  const rows = sorted(db, { tenant, take: perPage, skip: page * perPage }, { field, descending });
  return (read) => rows.slice(read.length);
}

const byId = { field: 'user_id', descending: false, max: undefined };

/** Reads the sizes of at most `users` profiles, none of their texts. */
function isLarger(db: Database, tenant: number, { users, bytes }: UserSort['max']): boolean {
  const row = db.get<{ users: number; bytes: number }>`
    select count(*) as users, coalesce(sum(bytes), 0) as bytes
    from (
      select octet_length(profile) as bytes from users where tenant = ${tenant} limit ${users + 1})`;
  return row !== undefined && (row.users > users || row.bytes > bytes);
}

interface Bounds {
  readonly tenant: number;
  readonly take: number;
  readonly skip: number;
}

/**
 * The name of the field is a value like any other; one that no user has leaves the ids to sort.
 * About 1 µs for each user of the tenant.
 */
function sorted(
  db: Database,
  { tenant, take, skip }: Bounds,
  { field, descending }: { field: string; descending: boolean },
): UserRow[] {
  return db.all<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from (
      select users.*, (select value from json_each(profile) where key = ${field}) as sort_key
      from users where tenant = ${tenant}
    )
    order by iif(${descending}, null, sort_key), iif(${descending}, sort_key, null) desc, id
    limit ${take} offset ${skip}`;
}

type Created = Awaited<ReturnType<UserStore['create']>>;

function create(db: Database, user: User, event: NewEvent, now: Millis): Changed<Created> {
  const { tenant, id, connection, email, username, passwordHash, profileJson } = user;
  if (get(db, tenant, id) !== undefined || clashes(db, user)) return unchanged(duplicate);
  db.run`
    insert into users (tenant, id, connection, email, username, password_hash, profile, created_at,
      updated_at)
    values (${tenant}, ${id}, ${connection}, ${email}, ${username}, ${passwordHash},
      ${profileJson}, ${user.createdAt}, ${user.updatedAt})`;
  const { written } = appendWithin(db, tenant, [event], now);
  return { answer: { created: user }, written };
}

/** Id, tenant, connection and instant of creation stay as they are. */
function update(
  db: Database,
  after: User,
  event: NewEvent,
  now: Millis,
): Changed<{ updated: User } | { refused: 'unknown' | 'duplicate' }> {
  const { tenant, id, email, username, passwordHash, profileJson, updatedAt } = after;
  if (clashes(db, after)) return unchanged(duplicate);
  const updated = db.run`
    update users set email = ${email}, username = ${username}, password_hash = ${passwordHash},
      profile = ${profileJson}, updated_at = ${updatedAt}
    where tenant = ${tenant} and id = ${id}`;
  // The tenant is being removed.
  if (updated === 0) return unchanged({ refused: 'unknown' });
  const { written } = appendWithin(db, tenant, [event], now);
  return { answer: { updated: after }, written };
}

function remove(
  db: Database,
  { tenant, id }: Pick<User, 'tenant' | 'id'>,
  event: NewEvent,
  now: Millis,
): Changed<boolean> {
  const removed = db.run`delete from users where tenant = ${tenant} and id = ${id}`;
  if (removed === 0) return unchanged(false);
  db.run`delete from role_users where tenant = ${tenant} and user = ${id}`;
  const { written } = appendWithin(db, tenant, [event], now);
  return { answer: true, written };
}

const duplicate = { refused: 'duplicate' } as const;

function unchanged<T>(answer: T): Changed<T> {
  return { answer, written: [] };
}

/** Whether another user of the connection has the e-mail or the username. */
function clashes(db: Database, { tenant, id, connection, email, username }: User): boolean {
  const other = db.get`
    select 1 from users
    where tenant = ${tenant} and connection = ${connection} and id <> ${id}
      and (email = ${email} or username = ${username})`;
  return other !== undefined;
}
