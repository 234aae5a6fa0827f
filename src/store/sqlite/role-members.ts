import type { RoleStore } from '../port/roles.ts';
import type { Database } from './database.ts';

/** The clients and the users that hold roles. */
export function createRoleMembers(
  db: Database,
): Pick<
  RoleStore,
  'clients' | 'addClients' | 'removeClients' | 'users' | 'addUsers' | 'removeUsers'
> {
  return {
    clients: async (tenant, role, { page, perPage }) => {
      const rows = db.all<{ client: string }>`
        select client from role_clients where tenant = ${tenant} and role = ${role}
        order by client limit ${perPage} offset ${page * perPage}`;
      const count = db.get<{ total: number }>`
        select count(*) as total from role_clients where tenant = ${tenant} and role = ${role}`;
      return { items: rows.map(({ client }) => client), total: count?.total ?? 0 };
    },
    addClients: async (tenant, role, clients) =>
      db.transact('durable', () => {
        if (!hasRole(db, tenant, role)) return 'unknown_role';
        if (!clients.every((client) => hasClient(db, tenant, client))) return 'unknown_client';
        for (const client of clients) {
          db.run`
            insert into role_clients (tenant, role, client)
            values (${tenant}, ${role}, ${client}) on conflict do nothing`;
        }
        return 'added';
      }),
    removeClients: async (tenant, role, clients) =>
      db.transact('durable', () => {
        for (const client of clients) {
          db.run`
            delete from role_clients
            where tenant = ${tenant} and role = ${role} and client = ${client}`;
        }
        return hasRole(db, tenant, role);
      }),
    users: async (tenant, role, { after, take }) => {
      const rows = db.all<{ user: string }>`
        select user from role_users
        where tenant = ${tenant} and role = ${role} and user > ${after ?? ''}
        order by user limit ${take + 1}`;
      const items = rows.slice(0, take).map(({ user }) => user);
      return { items, next: rows.length > take ? items.at(-1) : undefined };
    },
    addUsers: async (tenant, role, users) =>
      db.transact('durable', () => {
        if (!hasRole(db, tenant, role)) return 'unknown_role';
        if (!users.every((user) => hasUser(db, tenant, user))) return 'unknown_user';
        for (const user of users) {
          db.run`
            insert into role_users (tenant, role, user)
            values (${tenant}, ${role}, ${user}) on conflict do nothing`;
        }
        return 'added';
      }),
    removeUsers: async (tenant, role, users) =>
      db.transact('durable', () => {
        for (const user of users) {
          db.run`
            delete from role_users
            where tenant = ${tenant} and role = ${role} and user = ${user}`;
        }
        return hasRole(db, tenant, role);
      }),
  };
}

/** Whether there is such a role. */
export function hasRole(db: Database, tenant: number, id: string): boolean {
  return db.get`select 1 from roles where tenant = ${tenant} and id = ${id}` !== undefined;
}

function hasClient(db: Database, tenant: number, id: string): boolean {
  return db.get`select 1 from clients where tenant = ${tenant} and id = ${id}` !== undefined;
}

function hasUser(db: Database, tenant: number, id: string): boolean {
  return db.get`select 1 from users where tenant = ${tenant} and id = ${id}` !== undefined;
}
