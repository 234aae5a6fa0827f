import type { NumberedPage, Page, PageByNumber } from '../port/page.ts';
import type { RoleStore } from '../port/roles.ts';
import { type Command, numberedPage, sql, type On } from './command.ts';
import type { Targeted } from './recording.ts';
import { forKeyShare, forNoKeyUpdate, listed, oneOf } from './dialect.ts';

/** Creates the part of the store of roles that has the clients and the users with a role. */
export function createRoleMembers({
  on,
}: On): Pick<
  RoleStore,
  'clients' | 'addClients' | 'removeClients' | 'users' | 'usersFrom' | 'addUsers' | 'removeUsers'
> {
  const { lists } = on;
  const { transact } = on.commands;
  return {
    clients: (tenant, role, page) => lists.read(clientsOf(tenant, role, page)),
    addClients: (tenant, role, clients) =>
      transact('confirmed', () => addClients(tenant, role, clients)),
    removeClients: async (tenant, role, clients) =>
      (await transact('confirmed', () => removeClients(tenant, role, clients))) !== undefined,
    users: (tenant, role, page) => lists.read(usersOf(tenant, role, page)),
    usersFrom: (tenant, role, page) => lists.read(usersFrom(tenant, role, page)),
    addUsers: (tenant, role, users) => transact('confirmed', () => addUsers(tenant, role, users)),
    removeUsers: async (tenant, role, users) =>
      (await transact('confirmed', () => removeUsers(tenant, role, users))) !== undefined,
  };
}

function clientsOf(
  tenant: number,
  role: string,
  { page, perPage }: PageByNumber,
): Command<NumberedPage<string>> {
  return numberedPage(
    sql.all<{ client: string }>`
      select client from role_clients where tenant = ${tenant} and role = ${role}
      order by client limit ${perPage} offset ${page * perPage}`,
    sql.get`
      select count(*) as total from role_clients where tenant = ${tenant} and role = ${role}`,
    ({ client }) => client,
  );
}

function* addClients(
  tenant: number,
  role: string,
  clients: readonly string[],
): Command<Awaited<ReturnType<RoleStore['addClients']>>> {
  if (!(yield* hasRole(tenant, role))) return 'unknown_role';
  const found = yield* sql.all`
    select 1 from clients where tenant = ${tenant} and id ${oneOf(clients)} ${forKeyShare}`;
  if (found.length < new Set(clients).size) return 'unknown_client';
  yield* sql.run`
    insert into role_clients (tenant, role, client)
    select cast(${tenant} as integer), cast(${role} as text), value
    from ${listed(clients)} where true
    on conflict do nothing`;
  return 'added';
}

function* removeClients(
  tenant: number,
  role: string,
  clients: readonly string[],
): Command<Targeted | undefined> {
  if (!(yield* hasRole(tenant, role))) return undefined;
  const removed = yield* sql.all<{ client: string }>`
    delete from role_clients
    where tenant = ${tenant} and role = ${role} and client ${oneOf(clients)} returning client`;
  return { targets: removed.map(({ client }) => client) };
}

function usersOf(
  tenant: number,
  role: string,
  { page, perPage }: PageByNumber,
): Command<NumberedPage<string>> {
  return numberedPage(
    sql.all<{ user: string }>`
      select "user" from role_users where tenant = ${tenant} and role = ${role}
      order by "user" limit ${perPage} offset ${page * perPage}`,
    sql.get`
      select count(*) as total from role_users where tenant = ${tenant} and role = ${role}`,
    ({ user }) => user,
  );
}

function* usersFrom(
  tenant: number,
  role: string,
  { after = '', take }: Parameters<RoleStore['usersFrom']>[2],
): Command<Page<string>> {
  const rows = yield* sql.all<{ user: string }>`
    select "user" from role_users
    where tenant = ${tenant} and role = ${role} and "user" > ${after}
    order by "user" limit ${take + 1}`;
  const items = rows.slice(0, take).map(({ user }) => user);
  return { items, next: rows.length > take ? items.at(-1) : undefined };
}

function* addUsers(
  tenant: number,
  role: string,
  users: readonly string[],
): Command<Awaited<ReturnType<RoleStore['addUsers']>>> {
  if (!(yield* hasRole(tenant, role))) return 'unknown_role';
  const found = yield* sql.all`
    select 1 from users where tenant = ${tenant} and id ${oneOf(users)} ${forKeyShare}`;
  if (found.length < new Set(users).size) return 'unknown_user';
  yield* sql.run`
    insert into role_users (tenant, role, "user")
    select cast(${tenant} as integer), cast(${role} as text), value
    from ${listed(users)} where true
    on conflict do nothing`;
  return 'added';
}

function* removeUsers(
  tenant: number,
  role: string,
  users: readonly string[],
): Command<Targeted | undefined> {
  if (!(yield* hasRole(tenant, role))) return undefined;
  const removed = yield* sql.all<{ user: string }>`
    delete from role_users
    where tenant = ${tenant} and role = ${role} and "user" ${oneOf(users)} returning "user"`;
  return { targets: removed.map(({ user }) => user) };
}

/** Returns whether the role exists, which then stays until the commit; its changes follow each other. */
export function* hasRole(tenant: number, id: string): Command<boolean> {
  const role = yield* sql.get`
    select 1 from roles where tenant = ${tenant} and id = ${id} ${forNoKeyUpdate}`;
  return role !== undefined;
}
