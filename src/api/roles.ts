import type { RandomBytes } from '../core/clock.ts';
import { makeRoleId } from '../core/ids.ts';
import type { Role } from '../core/types.ts';
import { role, roleCreate, roleParams, rolePatch, roles, rolesQuery } from '../schemas/roles.ts';
import type { Store } from '../store/port/store.ts';
import { noRole, orNotFound } from './not-found.ts';
import { numberedResponse, numberedPageOf } from './page.ts';
import { type Operation, operation } from './operation.ts';
import { conflict, type Problem } from './http/problem.ts';

export interface RoleDeps {
  readonly store: Pick<Store, 'roles'>;
  readonly random: RandomBytes;
}

const tag = 'Roles';
const lifecycle = 'Early Access';

/** Creates the operations of roles (docs/http-api.md#roles). */
export function roleOperations(deps: RoleDeps): Operation[] {
  return [listRoles(deps), createRole(deps), readRole(deps), updateRole(deps), deleteRole(deps)];
}

function listRoles({ store }: RoleDeps): Operation {
  return operation({
    operationId: 'listRoles',
    method: 'GET',
    path: '/roles',
    summary: 'List roles, oldest first',
    tag,
    scopes: ['read:roles'],
    lifecycle,
    query: rolesQuery,
    success: 200,
    response: roles,
    errors: [400],
    handle: async ({ tenant, query }) => {
      const { items, total } = await store.roles.list(tenant.id, numberedPageOf(query));
      return { body: numberedResponse('roles', { items: items.map(show), total }, query) };
    },
  });
}

function createRole({ store, random }: RoleDeps): Operation {
  return operation({
    operationId: 'createRole',
    method: 'POST',
    path: '/roles',
    summary: 'Create a role',
    tag,
    scopes: ['create:roles'],
    lifecycle,
    body: { schema: roleCreate, required: true },
    success: 201,
    response: role,
    errors: [400, 409, 413, 415],
    handle: async ({ tenant, body, now }) => {
      const { name, description = '' } = body;
      const id = makeRoleId(random);
      const requested = { tenant: tenant.id, id, name, description, createdAt: now };
      const result = await store.roles.create(requested);
      if ('refused' in result) throw roleExists();
      return { body: show(result.created) };
    },
  });
}

function readRole({ store }: RoleDeps): Operation {
  return operation({
    operationId: 'readRole',
    method: 'GET',
    path: '/roles/:id',
    summary: 'Read a role',
    tag,
    scopes: ['read:roles'],
    lifecycle,
    params: roleParams,
    success: 200,
    response: role,
    errors: [400, 404],
    handle: async ({ tenant, params }) => {
      const found = orNotFound(await store.roles.get(tenant.id, params.id), noRole);
      return { body: show(found) };
    },
  });
}

function updateRole({ store }: RoleDeps): Operation {
  return operation({
    operationId: 'updateRole',
    method: 'PATCH',
    path: '/roles/:id',
    summary: 'Update a role',
    description: 'Any subset of the fields.',
    tag,
    scopes: ['update:roles'],
    lifecycle,
    params: roleParams,
    body: { schema: rolePatch, required: true },
    success: 200,
    response: role,
    errors: [400, 404, 409, 413, 415],
    handle: async ({ tenant, params, body }) => {
      const result = await store.roles.update(tenant.id, params.id, (before) => ({
        ...before,
        name: body.name ?? before.name,
        description: body.description ?? before.description,
      }));
      if ('refused' in result) throw result.refused === 'unknown' ? noRole() : roleExists();
      return { body: show(result.updated) };
    },
  });
}

function deleteRole({ store }: RoleDeps): Operation {
  return operation({
    operationId: 'deleteRole',
    method: 'DELETE',
    path: '/roles/:id',
    summary: 'Delete a role',
    description: 'Also 204 if the role does not exist. Takes effect with the next token.',
    tag,
    scopes: ['delete:roles'],
    lifecycle,
    params: roleParams,
    success: 204,
    errors: [400],
    handle: async ({ tenant, params }) => {
      await store.roles.delete(tenant.id, params.id);
      return {};
    },
  });
}

function show({ id, name, description }: Role): object {
  return { id, name, description };
}

function roleExists(): Problem {
  return conflict('The role already exists.', 'already_exists');
}
