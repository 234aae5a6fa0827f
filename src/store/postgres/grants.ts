import { managementApiId, type Grant } from '../../core/types.ts';
import type { GrantStore } from '../port/grants.ts';
import type { Page } from '../port/page.ts';
import type { Database, Queries } from './database.ts';
import { boundedRows, boundOf, type CountedRow, rowBytes } from '../rows/bounded.ts';
import { grantOf, type GrantRow } from '../rows/grants.ts';

/** What clients may do at APIs: at most one grant for each pair. */
export function createGrantStore({ db }: { readonly db: Database }): GrantStore {
  return {
    get: (tenant, id) => get(db, tenant, id),
    of: (tenant, client, api) => of(db, tenant, client, api),
    list: (tenant, query) => list(db, tenant, query),
    create: (grant) => db.transact('durable', (tx) => create(tx, grant)),
    update: (tenant, id, scope) => update(db, tenant, id, scope),
    delete: (tenant, id) => db.transact('confirmed', (tx) => remove(tx, tenant, id)),
  };
}

/** Every grant of one client, in the order of their ids. */
export async function grantsOfClient(
  db: Queries,
  tenant: number,
  client: string,
): Promise<Grant[]> {
  const rows = await db.all<GrantRow>`
    select id, client, api, scope from grants
    where tenant = ${tenant} and client = ${client} order by id`;
  return rows.map((row) => grantOf(tenant, row));
}

async function get(db: Queries, tenant: number, id: string): Promise<Grant | undefined> {
  const row = await db.get<GrantRow>`
    select id, client, api, scope from grants where tenant = ${tenant} and id = ${id}`;
  return row && grantOf(tenant, row);
}

async function of(
  db: Queries,
  tenant: number,
  client: string,
  api: string,
): Promise<Grant | undefined> {
  const row = await db.get<GrantRow>`
    select id, client, api, scope from grants
    where tenant = ${tenant} and client = ${client} and api = ${api}`;
  return row && grantOf(tenant, row);
}

async function list(
  db: Queries,
  tenant: number,
  { client, api, after, take, bytesMax }: Parameters<GrantStore['list']>[1],
): Promise<Page<Grant>> {
  // Differs because PostgreSQL sends a result as a whole: it leaves out what is too much by itself.
  const read = await db.all<GrantRow & CountedRow>`
    select id, client, api, scope, found
    from (
      select page.*, count(*) over () as found, row_number() over (order by id) as number,
        sum(octet_length(scope) + ${rowBytes}::integer) over (order by id) as bytes
      from (
        select id, client, api, scope from grants
        where tenant = ${tenant} and id > ${after ?? ''}
          and (${client}::text is null or client = ${client})
          and (${api}::text is null or api = ${api})
        order by id limit ${take + 1}
      ) as page
    ) as sized
    where bytes <= ${boundOf(bytesMax)}::bigint or number = 1
    order by id`;
  const { rows, hasMore } = boundedRows(read, take);
  const items = rows.map((row) => grantOf(tenant, row));
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

async function create(tx: Queries, grant: Grant): ReturnType<GrantStore['create']> {
  const { tenant, id, client, api, scope } = grant;
  if (!(await hasClient(tx, tenant, client))) return { refused: 'unknown_client' };
  if (api !== managementApiId && !(await hasApi(tx, tenant, api))) {
    return { refused: 'unknown_api' };
  }
  const inserted = await tx.run`
    insert into grants (tenant, id, client, api, scope)
    values (${tenant}, ${id}, ${client}, ${api}, ${JSON.stringify(scope)})
    on conflict (tenant, client, api) do nothing`;
  return inserted === 1 ? { created: grant } : { refused: 'exists' };
}

/** A client that is there stays until the commit. */
async function hasClient(tx: Queries, tenant: number, id: string): Promise<boolean> {
  const client = await tx.get`
    select 1 from clients where tenant = ${tenant} and id = ${id} for key share`;
  return client !== undefined;
}

/** An API that is there stays until the commit. */
async function hasApi(tx: Queries, tenant: number, id: string): Promise<boolean> {
  const api = await tx.get`
    select 1 from apis where tenant = ${tenant} and id = ${id} for key share`;
  return api !== undefined;
}

async function update(
  db: Queries,
  tenant: number,
  id: string,
  scope: readonly string[],
): ReturnType<GrantStore['update']> {
  const row = await db.get<GrantRow>`
    update grants set scope = ${JSON.stringify(scope)} where tenant = ${tenant} and id = ${id}
    returning id, client, api, scope`;
  return row === undefined ? { refused: 'unknown' } : { updated: grantOf(tenant, row) };
}

async function remove(db: Queries, tenant: number, id: string): Promise<boolean> {
  return (await db.run`delete from grants where tenant = ${tenant} and id = ${id}`) === 1;
}
