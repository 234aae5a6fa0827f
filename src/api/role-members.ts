import { managementApiId, type Permission, type Tenant } from '../core/types.ts';
import {
  clientsSent,
  done,
  permissions,
  type PermissionSent,
  permissionsSent,
  roleClients,
  roleParams,
  roleItemsQuery,
  roleUsers,
  roleUsersQuery,
  usersSent,
} from '../schemas/roles.ts';
import type { Store } from '../store/port/store.ts';
import { apiOf, apisOf, type ApiLookupDeps, audiencesOf } from './api-lookup.ts';
import { firstAbsent, noApi, noClient, noRole, noUser, orNotFound } from './not-found.ts';
import { isNumbered, numberedResponse, numberedPageOf, nextOf, pageOf } from './page.ts';
import { type Operation, operation } from './operation.ts';
import { badBody, quoted } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';

export interface RoleMemberDeps {
  readonly store: Pick<Store, 'roles' | 'apis' | 'users' | 'clients' | 'guarded' | 'recording'>;
  readonly settings: Pick<ApiSettings, 'plainHttp' | 'managementTokenSeconds' | 'limits'>;
}

const shared = {
  tag: 'Roles',
  lifecycle: 'Early Access',
  params: roleParams,
} as const;

/** Creates the operations of what roles contain (docs/http-api.md#role-permissions). */
export function roleMemberOperations(deps: RoleMemberDeps): Operation[] {
  return [
    listPermissions(deps),
    addPermissions(deps),
    removePermissions(deps),
    listUsers(deps),
    addUsers(deps),
    removeUsers(deps),
    listClients(deps),
    addClients(deps),
    removeClients(deps),
  ];
}

function listPermissions(deps: RoleMemberDeps): Operation {
  const { roles } = deps.store;
  return operation({
    ...shared,
    operationId: 'listRolePermissions',
    method: 'GET',
    path: '/roles/:id/permissions',
    summary: 'List the permissions of a role',
    scopes: ['read:roles'],
    query: roleItemsQuery,
    success: 200,
    response: permissions,
    errors: [404],
    handle: async ({ tenant, params, query }) => {
      await requireRole(deps, tenant, params.id);
      const page = numberedPageOf(query);
      const { items, total } = await roles.permissions(tenant.id, params.id, page);
      const shown = await showPermissions(deps, tenant, items);
      return { body: numberedResponse('permissions', { items: shown, total }, query) };
    },
  });
}

function addPermissions(deps: RoleMemberDeps): Operation {
  return operation({
    ...shared,
    operationId: 'addRolePermissions',
    method: 'POST',
    path: '/roles/:id/permissions',
    summary: 'Add permissions to a role',
    description:
      'Scopes of the management API only if the token of the request has them too. Takes effect with the next token.',
    scopes: ['update:roles'],
    body: { schema: permissionsSent, required: true },
    success: 201,
    response: done,
    errors: [404],
    handle: async ({ tenant, params, body, guard, entry }) => {
      const added = await permissionsOf(deps, tenant, body.permissions, { mustExist: true });
      const { roles } = deps.store.guarded(
        guard(managementScopesOf(added)),
        entry(params.id, ...apiIdsOf(added)),
      );
      const result = await roles.addPermissions(tenant.id, params.id, added);
      if (result === 'unknown_role') throw noRole(params.id);
      if (result !== 'added') {
        const audiences = body.permissions.map((item) => item.resource_server_identifier);
        throw noApi(await firstAbsent(audiences, (audience) => apiOf(deps, tenant, audience)));
      }
      return { body: {} };
    },
  });
}

function removePermissions(deps: RoleMemberDeps): Operation {
  return operation({
    ...shared,
    operationId: 'removeRolePermissions',
    method: 'DELETE',
    path: '/roles/:id/permissions',
    summary: 'Remove permissions from a role',
    description:
      'Also 204 if the role does not have them. Scopes of the management API only if the token of the request has them too. Takes effect with the next token.',
    scopes: ['update:roles'],
    body: { schema: permissionsSent, required: true },
    success: 204,
    errors: [404],
    handle: async ({ tenant, params, body, guard, entry }) => {
      const removed = await permissionsOf(deps, tenant, body.permissions, { mustExist: false });
      const { roles } = deps.store.guarded(
        guard(managementScopesOf(removed)),
        entry(params.id, ...apiIdsOf(removed)),
      );
      if (!(await roles.removePermissions(tenant.id, params.id, removed))) {
        throw noRole(params.id);
      }
      return {};
    },
  });
}

function listUsers(deps: RoleMemberDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listRoleUsers',
    method: 'GET',
    path: '/roles/:id/users',
    summary: 'List the users with a role, by id',
    scopes: ['read:role_members'],
    query: roleUsersQuery,
    success: 200,
    response: roleUsers,
    errors: [404],
    handle: async ({ tenant, params, query }) => {
      const { roles } = deps.store;
      const page = pageOf(query, deps.settings.limits, isUserId);
      await requireRole(deps, tenant, params.id);
      if (isNumbered(query)) {
        const { items, total } = await roles.users(tenant.id, params.id, numberedPageOf(query));
        return { body: numberedResponse('users', { items: items.map(showUser), total }, query) };
      }
      const { items, next } = await roles.usersFrom(tenant.id, params.id, page);
      return { body: { users: items.map(showUser), ...nextOf(next) } };
    },
  });
}

function addUsers({ store }: RoleMemberDeps): Operation {
  return operation({
    ...shared,
    operationId: 'addRoleUsers',
    method: 'POST',
    path: '/roles/:id/users',
    summary: 'Assign a role to users',
    scopes: ['create:role_members'],
    body: { schema: usersSent, required: true },
    success: 200,
    response: done,
    errors: [404],
    handle: async ({ tenant, params, body, entry }) => {
      const recording = store.recording(entry(params.id, ...body.users));
      const result = await recording.roles.addUsers(tenant.id, params.id, body.users);
      if (result === 'unknown_role') throw noRole(params.id);
      if (result !== 'added') {
        throw noUser(await firstAbsent(body.users, (id) => store.users.get(tenant.id, id)));
      }
      return { body: {} };
    },
  });
}

function removeUsers({ store }: RoleMemberDeps): Operation {
  return operation({
    ...shared,
    operationId: 'removeRoleUsers',
    method: 'DELETE',
    path: '/roles/:id/users',
    summary: 'Remove a role from users',
    description: 'Also 204 if they do not have it.',
    extension: true,
    scopes: ['delete:role_members'],
    body: { schema: usersSent, required: true },
    success: 204,
    errors: [404],
    handle: async ({ tenant, params, body, entry }) => {
      // The store adds the ids that were removed: others may be anything.
      const recording = store.recording(entry(params.id));
      if (!(await recording.roles.removeUsers(tenant.id, params.id, body.users))) {
        throw noRole(params.id);
      }
      return {};
    },
  });
}

function listClients(deps: RoleMemberDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listRoleClients',
    method: 'GET',
    path: '/roles/:id/clients',
    summary: 'List the clients with a role, by id',
    extension: true,
    scopes: ['read:role_members'],
    query: roleItemsQuery,
    success: 200,
    response: roleClients,
    errors: [404],
    handle: async ({ tenant, params, query }) => {
      await requireRole(deps, tenant, params.id);
      const page = numberedPageOf(query);
      const listed = await deps.store.roles.clients(tenant.id, params.id, page);
      return { body: numberedResponse('clients', listed, query) };
    },
  });
}

function addClients(deps: RoleMemberDeps): Operation {
  return operation({
    ...shared,
    operationId: 'addRoleClients',
    method: 'POST',
    path: '/roles/:id/clients',
    summary: 'Assign a role to clients',
    description:
      'A role with scopes of the management API only if the token of the request has them too. Takes effect with the next token.',
    extension: true,
    scopes: ['create:role_members'],
    body: { schema: clientsSent, required: true },
    success: 200,
    response: done,
    errors: [404],
    handle: async ({ tenant, params, body, guard, entry }) => {
      const required = await managementScopesOfRole(deps, tenant, params.id);
      const { roles } = deps.store.guarded(guard(required), entry(params.id, ...body.clients));
      const result = await roles.addClients(tenant.id, params.id, body.clients);
      if (result === 'unknown_role') throw noRole(params.id);
      if (result !== 'added') {
        throw noClient(
          await firstAbsent(body.clients, (id) => deps.store.clients.get(tenant.id, id)),
        );
      }
      return { body: {} };
    },
  });
}

function removeClients(deps: RoleMemberDeps): Operation {
  return operation({
    ...shared,
    operationId: 'removeRoleClients',
    method: 'DELETE',
    path: '/roles/:id/clients',
    summary: 'Remove a role from clients',
    description:
      'Also 204 if they do not have it. A role with scopes of the management API only if the token of the request has them too. Takes effect with the next token.',
    extension: true,
    scopes: ['delete:role_members'],
    body: { schema: clientsSent, required: true },
    success: 204,
    errors: [404],
    handle: async ({ tenant, params, body, guard, entry }) => {
      const required = await managementScopesOfRole(deps, tenant, params.id);
      const { roles } = deps.store.guarded(guard(required), entry(params.id));
      if (!(await roles.removeClients(tenant.id, params.id, body.clients))) {
        throw noRole(params.id);
      }
      return {};
    },
  });
}

async function requireRole({ store }: RoleMemberDeps, tenant: Tenant, id: string): Promise<void> {
  orNotFound(await store.roles.get(tenant.id, id), noRole, id);
}

/** Returns the permissions with the ids of their APIs. With `mustExist`, each must be a scope of its API. */
async function permissionsOf(
  deps: ApiLookupDeps,
  tenant: Tenant,
  sent: readonly PermissionSent[],
  { mustExist }: { readonly mustExist: boolean },
): Promise<Permission[]> {
  const found: Permission[] = [];
  const audiences = sent.map((item) => item.resource_server_identifier);
  const apis = await apisOf(deps, tenant, audiences);
  for (const [index, item] of sent.entries()) {
    const { resource_server_identifier: audience, permission_name: name } = item;
    const api = orNotFound(apis.get(audience), noApi, audience);
    if (mustExist && !api.scopes.some(({ value }) => value === name)) {
      const reason = `The API has no scope ${quoted(name)}: add it to the API first`;
      throw badBody(reason, `permissions.${index}.permission_name`, 'A scope, without spaces');
    }
    found.push({ api: api.id, name });
  }
  return found;
}

async function showPermissions(
  deps: ApiLookupDeps,
  tenant: Tenant,
  items: readonly Permission[],
): Promise<PermissionSent[]> {
  const ids = items.map(({ api }) => api);
  const audiences = await audiencesOf(deps, tenant, ids);
  return items.flatMap(({ api, name }) => {
    const audience = audiences.get(api);
    if (audience === undefined) return [];
    return [{ resource_server_identifier: audience, permission_name: name }];
  });
}

function apiIdsOf(named: readonly Permission[]): Set<string> {
  return new Set(named.map(({ api }) => api));
}

function managementScopesOf(permissionsHeld: readonly Permission[]): string[] {
  return permissionsHeld.filter(({ api }) => api === managementApiId).map(({ name }) => name);
}

/** Returns all scopes of the management API that a role has, to compare with those of the caller. */
export async function managementScopesOfRole(
  { store }: { readonly store: Pick<Store, 'roles'> },
  tenant: Tenant,
  role: string,
): Promise<string[]> {
  const perPage = 100;
  const scopes: string[] = [];
  for (let page = 0; ; page += 1) {
    const { items } = await store.roles.permissions(tenant.id, role, { page, perPage });
    scopes.push(...managementScopesOf(items));
    if (items.length < perPage) return scopes;
  }
}

function showUser(id: string): object {
  return { user_id: id };
}

function isUserId(key: string): boolean {
  return key !== '';
}
