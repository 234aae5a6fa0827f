import type { RoleStore } from '../port/roles.ts';
import type { Database, Queries } from './database.ts';

/** The clients and the users that hold roles. */
export function createRoleMembers(
  db: Database,
): Pick<
  RoleStore,
  'clients' | 'addClients' | 'removeClients' | 'users' | 'addUsers' | 'removeUsers'
> {
  return {
    clients: async (tenant, role, { page, perPage }) => {
      const [rows, count] = await Promise.all([
        db.all<{ client: string }>`
          select client from role_clients where tenant = ${tenant} and role = ${role}
          order by client limit ${perPage} offset ${page * perPage}`,
        db.get<{ total: number }>`
          select count(*) as total from role_clients where tenant = ${tenant} and role = ${role}`,
      ]);
      return { items: rows.map(({ client }) => client), total: count?.total ?? 0 };
    },
    addClients: (tenant, role, clients) =>
      db.transact('confirmed', async (tx) => {
        if (!(await hasRole(tx, tenant, role))) return 'unknown_role';
        if (!(await hasClients(tx, tenant, clients))) return 'unknown_client';
        await tx.run`
          insert into role_clients (tenant, role, client)
          select ${tenant}::integer, ${role}::text, unnest(${clients}::text[])
          on conflict do nothing`;
        return 'added';
      }),
    removeClients: (tenant, role, clients) =>
      db.transact('confirmed', async (tx) => {
        if (!(await hasRole(tx, tenant, role))) return false;
        await tx.run`
          delete from role_clients
          where tenant = ${tenant} and role = ${role} and client = any(${clients}::text[])`;
        return true;
      }),
    users: async (tenant, role, { after, take }) => {
      const rows = await db.all<{ user: string }>`
        select "user" from role_users
        where tenant = ${tenant} and role = ${role} and "user" > ${after ?? ''}
        order by "user" limit ${take + 1}`;
      const items = rows.slice(0, take).map(({ user }) => user);
      return { items, next: rows.length > take ? items.at(-1) : undefined };
    },
    addUsers: (tenant, role, users) =>
      db.transact('confirmed', async (tx) => {
        if (!(await hasRole(tx, tenant, role))) return 'unknown_role';
        if (!(await hasUsers(tx, tenant, users))) return 'unknown_user';
        await tx.run`
          insert into role_users (tenant, role, "user")
          select ${tenant}::integer, ${role}::text, unnest(${users}::text[])
          on conflict do nothing`;
        return 'added';
      }),
    removeUsers: (tenant, role, users) =>
      db.transact('confirmed', async (tx) => {
        if (!(await hasRole(tx, tenant, role))) return false;
        await tx.run`
          delete from role_users
          where tenant = ${tenant} and role = ${role} and "user" = any(${users}::text[])`;
        return true;
      }),
  };
}

/** Whether there is such a role, which stays until the commit; its changes take turns. */
export async function hasRole(tx: Queries, tenant: number, id: string): Promise<boolean> {
  const role = await tx.get`
    select 1 from roles where tenant = ${tenant} and id = ${id} for no key update`;
  return role !== undefined;
}

/** Whether there are all these clients; they stay until the commit. */
async function hasClients(tx: Queries, tenant: number, ids: readonly string[]): Promise<boolean> {
  const found = await tx.all`
    select 1 from clients where tenant = ${tenant} and id = any(${ids}::text[]) for key share`;
  return found.length === new Set(ids).size;
}

/** Whether there are all these users; they stay until the commit. */
async function hasUsers(tx: Queries, tenant: number, ids: readonly string[]): Promise<boolean> {
  const found = await tx.all`
    select 1 from users where tenant = ${tenant} and id = any(${ids}::text[]) for key share`;
  return found.length === new Set(ids).size;
}
