import type { Millis } from '../../core/clock.ts';
import { endsTokens } from '../../core/clients.ts';
import { type Client, managementApiId } from '../../core/types.ts';
import type { ClientAccess, ClientStore, NewClient } from '../port/clients.ts';
import type { Hint } from '../port/hints.ts';
import type { BoundedPage, Page } from '../port/page.ts';
import { skewMaxMs } from '../port/time.ts';
import { lockAccess } from './access-lock.ts';
import { conversionOf } from '../rows/fields.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { boundedPage, type Command, PageRead, sql, together, type On } from './command.ts';
import { changesOf, columnsOf, valuesOf } from './columns.ts';
import { forUpdate, Fragment, piece, verbatim } from './dialect.ts';
import { grantsOfClient } from './grants.ts';

/** Creates the store of clients and of the assertions that they have used. */
export function createClientStore({
  on,
  hint,
}: On & {
  readonly hint: (hint: Hint) => void;
}): ClientStore {
  const { transact } = on.commands;
  return {
    get: (tenant, id) => on.tokens.read(get(tenant, id)),
    list: (tenant, page) => on.lists.read(list(tenant, page)),
    listFrom: (tenant, page) => on.lists.read(listFrom(tenant, page)),
    access: (tenant, id) => on.access.read(accessOf(tenant, id)),
    create: async (client) => {
      const result = await transact('durable', () => create(client));
      // A process may have cached that there is no such client.
      if ('created' in result) hint({ kind: 'client', tenant: client.tenant, client: client.id });
      return result;
    },
    update: async (tenant, id, decide) => {
      const result = await transact('confirmed', () => update(tenant, id, decide));
      if ('updated' in result) hint({ kind: 'client', tenant, client: id });
      return result;
    },
    delete: async (tenant, id, check) => {
      const isDeleted = await transact('confirmed', () => remove(tenant, id, check));
      if (isDeleted) hint({ kind: 'client', tenant, client: id });
      return isDeleted;
    },
    useAssertion: (tenant, client, jti, expiresAt) =>
      transact('durable', () => useAssertion({ tenant, client, jti, expiresAt })),
  };
}

type ClientRow = RowOf<typeof tables.clients>;
const columns = columnsOf(tables.clients);
const { fieldsOf: clientOf, cellsOf: rowOf } = conversionOf(tables.clients);

function* get(tenant: number, id: string): Command<Client | undefined> {
  const row = yield* sql.get<ClientRow>`
    select ${columns} from clients
    where tenant = ${tenant} and id = ${id}`;
  return row && clientOf(row);
}

/** The columns whose bytes count. */
const longColumns = ['jwks', 'carried'];

function list(
  tenant: number,
  { page, perPage, bytesMax, global }: Parameters<ClientStore['list']>[1],
): Command<BoundedPage<Client>> {
  return boundedPage(
    {
      take: perPage,
      bytesMax,
      columns: longColumns,
      order: 'created_at, id',
      rowsAfter: (read, take) => sql.all<ClientRow>`
        select ${columns} from clients
        where tenant = ${tenant} and ${isWanted(global)}
        order by created_at, id
        limit ${Math.min(take, perPage - read.length)} offset ${page * perPage + read.length}`,
    },
    sql.get`select count(*) as total from clients where tenant = ${tenant} and ${isWanted(global)}`,
    clientOf,
  );
}

function* listFrom(
  tenant: number,
  { after = '', take, bytesMax, global }: Parameters<ClientStore['listFrom']>[1],
): Command<Page<Client>> {
  const { rows, hasMore } = yield* new PageRead<ClientRow>({
    take,
    bytesMax,
    columns: longColumns,
    order: 'id',
    rowsAfter: (read, limit) => sql.all`
      select ${columns} from clients
      where tenant = ${tenant} and id > ${read.at(-1)?.id ?? after} and ${isWanted(global)}
      order by id limit ${limit}`,
  });
  const items = rows.map(clientOf);
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

/** The condition of {@link ClientFilter}. */
function isWanted(global: boolean | undefined): Fragment {
  if (global === undefined) return verbatim('true');
  return verbatim(global ? 'global' : 'not global');
}

/** Returns what decides about a token of the client. */
export function* accessOf(tenant: number, id: string): Command<ClientAccess | undefined> {
  const row = yield* sql.get<AccessRow>`
    select global, issuer, credentials_version, scope
    from clients left join grants
      on grants.tenant = clients.tenant and client = clients.id and api = ${managementApiId}
    where clients.tenant = ${tenant} and clients.id = ${id}`;
  if (row === undefined) return undefined;
  return {
    global: Boolean(row.global),
    issuer: row.issuer ?? undefined,
    credentialsVersion: row.credentials_version,
    scopes: row.scope === null ? [] : (JSON.parse(row.scope) as string[]),
  };
}

interface AccessRow extends Pick<ClientRow, 'global' | 'issuer' | 'credentials_version'> {
  readonly scope: string | null;
}

function* create(client: NewClient): Command<Awaited<ReturnType<ClientStore['create']>>> {
  const created = { ...client, version: 1 };
  const inserted = yield* sql.run`
    insert into clients ${valuesOf(tables.clients, rowOf(created))}
    on conflict (tenant, id) do nothing`;
  return inserted === 1 ? { created } : { refused: 'id_taken' };
}

function* update(
  tenant: number,
  id: string,
  decide: Parameters<ClientStore['update']>[2],
): Command<Awaited<ReturnType<ClientStore['update']>>> {
  const before = yield* locked(tenant, id);
  if (before === undefined) return { refused: 'unknown' };
  const decision = decide(before, yield* grantsOfClient(tenant, id));
  if ('refused' in decision) return decision;
  const version = before.version + 1;
  const credentialsVersion =
    before.credentialsVersion + (endsTokens(before, decision.after) ? 1 : 0);
  const { createdAt } = before;
  const updated = { ...decision.after, tenant, id, version, credentialsVersion, createdAt };
  yield* sql.run`
    update clients set ${changesOf(tables.clients, rowOf(updated))}
    where tenant = ${tenant} and id = ${id}`;
  return { updated };
}

/** Returns the client. Until the commit nothing else changes it or adds a grant. */
function* locked(tenant: number, id: string): Command<Client | undefined> {
  yield* lockAccess(tenant);
  const row = yield* sql.get<ClientRow>`
    select ${columns} from clients
    where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  return row && clientOf(row);
}

function* remove(
  tenant: number,
  id: string,
  check: Parameters<ClientStore['delete']>[2],
): Command<boolean> {
  // The lock blocks new grants, so all of them are read and deleted.
  const before = yield* locked(tenant, id);
  if (before === undefined) return false;
  check?.(before, yield* grantsOfClient(tenant, id));
  yield* sql.run`delete from clients where tenant = ${tenant} and id = ${id}`;
  yield* sql.run`delete from grants where tenant = ${tenant} and client = ${id}`;
  yield* sql.run`delete from role_clients where tenant = ${tenant} and client = ${id}`;
  return true;
}

/** An expired assertion stays until no node can take it for valid because its clock is wrong. */
function* useAssertion({
  tenant,
  client,
  jti,
  expiresAt,
}: {
  readonly tenant: number;
  readonly client: string;
  readonly jti: string;
  readonly expiresAt: Millis;
}): Command<boolean> {
  const [used] = yield* together(
    sql.run`
      insert into assertions (tenant, client, jti, expires_at)
      values (${tenant}, ${client}, ${jti}, ${expiresAt})
      on conflict (tenant, client, jti) do update set expires_at = excluded.expires_at
      where assertions.expires_at <= leat_now() - ${skewMaxMs}`,
    sql.run`delete from assertions where tenant = ${tenant} and ${amongFirstExpired(tenant)}`,
  );
  return used === 1;
}

/** Expired rows deleted per use: more than one, so that they become fewer; few, so that a use is short. */
const expiredPerUse = 100;

/**
 * Differs because only PostgreSQL has concurrent uses: each skips the rows that another one is about
 * to delete, so that they do not deadlock.
 */
function amongFirstExpired(tenant: number): Fragment {
  return new Fragment({
    sqlite: piece`expires_at <= leat_now() - ${skewMaxMs}
      and expires_at <= coalesce((
        select expires_at from assertions where tenant = ${tenant}
        order by expires_at limit 1 offset ${expiredPerUse - 1}), leat_now())`,
    postgres: piece`ctid = any(array(
      select ctid from assertions
      where tenant = ${tenant} and expires_at <= leat_now() - ${skewMaxMs}
      order by expires_at limit ${expiredPerUse} for update skip locked))`,
  });
}
