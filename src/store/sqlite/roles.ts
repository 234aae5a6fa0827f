import { managementApiId, type Permission, type Role } from '../../core/types.ts';
import type { NumberedPage, PageByNumber } from '../port/page.ts';
import type { RoleStore } from '../port/roles.ts';
import type { Database } from './database.ts';
import { createRoleMembers, hasRole } from './role-members.ts';
import { roleOf, type RoleRow } from '../rows/roles.ts';

/** Roles with their permissions; who holds them is in `role-members.ts`. */
export function createRoleStore({ db }: { readonly db: Database }): RoleStore {
  return {
    get: async (tenant, id) => get(db, tenant, id),
    byName: async (tenant, name) => byName(db, tenant, name),
    list: async (tenant, page) => list(db, tenant, page),
    create: async (role) => db.transact('durable', () => create(db, role)),
    update: async (tenant, id, decide) =>
      db.transact('durable', () => update(db, tenant, id, decide)),
    delete: async (tenant, id) => db.transact('durable', () => remove(db, tenant, id)),
    permissions: async (tenant, role, page) => permissions(db, tenant, role, page),
    addPermissions: async (tenant, role, added) =>
      db.transact('durable', () => addPermissions(db, tenant, role, added)),
    removePermissions: async (tenant, role, removed) =>
      db.transact('durable', () => removePermissions(db, tenant, role, removed)),
    permissionsOf: async (tenant, client, api) => permissionsOf(db, tenant, client, api),
    ...createRoleMembers(db),
  };
}

function get(db: Database, tenant: number, id: string): Role | undefined {
  const row = db.get<RoleRow>`
    select id, name, description, created_at from roles where tenant = ${tenant} and id = ${id}`;
  return row && roleOf(tenant, row);
}

function byName(db: Database, tenant: number, name: string): Role | undefined {
  const row = db.get<RoleRow>`
    select id, name, description, created_at from roles
    where tenant = ${tenant} and name = ${name}`;
  return row && roleOf(tenant, row);
}

function list(db: Database, tenant: number, { page, perPage }: PageByNumber): NumberedPage<Role> {
  const rows = db.all<RoleRow>`
    select id, name, description, created_at from roles where tenant = ${tenant}
    order by created_at, id limit ${perPage} offset ${page * perPage}`;
  const count = db.get<{ total: number }>`
    select count(*) as total from roles where tenant = ${tenant}`;
  return { items: rows.map((row) => roleOf(tenant, row)), total: count?.total ?? 0 };
}

function create(db: Database, role: Role): Awaited<ReturnType<RoleStore['create']>> {
  const { tenant, id, name, description, createdAt } = role;
  const inserted = db.run`
    insert into roles (tenant, id, name, description, created_at)
    values (${tenant}, ${id}, ${name}, ${description}, ${createdAt})
    on conflict (tenant, name) do nothing`;
  return inserted === 1 ? { created: role } : { refused: 'name_taken' };
}

function update(
  db: Database,
  tenant: number,
  id: string,
  decide: Parameters<RoleStore['update']>[2],
): Awaited<ReturnType<RoleStore['update']>> {
  const before = get(db, tenant, id);
  if (before === undefined) return { refused: 'unknown' };
  const { name, description } = decide(before);
  const namesake = byName(db, tenant, name);
  if (namesake !== undefined && namesake.id !== id) return { refused: 'name_taken' };
  db.run`
    update roles set name = ${name}, description = ${description}
    where tenant = ${tenant} and id = ${id}`;
  return { updated: { ...before, name, description } };
}

function remove(db: Database, tenant: number, id: string): boolean {
  db.run`delete from role_permissions where tenant = ${tenant} and role = ${id}`;
  db.run`delete from role_clients where tenant = ${tenant} and role = ${id}`;
  db.run`delete from role_users where tenant = ${tenant} and role = ${id}`;
  return db.run`delete from roles where tenant = ${tenant} and id = ${id}` === 1;
}

function permissions(
  db: Database,
  tenant: number,
  role: string,
  { page, perPage }: PageByNumber,
): NumberedPage<Permission> {
  const items = db.all<{ api: string; name: string }>`
    select api, name from role_permissions where tenant = ${tenant} and role = ${role}
    order by api, name limit ${perPage} offset ${page * perPage}`;
  const count = db.get<{ total: number }>`
    select count(*) as total from role_permissions where tenant = ${tenant} and role = ${role}`;
  return { items: items.map(({ api, name }) => ({ api, name })), total: count?.total ?? 0 };
}

function addPermissions(
  db: Database,
  tenant: number,
  role: string,
  added: readonly Permission[],
): Awaited<ReturnType<RoleStore['addPermissions']>> {
  if (!hasRole(db, tenant, role)) return 'unknown_role';
  if (!added.every(({ api }) => api === managementApiId || hasApi(db, tenant, api))) {
    return 'unknown_api';
  }
  for (const { api, name } of added) {
    db.run`
      insert into role_permissions (tenant, role, api, name)
      values (${tenant}, ${role}, ${api}, ${name}) on conflict do nothing`;
  }
  return 'added';
}

function hasApi(db: Database, tenant: number, id: string): boolean {
  return db.get`select 1 from apis where tenant = ${tenant} and id = ${id}` !== undefined;
}

function removePermissions(
  db: Database,
  tenant: number,
  role: string,
  removed: readonly Permission[],
): boolean {
  for (const { api, name } of removed) {
    db.run`
      delete from role_permissions
      where tenant = ${tenant} and role = ${role} and api = ${api} and name = ${name}`;
  }
  return hasRole(db, tenant, role);
}

function permissionsOf(db: Database, tenant: number, client: string, api: string): string[] {
  const rows = db.all<{ name: string }>`
    select distinct name from role_clients
      join role_permissions using (tenant, role)
    where tenant = ${tenant} and client = ${client} and api = ${api} order by name`;
  return rows.map(({ name }) => name);
}
