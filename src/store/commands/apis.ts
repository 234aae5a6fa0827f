import type { Api } from '../../core/types.ts';
import type { ApiStore } from '../port/apis.ts';
import type { BoundedPage } from '../port/page.ts';
import { conversionOf } from '../rows/fields.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { changesOf, columnsOf, valuesOf } from './columns.ts';
import { boundedPage, type Command, Lock, sql, type On } from './command.ts';
import { forUpdate, oneOf } from './dialect.ts';

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

type ApiRow = RowOf<typeof tables.apis>;
const columns = columnsOf(tables.apis);
const { fieldsOf: apiOf, cellsOf: rowOf } = conversionOf(tables.apis);

/** Returns at most one: `create` refuses an identifier that is the id of another API. */
function* get(tenant: number, idOrIdentifier: string): Command<Api | undefined> {
  const row = yield* sql.get<ApiRow>`
    select ${columns}
    from apis where tenant = ${tenant}
      and (id = ${idOrIdentifier} or identifier = ${idOrIdentifier})`;
  return row && apiOf(row);
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
    apiOf,
  );
}

function* create(api: Api): Command<Awaited<ReturnType<ApiStore['create']>>> {
  const { tenant, id, identifier } = api;
  // No index keeps an id and an identifier apart.
  yield* new Lock(`apis ${tenant}`);
  const names = [yield* get(tenant, identifier), yield* get(tenant, id)];
  if (names.some((other) => other !== undefined)) return { refused: 'identifier_taken' };
  yield* sql.run`insert into apis ${valuesOf(tables.apis, rowOf(api))}`;
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
  const before = apiOf(row);
  const { identifier, createdAt } = before;
  const updated = { ...decide(before), tenant, id, identifier, createdAt };
  yield* sql.run`
    update apis set ${changesOf(tables.apis, rowOf(updated))}
    where tenant = ${tenant} and id = ${id}`;
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
