import type { Api } from '../../core/types.ts';
import type { ApiStore } from '../port/apis.ts';
import type { Database } from './database.ts';
import { apiOf, type ApiRow, scopesBytes } from '../rows/apis.ts';
import { readBounded } from '../rows/bounded.ts';

/** The APIs that tokens are made for, the management API excepted. */
export function createApiStore({ db }: { readonly db: Database }): ApiStore {
  return {
    get: async (tenant, idOrIdentifier) => get(db, tenant, idOrIdentifier),
    list: async (tenant, page) => list(db, tenant, page),
    create: async (api) => db.transact('durable', () => create(db, api)),
    update: async (tenant, id, decide) =>
      db.transact('durable', () => update(db, tenant, id, decide)),
    delete: async (tenant, id) => db.transact('durable', () => remove(db, tenant, id)),
  };
}

/** `create` sees to it that no identifier is the id of another API. */
function get(db: Database, tenant: number, idOrIdentifier: string): Api | undefined {
  return byId(db, tenant, idOrIdentifier) ?? byIdentifier(db, tenant, idOrIdentifier);
}

function byId(db: Database, tenant: number, id: string): Api | undefined {
  const row = db.get<ApiRow>`
    select id, identifier, name, scopes, enforce_policies, token_dialect, token_lifetime_seconds,
      created_at
    from apis where tenant = ${tenant} and id = ${id}`;
  return row && apiOf(tenant, row);
}

function byIdentifier(db: Database, tenant: number, identifier: string): Api | undefined {
  const row = db.get<ApiRow>`
    select id, identifier, name, scopes, enforce_policies, token_dialect, token_lifetime_seconds,
      created_at
    from apis where tenant = ${tenant} and identifier = ${identifier}`;
  return row && apiOf(tenant, row);
}

function list(
  db: Database,
  tenant: number,
  { page, perPage, bytesMax }: Parameters<ApiStore['list']>[1],
): Awaited<ReturnType<ApiStore['list']>> {
  const found = db.each<ApiRow>`
    select id, identifier, name, scopes, enforce_policies, token_dialect, token_lifetime_seconds,
      created_at
    from apis where tenant = ${tenant}
    order by created_at, id limit ${perPage} offset ${page * perPage}`;
  const { rows, isCut } = readBounded(found, { take: perPage, bytesMax }, scopesBytes);
  if (isCut) return { refused: 'too_large' };
  const count = db.get<{ total: number }>`
    select count(*) as total from apis where tenant = ${tenant}`;
  return { items: rows.map((row) => apiOf(tenant, row)), total: count?.total ?? 0 };
}

function create(db: Database, api: Api): Awaited<ReturnType<ApiStore['create']>> {
  const { tenant, id, identifier, name, enforcePolicies, tokenDialect, createdAt } = api;
  const names = [get(db, tenant, identifier), get(db, tenant, id)];
  if (names.some((other) => other !== undefined)) return { refused: 'identifier_taken' };
  db.run`
    insert into apis (tenant, id, identifier, name, scopes, enforce_policies, token_dialect,
      token_lifetime_seconds, created_at)
    values (${tenant}, ${id}, ${identifier}, ${name}, ${JSON.stringify(api.scopes)},
      ${enforcePolicies}, ${tokenDialect}, ${api.tokenLifetimeSeconds}, ${createdAt})`;
  return { created: api };
}

function update(
  db: Database,
  tenant: number,
  id: string,
  decide: Parameters<ApiStore['update']>[2],
): Awaited<ReturnType<ApiStore['update']>> {
  const before = byId(db, tenant, id);
  if (before === undefined) return { refused: 'unknown' };
  const { name, scopes, enforcePolicies, tokenDialect, tokenLifetimeSeconds } = decide(before);
  db.run`
    update apis set name = ${name}, scopes = ${JSON.stringify(scopes)},
      enforce_policies = ${enforcePolicies}, token_dialect = ${tokenDialect},
      token_lifetime_seconds = ${tokenLifetimeSeconds}
    where tenant = ${tenant} and id = ${id}`;
  const changed = { name, scopes, enforcePolicies, tokenDialect, tokenLifetimeSeconds };
  return { updated: { ...before, ...changed } };
}

function remove(db: Database, tenant: number, id: string): boolean {
  const deleted = db.run`delete from apis where tenant = ${tenant} and id = ${id}` === 1;
  if (deleted) {
    db.run`delete from grants where tenant = ${tenant} and api = ${id}`;
    db.run`delete from role_permissions where tenant = ${tenant} and api = ${id}`;
  }
  return deleted;
}
