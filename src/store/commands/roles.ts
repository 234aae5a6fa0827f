import { storedNames } from '../../core/name.ts';
import { managementApiId, type Permission, type Role } from '../../core/types.ts';
import type { NumberedPage, PageByNumber } from '../port/page.ts';
import type { RoleStore } from '../port/roles.ts';
import { conversionOf } from '../rows/fields.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { columnsOf, valuesOf } from './columns.ts';
import { type Command, Lock, numberedPage, sql, type Statement, type On } from './command.ts';
import { forKeyShare, forUpdate, Fragment, jsonOf, oneOf, piece } from './dialect.ts';
import { createRoleMembers, hasRole } from './role-members.ts';

/** Creates the store of roles with their permissions; role-members.ts has who holds them. */
export function createRoleStore({ on }: On): RoleStore {
  const { read, transact } = on.commands;
  return {
    get: (tenant, id) => read(get(tenant, id)),
    byName: (tenant, name) => read(byName(tenant, name)),
    list: (tenant, page) => on.lists.read(list(tenant, page)),
    create: (role) => transact('durable', () => create(role)),
    update: (tenant, id, decide) => transact('confirmed', () => update(tenant, id, decide)),
    delete: (tenant, id) => transact('confirmed', () => remove(tenant, id)),
    permissions: (tenant, role, page) => on.lists.read(permissions(tenant, role, page)),
    addPermissions: (tenant, role, added) =>
      transact('confirmed', () => addPermissions(tenant, role, added)),
    removePermissions: (tenant, role, removed) =>
      transact('confirmed', () => removePermissions(tenant, role, removed)),
    permissionsOf: (tenant, client, api) => read(permissionsOf(tenant, client, api)),
    ...createRoleMembers({ on }),
  };
}

type RoleRow = RowOf<typeof tables.roles>;
const columns = columnsOf(tables.roles);
const { fieldsOf: roleOf, cellsOf: rowOf } = conversionOf(tables.roles);

function* get(tenant: number, id: string): Command<Role | undefined> {
  const row = yield* sql.get<RoleRow>`
    select ${columns} from roles where tenant = ${tenant} and id = ${id}`;
  return row && roleOf(row);
}

function* byName(tenant: number, name: string): Command<Role | undefined> {
  const row = yield* sql.get<RoleRow>`
    select ${columns} from roles
    where tenant = ${tenant} and name = ${name}`;
  return row && roleOf(row);
}

function list(
  tenant: number,
  { page, perPage, nameFilter = '' }: Parameters<RoleStore['list']>[1],
): Command<NumberedPage<Role>> {
  return numberedPage(
    sql.all<RoleRow>`
      select ${columns} from roles
      where tenant = ${tenant} and ${nameContains(nameFilter)}
      order by created_at, id limit ${perPage} offset ${page * perPage}`,
    sql.get`
      select count(*) as total from roles
      where tenant = ${tenant} and ${nameContains(nameFilter)}`,
    roleOf,
  );
}

/** In any case of a to z, which both engines fold in the same way, whatever the locale. */
function nameContains(text: string): Fragment {
  return new Fragment({
    sqlite: piece`instr(lower(name), lower(${text})) > 0`,
    postgres: piece`
      strpos(lower(name collate "C"), lower(cast(${text} as text) collate "C")) > 0`,
  });
}

function* create(role: Role): Command<Awaited<ReturnType<RoleStore['create']>>> {
  yield* lockNames(role.tenant);
  if ((yield* namesakeOf(role)) !== undefined) return { refused: 'name_taken' };
  const inserted = yield* sql.run`
    insert into roles ${valuesOf(tables.roles, rowOf(role))}
    on conflict (tenant, name) do nothing`;
  return inserted === 1 ? { created: role } : { refused: 'name_taken' };
}

function* update(
  tenant: number,
  id: string,
  decide: Parameters<RoleStore['update']>[2],
): Command<Awaited<ReturnType<RoleStore['update']>>> {
  yield* lockNames(tenant);
  const row = yield* sql.get<RoleRow>`
    select ${columns} from roles
    where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  if (row === undefined) return { refused: 'unknown' };
  const before = roleOf(row);
  const { name, description } = decide(before);
  const isRenamed = name !== before.name;
  if (isRenamed && (yield* namesakeOf({ ...before, name })) !== undefined) {
    return { refused: 'name_taken' };
  }
  yield* sql.run`
    update roles set name = ${name}, description = ${description}
    where tenant = ${tenant} and id = ${id}`;
  return { updated: { ...before, name, description } };
}

/** Returns another role whose name is a form of this one's. */
function namesakeOf({ tenant, id, name }: Role): Statement<object | undefined> {
  return sql.get`
    select 1 from roles
    where tenant = ${tenant} and name ${oneOf(storedNames(name))} and id <> ${id}`;
}

/** Keeps other commands from taking a name of the tenant between a check and a write. */
function lockNames(tenant: number): Lock {
  return new Lock(`roles ${tenant}`);
}

/** Deletes the role row first: its lock blocks new members, so the deletes below see them all. */
function* remove(tenant: number, id: string): Command<boolean> {
  const deleted = yield* sql.run`delete from roles where tenant = ${tenant} and id = ${id}`;
  if (deleted === 0) return false;
  yield* sql.run`delete from role_permissions where tenant = ${tenant} and role = ${id}`;
  yield* sql.run`delete from role_clients where tenant = ${tenant} and role = ${id}`;
  yield* sql.run`delete from role_users where tenant = ${tenant} and role = ${id}`;
  return true;
}

function permissions(
  tenant: number,
  role: string,
  { page, perPage }: PageByNumber,
): Command<NumberedPage<Permission>> {
  return numberedPage(
    sql.all<Permission>`
      select api, name from role_permissions where tenant = ${tenant} and role = ${role}
      order by api, name limit ${perPage} offset ${page * perPage}`,
    sql.get`
      select count(*) as total from role_permissions where tenant = ${tenant} and role = ${role}`,
    ({ api, name }) => ({ api, name }),
  );
}

function* addPermissions(
  tenant: number,
  role: string,
  added: readonly Permission[],
): Command<Awaited<ReturnType<RoleStore['addPermissions']>>> {
  if (!(yield* hasRole(tenant, role))) return 'unknown_role';
  if (!(yield* hasApis(tenant, added))) return 'unknown_api';
  yield* sql.run`
    insert into role_permissions (tenant, role, api, name)
    select cast(${tenant} as integer), cast(${role} as text), api, name
    from ${listed(added)} where true
    on conflict do nothing`;
  return 'added';
}

/** Returns whether all these APIs exist, which then stay until the commit. */
function* hasApis(tenant: number, named: readonly Permission[]): Command<boolean> {
  const ids = new Set(named.map(({ api }) => api));
  ids.delete(managementApiId);
  const found = yield* sql.all`
    select 1 from apis where tenant = ${tenant} and id ${oneOf([...ids])} ${forKeyShare}`;
  return found.length === ids.size;
}

function* removePermissions(
  tenant: number,
  role: string,
  removed: readonly Permission[],
): Command<boolean> {
  if (!(yield* hasRole(tenant, role))) return false;
  yield* sql.run`
    delete from role_permissions
    where tenant = ${tenant} and role = ${role}
      and (api, name) in (select api, name from ${listed(removed)})`;
  return true;
}

/** A table of permissions with the columns `api` and `name`. SQLite has no arrays. */
function listed(pairs: readonly Permission[]): Fragment {
  return new Fragment({
    sqlite: piece`(
      select value ->> 'api' as api, value ->> 'name' as name from json_each(${jsonOf(pairs)}))`,
    postgres: piece`unnest(${pairs.map(({ api }) => api)}::text[],
      ${pairs.map(({ name }) => name)}::text[]) as listed (api, name)`,
  });
}

function* permissionsOf(tenant: number, client: string, api: string): Command<string[]> {
  const rows = yield* sql.all<{ name: string }>`
    select distinct name from role_clients
      join role_permissions using (tenant, role)
    where tenant = ${tenant} and client = ${client} and api = ${api} order by name`;
  return rows.map(({ name }) => name);
}
