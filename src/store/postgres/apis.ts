import type { Api } from '../../core/types.ts';
import type { ApiStore } from '../port/apis.ts';
import type { Database, Queries } from './database.ts';
import { advisoryLock } from './advisory-lock.ts';
import { boundOf } from '../rows/bounded.ts';
import { apiOf, type ApiRow } from '../rows/apis.ts';

/** The APIs that tokens are made for, the management API excepted. */
export function createApiStore({ db }: { readonly db: Database }): ApiStore {
  return {
    get: (tenant, idOrIdentifier) => get(db, tenant, idOrIdentifier),
    list: (tenant, page) => list(db, tenant, page),
    create: (api) => db.transact('durable', (tx) => create(tx, api)),
    update: (tenant, id, decide) =>
      db.transact('confirmed', (tx) => update(tx, tenant, id, decide)),
    delete: (tenant, id) => db.transact('confirmed', (tx) => remove(tx, tenant, id)),
  };
}

/** `create` sees to it that no identifier is the id of another API. */
async function get(db: Queries, tenant: number, idOrIdentifier: string): Promise<Api | undefined> {
  const row = await db.get<ApiRow>`
    select id, identifier, name, scopes, enforce_policies, token_dialect, token_lifetime_seconds,
      created_at
    from apis where tenant = ${tenant}
      and (id = ${idOrIdentifier} or identifier = ${idOrIdentifier})`;
  return row && apiOf(tenant, row);
}

async function list(
  db: Queries,
  tenant: number,
  { page, perPage, bytesMax }: Parameters<ApiStore['list']>[1],
): ReturnType<ApiStore['list']> {
  // Differs because PostgreSQL sends a result as a whole: the scopes are null when it is too large.
  const [rows, count] = await Promise.all([
    db.all<ApiRow | (Omit<ApiRow, 'scopes'> & { scopes: null })>`
      select id, identifier, name, enforce_policies, token_dialect,
        token_lifetime_seconds, created_at,
        case when sum(octet_length(scopes)) over () <= ${boundOf(bytesMax)}::bigint
          then scopes end as scopes
      from (
        select id, identifier, name, scopes, enforce_policies, token_dialect,
          token_lifetime_seconds, created_at
        from apis where tenant = ${tenant}
        order by created_at, id limit ${perPage} offset ${page * perPage}
      ) as page
      order by created_at, id`,
    db.get<{ total: number }>`
      select count(*) as total from apis where tenant = ${tenant}`,
  ]);
  const whole = rows.filter((row) => row.scopes !== null);
  if (whole.length < rows.length) return { refused: 'too_large' };
  return { items: whole.map((row) => apiOf(tenant, row)), total: count?.total ?? 0 };
}

async function create(tx: Queries, api: Api): ReturnType<ApiStore['create']> {
  const { tenant, id, identifier, name, enforcePolicies, tokenDialect, createdAt } = api;
  await lockNames(tx, tenant);
  const names = [await get(tx, tenant, identifier), await get(tx, tenant, id)];
  if (names.some((other) => other !== undefined)) return { refused: 'identifier_taken' };
  await tx.run`
    insert into apis (tenant, id, identifier, name, scopes, enforce_policies, token_dialect,
      token_lifetime_seconds, created_at)
    values (${tenant}, ${id}, ${identifier}, ${name}, ${JSON.stringify(api.scopes)},
      ${enforcePolicies}, ${tokenDialect}, ${api.tokenLifetimeSeconds}, ${createdAt})`;
  return { created: api };
}

/** No index sees to it that an id and an identifier differ, so APIs are created one by one. */
async function lockNames(tx: Queries, tenant: number): Promise<void> {
  await advisoryLock(tx, `apis ${tenant}`);
}

async function update(
  tx: Queries,
  tenant: number,
  id: string,
  decide: Parameters<ApiStore['update']>[2],
): ReturnType<ApiStore['update']> {
  const before = await locked(tx, tenant, id);
  if (before === undefined) return { refused: 'unknown' };
  const { name, scopes, enforcePolicies, tokenDialect, tokenLifetimeSeconds } = decide(before);
  await tx.run`
    update apis set name = ${name}, scopes = ${JSON.stringify(scopes)},
      enforce_policies = ${enforcePolicies}, token_dialect = ${tokenDialect},
      token_lifetime_seconds = ${tokenLifetimeSeconds}
    where tenant = ${tenant} and id = ${id}`;
  const changed = { name, scopes, enforcePolicies, tokenDialect, tokenLifetimeSeconds };
  return { updated: { ...before, ...changed } };
}

/** The API, which nobody else changes until the commit. */
async function locked(tx: Queries, tenant: number, id: string): Promise<Api | undefined> {
  const row = await tx.get<ApiRow>`
    select id, identifier, name, scopes, enforce_policies, token_dialect, token_lifetime_seconds,
      created_at
    from apis where tenant = ${tenant} and id = ${id} for update`;
  return row && apiOf(tenant, row);
}

/** The API goes first: then nobody is granted it any more, and who was can be seen. */
async function remove(tx: Queries, tenant: number, id: string): Promise<boolean> {
  const deleted = await tx.run`delete from apis where tenant = ${tenant} and id = ${id}`;
  if (deleted === 0) return false;
  await tx.run`delete from grants where tenant = ${tenant} and api = ${id}`;
  await tx.run`delete from role_permissions where tenant = ${tenant} and api = ${id}`;
  return true;
}
