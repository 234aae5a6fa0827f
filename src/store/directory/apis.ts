import type { Millis } from '../../core/clock.ts';
import type { Api } from '../../core/types.ts';
import type { ApiStore } from '../port/apis.ts';
import type { BoundedPage } from '../port/page.ts';
import { carriedIn } from '../rows/carried.ts';
import { boundedPage, type Command, Lock, sql, type On } from './command.ts';
import { forUpdate, oneOf, verbatim } from './dialect.ts';

/** Creates the store of the APIs that tokens are issued for, except the management API. */
export function createApiStore({ on }: On): ApiStore {
  const { read, transact } = on.commands;
  return {
    get: (tenant, idOrIdentifier) => read(get(tenant, idOrIdentifier)),
    list: (tenant, page) => on.lists.read(list(tenant, page)),
    create: (api) => transact('durable', () => create(api)),
    update: (tenant, id, decide) => transact('confirmed', () => update(tenant, id, decide)),
    delete: (tenant, id) => transact('confirmed', () => remove(tenant, id)),
  };
}

interface ApiRow {
  readonly id: string;
  readonly identifier: string;
  readonly name: string;
  readonly scopes: string;
  /** A number on SQLite, which has no booleans. */
  readonly enforce_policies: number | boolean;
  readonly token_dialect: Api['tokenDialect'];
  readonly token_lifetime_seconds: number;
  readonly carried: string | null;
  readonly created_at: Millis;
}

/** The columns of a {@link ApiRow}. */
const columns = verbatim(`
  id, identifier, name, scopes, enforce_policies, token_dialect, token_lifetime_seconds, carried,
  created_at`);

function apiOf(tenant: number, row: ApiRow): Api {
  return {
    tenant,
    id: row.id,
    identifier: row.identifier,
    name: row.name,
    scopes: JSON.parse(row.scopes) as Api['scopes'],
    enforcePolicies: Boolean(row.enforce_policies),
    tokenDialect: row.token_dialect,
    tokenLifetimeSeconds: row.token_lifetime_seconds,
    ...carriedIn(row.carried),
    createdAt: row.created_at,
  };
}

/** Returns at most one: `create` refuses an identifier that is the id of another API. */
function* get(tenant: number, idOrIdentifier: string): Command<Api | undefined> {
  const row = yield* sql.get<ApiRow>`
    select ${columns}
    from apis where tenant = ${tenant}
      and (id = ${idOrIdentifier} or identifier = ${idOrIdentifier})`;
  return row && apiOf(tenant, row);
}

function list(
  tenant: number,
  { page, perPage, bytesMax, identifiers }: Parameters<ApiStore['list']>[1],
): Command<BoundedPage<Api>> {
  const isAny = identifiers === undefined;
  const wanted = identifiers ?? [];
  return boundedPage(
    {
      take: perPage,
      bytesMax,
      columns: ['scopes', 'carried'],
      order: 'created_at, id',
      rowsAfter: (read, take) => sql.all<ApiRow>`
        select ${columns}
        from apis where tenant = ${tenant} and (${isAny} or identifier ${oneOf(wanted)})
        order by created_at, id
        limit ${Math.min(take, perPage - read.length)} offset ${page * perPage + read.length}`,
    },
    sql.get`
      select count(*) as total from apis
      where tenant = ${tenant} and (${isAny} or identifier ${oneOf(wanted)})`,
    (row: ApiRow) => apiOf(tenant, row),
  );
}

function* create(api: Api): Command<Awaited<ReturnType<ApiStore['create']>>> {
  const { tenant, id, identifier, name, enforcePolicies, tokenDialect, createdAt } = api;
  // No index keeps an id and an identifier apart.
  yield* new Lock(`apis ${tenant}`);
  const names = [yield* get(tenant, identifier), yield* get(tenant, id)];
  if (names.some((other) => other !== undefined)) return { refused: 'identifier_taken' };
  yield* sql.run`
    insert into apis (tenant, id, identifier, name, scopes, enforce_policies, token_dialect,
      token_lifetime_seconds, carried, created_at)
    values (${tenant}, ${id}, ${identifier}, ${name}, ${JSON.stringify(api.scopes)},
      ${enforcePolicies}, ${tokenDialect}, ${api.tokenLifetimeSeconds}, ${api.carriedJson},
      ${createdAt})`;
  return { created: api };
}

function* update(
  tenant: number,
  id: string,
  decide: Parameters<ApiStore['update']>[2],
): Command<Awaited<ReturnType<ApiStore['update']>>> {
  const row = yield* sql.get<ApiRow>`
    select ${columns}
    from apis where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  if (row === undefined) return { refused: 'unknown' };
  const before = apiOf(tenant, row);
  const { name, scopes, enforcePolicies, tokenDialect, tokenLifetimeSeconds, carriedJson } =
    decide(before);
  yield* sql.run`
    update apis set name = ${name}, scopes = ${JSON.stringify(scopes)},
      enforce_policies = ${enforcePolicies}, token_dialect = ${tokenDialect},
      token_lifetime_seconds = ${tokenLifetimeSeconds}, carried = ${carriedJson}
    where tenant = ${tenant} and id = ${id}`;
  const { identifier, createdAt } = before;
  const changed = { name, scopes, enforcePolicies, tokenDialect, tokenLifetimeSeconds };
  const updated = { tenant, id, identifier, createdAt, ...changed, ...carriedIn(carriedJson) };
  return { updated };
}

/** Deletes the API row first: its lock blocks new grants, so the deletes below see them all. */
function* remove(tenant: number, id: string): Command<boolean> {
  const deleted = yield* sql.run`delete from apis where tenant = ${tenant} and id = ${id}`;
  if (deleted === 0) return false;
  yield* sql.run`delete from grants where tenant = ${tenant} and api = ${id}`;
  yield* sql.run`delete from role_permissions where tenant = ${tenant} and api = ${id}`;
  return true;
}
