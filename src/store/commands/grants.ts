import { managementApiId, type Grant } from '../../core/types.ts';
import type { GrantStore } from '../port/grants.ts';
import type { Hint } from '../port/hints.ts';
import type { BoundedPage, Page } from '../port/page.ts';
import { lockAccess } from './access-lock.ts';
import { conversionOf } from '../rows/fields.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { changesOf, columnsOf, valuesOf } from './columns.ts';
import { boundedPage, type Command, PageRead, sql, type On } from './command.ts';
import { andEquals, forKeyShare, forUpdate } from './dialect.ts';

/** Creates the store of grants: at most one for each pair of a client and an API. */
export function createGrantStore({
  on,
  hint,
}: On & {
  readonly hint: (hint: Hint) => void;
}): GrantStore {
  const { read, transact } = on.commands;
  // A process may have cached the scopes that the client is granted.
  const hintOf = ({ tenant, client }: Grant): void => hint({ kind: 'client', tenant, client });
  return {
    get: (tenant, id) => read(get(tenant, id)),
    of: (tenant, client, api) => on.tokens.read(of(tenant, client, api)),
    list: (tenant, page) => on.lists.read(list(tenant, page)),
    listFrom: (tenant, page) => on.lists.read(listFrom(tenant, page)),
    create: async (grant) => {
      const result = await transact('durable', () => create(grant));
      if ('created' in result) hintOf(grant);
      return result;
    },
    update: async (tenant, id, decide) => {
      const result = await transact('confirmed', () => update(tenant, id, decide));
      if ('updated' in result) hintOf(result.updated);
      return result;
    },
    delete: async (tenant, id, check) => {
      const removed = await transact('confirmed', () => remove(tenant, id, check));
      if (removed !== undefined) hintOf(removed);
      return removed !== undefined;
    },
  };
}

type GrantRow = RowOf<typeof tables.grants>;
const columns = columnsOf(tables.grants);
const { fieldsOf: grantOf, cellsOf: rowOf } = conversionOf(tables.grants);

/** Returns all grants of one client, in the order of their ids. */
export function* grantsOfClient(tenant: number, client: string): Command<Grant[]> {
  const rows = yield* sql.all<GrantRow>`
    select ${columns} from grants
    where tenant = ${tenant} and client = ${client} order by id`;
  return rows.map(grantOf);
}

function* get(tenant: number, id: string): Command<Grant | undefined> {
  const row = yield* sql.get<GrantRow>`
    select ${columns} from grants where tenant = ${tenant} and id = ${id}`;
  return row && grantOf(row);
}

function* of(tenant: number, client: string, api: string): Command<Grant | undefined> {
  const row = yield* sql.get<GrantRow>`
    select ${columns} from grants
    where tenant = ${tenant} and client = ${client} and api = ${api}`;
  return row && grantOf(row);
}

/** The columns whose bytes count. */
const longColumns = ['scope', 'carried'];

function list(
  tenant: number,
  { client, api, page, perPage, bytesMax }: Parameters<GrantStore['list']>[1],
): Command<BoundedPage<Grant>> {
  return boundedPage(
    {
      take: perPage,
      bytesMax,
      columns: longColumns,
      order: 'id',
      rowsAfter: (read, take) => sql.all<GrantRow>`
        select ${columns} from grants
        where tenant = ${tenant} ${andEquals('client', client)} ${andEquals('api', api)}
        order by id
        limit ${Math.min(take, perPage - read.length)} offset ${page * perPage + read.length}`,
    },
    sql.get`
      select count(*) as total from grants
      where tenant = ${tenant} ${andEquals('client', client)} ${andEquals('api', api)}`,
    grantOf,
  );
}

function* listFrom(
  tenant: number,
  { client, api, after = '', take, bytesMax }: Parameters<GrantStore['listFrom']>[1],
): Command<Page<Grant>> {
  const { rows, hasMore } = yield* new PageRead<GrantRow>({
    take,
    bytesMax,
    columns: longColumns,
    order: 'id',
    rowsAfter: (read, limit) => sql.all`
      select ${columns} from grants
      where tenant = ${tenant} and id > ${read.at(-1)?.id ?? after}
        ${andEquals('client', client)} ${andEquals('api', api)}
      order by id limit ${limit}`,
  });
  const items = rows.map(grantOf);
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

function* create(grant: Grant): Command<Awaited<ReturnType<GrantStore['create']>>> {
  const { tenant, client, api } = grant;
  if (!(yield* hasClient(tenant, client))) return { refused: 'unknown_client' };
  if (api !== managementApiId && !(yield* hasApi(tenant, api))) return { refused: 'unknown_api' };
  const inserted = yield* sql.run`
    insert into grants ${valuesOf(tables.grants, rowOf(grant))}
    on conflict (tenant, client, api) do nothing`;
  return inserted === 1 ? { created: grant } : { refused: 'exists' };
}

/** Returns whether the client exists, which then stays until the commit. */
function* hasClient(tenant: number, id: string): Command<boolean> {
  const client = yield* sql.get`
    select 1 from clients where tenant = ${tenant} and id = ${id} ${forKeyShare}`;
  return client !== undefined;
}

/** Returns whether the API exists, which then stays until the commit. */
function* hasApi(tenant: number, id: string): Command<boolean> {
  const api = yield* sql.get`
    select 1 from apis where tenant = ${tenant} and id = ${id} ${forKeyShare}`;
  return api !== undefined;
}

function* update(
  tenant: number,
  id: string,
  decide: Parameters<GrantStore['update']>[2],
): Command<Awaited<ReturnType<GrantStore['update']>>> {
  const before = yield* locked(tenant, id);
  if (before === undefined) return { refused: 'unknown' };
  const { client, api } = before;
  const row = yield* sql.get<{ issuer: string | null }>`
    select issuer from clients where tenant = ${tenant} and id = ${client}`;
  const decided = decide(before, { issuer: row?.issuer ?? undefined });
  const updated = { ...decided, tenant, id, client, api };
  yield* sql.run`
    update grants set ${changesOf(tables.grants, rowOf(updated))}
    where tenant = ${tenant} and id = ${id}`;
  return { updated };
}

/** Returns the grant, which nothing else changes until the commit. */
function* locked(tenant: number, id: string): Command<Grant | undefined> {
  yield* lockAccess(tenant);
  const row = yield* sql.get<GrantRow>`
    select ${columns} from grants
    where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  return row && grantOf(row);
}

function* remove(
  tenant: number,
  id: string,
  check: Parameters<GrantStore['delete']>[2],
): Command<Grant | undefined> {
  const before = yield* locked(tenant, id);
  if (before === undefined) return undefined;
  check?.(before);
  yield* sql.run`delete from grants where tenant = ${tenant} and id = ${id}`;
  return before;
}
