import { managementApiId, type Grant } from '../../core/types.ts';
import type { GrantStore } from '../port/grants.ts';
import type { Page } from '../port/page.ts';
import type { Database } from './database.ts';
import { readBounded } from '../rows/bounded.ts';
import { grantOf, type GrantRow, scopeBytes } from '../rows/grants.ts';

/** What clients may do at APIs: at most one grant for each pair. */
export function createGrantStore({ db }: { readonly db: Database }): GrantStore {
  return {
    get: async (tenant, id) => get(db, tenant, id),
    of: async (tenant, client, api) => of(db, tenant, client, api),
    list: async (tenant, query) => list(db, tenant, query),
    create: async (grant) => db.transact('durable', () => create(db, grant)),
    update: async (tenant, id, scope) =>
      db.transact('durable', () => update(db, tenant, id, scope)),
    delete: async (tenant, id) => db.transact('durable', () => remove(db, tenant, id)),
  };
}

/** Every grant of one client, in the order of their ids. */
export function grantsOfClient(db: Database, tenant: number, client: string): Grant[] {
  const rows = db.all<GrantRow>`
    select id, client, api, scope from grants
    where tenant = ${tenant} and client = ${client} order by id`;
  return rows.map((row) => grantOf(tenant, row));
}

function get(db: Database, tenant: number, id: string): Grant | undefined {
  const row = db.get<GrantRow>`
    select id, client, api, scope from grants where tenant = ${tenant} and id = ${id}`;
  return row && grantOf(tenant, row);
}

function of(db: Database, tenant: number, client: string, api: string): Grant | undefined {
  const row = db.get<GrantRow>`
    select id, client, api, scope from grants
    where tenant = ${tenant} and client = ${client} and api = ${api}`;
  return row && grantOf(tenant, row);
}

function list(db: Database, tenant: number, page: Parameters<GrantStore['list']>[1]): Page<Grant> {
  const { client, api, after, take } = page;
  const found = db.each<GrantRow>`
    select id, client, api, scope from grants
    where tenant = ${tenant} and id > ${after ?? ''}
      and (${client} is null or client = ${client}) and (${api} is null or api = ${api})
    order by id limit ${take + 1}`;
  const { rows, hasMore } = readBounded(found, page, scopeBytes);
  const items = rows.map((row) => grantOf(tenant, row));
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

function create(db: Database, grant: Grant): Awaited<ReturnType<GrantStore['create']>> {
  const { tenant, id, client, api, scope } = grant;
  if (!hasClient(db, tenant, client)) return { refused: 'unknown_client' };
  if (api !== managementApiId && !hasApi(db, tenant, api)) return { refused: 'unknown_api' };
  const inserted = db.run`
    insert into grants (tenant, id, client, api, scope)
    values (${tenant}, ${id}, ${client}, ${api}, ${JSON.stringify(scope)})
    on conflict (tenant, client, api) do nothing`;
  return inserted === 1 ? { created: grant } : { refused: 'exists' };
}

function hasClient(db: Database, tenant: number, id: string): boolean {
  return db.get`select 1 from clients where tenant = ${tenant} and id = ${id}` !== undefined;
}

function hasApi(db: Database, tenant: number, id: string): boolean {
  return db.get`select 1 from apis where tenant = ${tenant} and id = ${id}` !== undefined;
}

function update(
  db: Database,
  tenant: number,
  id: string,
  scope: readonly string[],
): Awaited<ReturnType<GrantStore['update']>> {
  db.run`
    update grants set scope = ${JSON.stringify(scope)} where tenant = ${tenant} and id = ${id}`;
  const updated = get(db, tenant, id);
  return updated === undefined ? { refused: 'unknown' } : { updated };
}

function remove(db: Database, tenant: number, id: string): boolean {
  return db.run`delete from grants where tenant = ${tenant} and id = ${id}` === 1;
}
