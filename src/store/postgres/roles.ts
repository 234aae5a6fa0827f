import { managementApiId, type Permission, type Role } from '../../core/types.ts';
import type { NumberedPage, PageByNumber } from '../port/page.ts';
import type { RoleStore } from '../port/roles.ts';
import type { Database, Queries } from './database.ts';
import { createRoleMembers, hasRole } from './role-members.ts';
import { advisoryLock } from './advisory-lock.ts';
import { roleOf, type RoleRow } from '../rows/roles.ts';

/** Roles with their permissions; who holds them is in `role-members.ts`. */
export function createRoleStore({ db }: { readonly db: Database }): RoleStore {
  return {
    get: (tenant, id) => get(db, tenant, id),
    byName: (tenant, name) => byName(db, tenant, name),
    list: (tenant, page) => list(db, tenant, page),
    create: (role) => db.transact('durable', (tx) => create(tx, role)),
    update: (tenant, id, decide) =>
      db.transact('confirmed', (tx) => update(tx, tenant, id, decide)),
    delete: (tenant, id) => db.transact('confirmed', (tx) => remove(tx, tenant, id)),
    permissions: (tenant, role, page) => permissions(db, tenant, role, page),
    addPermissions: (tenant, role, added) =>
      db.transact('confirmed', (tx) => addPermissions(tx, tenant, role, added)),
    removePermissions: (tenant, role, removed) =>
      db.transact('confirmed', (tx) => removePermissions(tx, tenant, role, removed)),
    permissionsOf: (tenant, client, api) => permissionsOf(db, tenant, client, api),
    ...createRoleMembers(db),
  };
}

async function get(db: Queries, tenant: number, id: string): Promise<Role | undefined> {
  const row = await db.get<RoleRow>`
    select id, name, description, created_at from roles where tenant = ${tenant} and id = ${id}`;
  return row && roleOf(tenant, row);
}

async function byName(db: Queries, tenant: number, name: string): Promise<Role | undefined> {
  const row = await db.get<RoleRow>`
    select id, name, description, created_at from roles
    where tenant = ${tenant} and name = ${name}`;
  return row && roleOf(tenant, row);
}

async function list(
  db: Queries,
  tenant: number,
  { page, perPage }: PageByNumber,
): Promise<NumberedPage<Role>> {
  const [rows, count] = await Promise.all([
    db.all<RoleRow>`
      select id, name, description, created_at from roles where tenant = ${tenant}
      order by created_at, id limit ${perPage} offset ${page * perPage}`,
    db.get<{ total: number }>`
      select count(*) as total from roles where tenant = ${tenant}`,
  ]);
  return { items: rows.map((row) => roleOf(tenant, row)), total: count?.total ?? 0 };
}

async function create(tx: Queries, role: Role): ReturnType<RoleStore['create']> {
  const { tenant, id, name, description, createdAt } = role;
  await lockNames(tx, tenant);
  const inserted = await tx.run`
    insert into roles (tenant, id, name, description, created_at)
    values (${tenant}, ${id}, ${name}, ${description}, ${createdAt})
    on conflict (tenant, name) do nothing`;
  return inserted === 1 ? { created: role } : { refused: 'name_taken' };
}

async function update(
  tx: Queries,
  tenant: number,
  id: string,
  decide: Parameters<RoleStore['update']>[2],
): ReturnType<RoleStore['update']> {
  await lockNames(tx, tenant);
  const before = await locked(tx, tenant, id);
  if (before === undefined) return { refused: 'unknown' };
  const { name, description } = decide(before);
  const namesake = await byName(tx, tenant, name);
  if (namesake !== undefined && namesake.id !== id) return { refused: 'name_taken' };
  await tx.run`
    update roles set name = ${name}, description = ${description}
    where tenant = ${tenant} and id = ${id}`;
  return { updated: { ...before, name, description } };
}

/** Nobody takes a name of the tenant between an update's look and its write. */
async function lockNames(tx: Queries, tenant: number): Promise<void> {
  await advisoryLock(tx, `roles ${tenant}`);
}

/** The role, which nobody else changes until the commit. */
async function locked(tx: Queries, tenant: number, id: string): Promise<Role | undefined> {
  const row = await tx.get<RoleRow>`
    select id, name, description, created_at from roles
    where tenant = ${tenant} and id = ${id} for update`;
  return row && roleOf(tenant, row);
}

/** The role goes first: then it gets nothing more, and what it has got can be seen. */
async function remove(tx: Queries, tenant: number, id: string): Promise<boolean> {
  const deleted = await tx.run`delete from roles where tenant = ${tenant} and id = ${id}`;
  if (deleted === 0) return false;
  await tx.run`delete from role_permissions where tenant = ${tenant} and role = ${id}`;
  await tx.run`delete from role_clients where tenant = ${tenant} and role = ${id}`;
  await tx.run`delete from role_users where tenant = ${tenant} and role = ${id}`;
  return true;
}

async function permissions(
  db: Queries,
  tenant: number,
  role: string,
  { page, perPage }: PageByNumber,
): Promise<NumberedPage<Permission>> {
  const [items, count] = await Promise.all([
    db.all<{ api: string; name: string }>`
      select api, name from role_permissions where tenant = ${tenant} and role = ${role}
      order by api, name limit ${perPage} offset ${page * perPage}`,
    db.get<{ total: number }>`
      select count(*) as total from role_permissions where tenant = ${tenant} and role = ${role}`,
  ]);
  return { items: items.map(({ api, name }) => ({ api, name })), total: count?.total ?? 0 };
}

async function addPermissions(
  tx: Queries,
  tenant: number,
  role: string,
  added: readonly Permission[],
): ReturnType<RoleStore['addPermissions']> {
  if (!(await hasRole(tx, tenant, role))) return 'unknown_role';
  const { apis, names } = columnsOf(added);
  if (!(await hasApis(tx, tenant, apis))) return 'unknown_api';
  await tx.run`
    insert into role_permissions (tenant, role, api, name)
    select ${tenant}::integer, ${role}::text, api, name
    from unnest(${apis}::text[], ${names}::text[]) as added (api, name)
    on conflict do nothing`;
  return 'added';
}

function columnsOf(pairs: readonly Permission[]): { apis: string[]; names: string[] } {
  return {
    apis: pairs.map(({ api }) => api),
    names: pairs.map(({ name }) => name),
  };
}

/** Whether there are all these APIs; they stay until the commit. */
async function hasApis(tx: Queries, tenant: number, ids: readonly string[]): Promise<boolean> {
  const wanted = new Set(ids);
  wanted.delete(managementApiId);
  const found = await tx.all`
    select 1 from apis where tenant = ${tenant} and id = any(${[...wanted]}::text[]) for key share`;
  return found.length === wanted.size;
}

async function removePermissions(
  tx: Queries,
  tenant: number,
  role: string,
  removed: readonly Permission[],
): Promise<boolean> {
  if (!(await hasRole(tx, tenant, role))) return false;
  const { apis, names } = columnsOf(removed);
  await tx.run`
    delete from role_permissions
    where tenant = ${tenant} and role = ${role}
      and (api, name) in (select * from unnest(${apis}::text[], ${names}::text[]))`;
  return true;
}

async function permissionsOf(
  db: Queries,
  tenant: number,
  client: string,
  api: string,
): Promise<string[]> {
  const rows = await db.all<{ name: string }>`
    select distinct name from role_clients
      join role_permissions using (tenant, role)
    where tenant = ${tenant} and client = ${client} and api = ${api} order by name`;
  return rows.map(({ name }) => name);
}
