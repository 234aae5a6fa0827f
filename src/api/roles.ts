import type { RandomBytes } from '../core/clock.ts';
import { makeRoleId } from '../core/ids.ts';
import { nameForm } from '../core/name.ts';
import type { Role } from '../core/types.ts';
import {
  done,
  role,
  roleCreate,
  roleParams,
  rolePatch,
  roles,
  rolesQuery,
} from '../schemas/roles.ts';
import type { Store } from '../store/port/store.ts';
import { carriedNames } from '../schemas/carried-fields.ts';
import { carriedPart, carryOrThrow } from './carry.ts';
import type { JsonText } from './http/sliced-json.ts';
import { showFields } from './show-fields.ts';
import { noRole, orNotFound } from './not-found.ts';
import { noItems, numberedResponse, numberedPageOf } from './page.ts';
import { managementScopesOfRole } from './role-members.ts';
import { changedName, type NameField, sentName } from './sent-name.ts';
import { type Operation, operation } from './operation.ts';
import { conflict, type Problem } from './http/problem.ts';

export interface RoleDeps {
  readonly store: Pick<Store, 'roles' | 'guarded' | 'recording'>;
  readonly random: RandomBytes;
}

const shared = { tag: 'Roles', lifecycle: 'Early Access' } as const;
const nameField: NameField = { property: 'name', description: 'Name of the role' };

/** Creates the operations of roles (docs/http-api.md#roles). */
export function roleOperations(deps: RoleDeps): Operation[] {
  return [listRoles(deps), createRole(deps), readRole(deps), updateRole(deps), deleteRole(deps)];
}

function listRoles({ store }: RoleDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listRoles',
    method: 'GET',
    path: '/roles',
    summary: 'List roles, oldest first',
    scopes: ['read:roles'],
    query: rolesQuery,
    success: 200,
    response: roles,
    handle: async ({ tenant, query }) => {
      const page = {
        ...numberedPageOf(query),
        nameFilter: query.name_filter && nameForm(query.name_filter),
      };
      // Every role is one of the tenant.
      const isNone = query.type === 'organization' || query.owner_id !== undefined;
      const { items, total } = isNone ? noItems : await store.roles.list(tenant.id, page);
      return { body: numberedResponse('roles', { items: items.map(show), total }, query) };
    },
  });
}

function createRole({ store, random }: RoleDeps): Operation {
  return operation({
    ...shared,
    operationId: 'createRole',
    method: 'POST',
    path: '/roles',
    summary: 'Create a role',
    scopes: ['create:roles'],
    body: { schema: roleCreate, required: true },
    success: 200,
    response: role,
    errors: [409],
    handle: async ({ tenant, body, now, entry }) => {
      const { description = '' } = body;
      const name = sentName(body.name, nameField);
      const id = makeRoleId(random);
      const carriedJson = carryOrThrow(undefined, body, carriedNames.role.create);
      const requested = { tenant: tenant.id, id, name, description, carriedJson, createdAt: now };
      const result = await store.recording(entry(id)).roles.create(requested);
      if ('refused' in result) throw roleExists();
      return { body: show(result.created) };
    },
  });
}

function readRole({ store }: RoleDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readRole',
    method: 'GET',
    path: '/roles/:id',
    summary: 'Read a role',
    scopes: ['read:roles'],
    params: roleParams,
    success: 200,
    response: role,
    errors: [404],
    handle: async ({ tenant, params }) => {
      const found = orNotFound(await store.roles.get(tenant.id, params.id), noRole, params.id);
      return { body: show(found) };
    },
  });
}

function updateRole(deps: RoleDeps): Operation {
  return operation({
    ...shared,
    operationId: 'updateRole',
    method: 'PATCH',
    path: '/roles/:id',
    summary: 'Update a role',
    description:
      'Any subset of the fields. A role with scopes of the management API only if the token of the request has them too.',
    scopes: ['update:roles'],
    params: roleParams,
    body: { schema: rolePatch, required: true },
    success: 200,
    response: role,
    errors: [404, 409],
    handle: async ({ tenant, params, body, guard, entry }) => {
      const required = await managementScopesOfRole(deps, tenant, params.id);
      const caller = guard();
      const { roles: guarded } = deps.store.guarded(caller, entry(params.id));
      const result = await guarded.update(tenant.id, params.id, (before) => {
        const { description = before.description } = body;
        const name = changedName(before.name, body.name, nameField);
        const isChanged = name !== before.name || description !== before.description;
        // People recognize what they give to clients by its name.
        if (isChanged) caller.requireScopes(required);
        return { ...before, name, description };
      });
      if ('refused' in result)
        throw result.refused === 'unknown' ? noRole(params.id) : roleExists();
      return { body: show(result.updated) };
    },
  });
}

function deleteRole(deps: RoleDeps): Operation {
  return operation({
    ...shared,
    operationId: 'deleteRole',
    method: 'DELETE',
    path: '/roles/:id',
    summary: 'Delete a role',
    description:
      'Also 200 if the role does not exist. One with scopes of the management API only if the token of the request has them too. Takes effect with the next token.',
    scopes: ['delete:roles'],
    params: roleParams,
    success: 200,
    response: done,
    handle: async ({ tenant, params, guard, entry }) => {
      const required = await managementScopesOfRole(deps, tenant, params.id);
      await deps.store
        .guarded(guard(required), entry(params.id))
        .roles.delete(tenant.id, params.id);
      return { body: {} };
    },
  });
}

function show({ id, name, description, carriedJson }: Role): JsonText {
  return showFields([JSON.stringify({ id, name, description }), ...carriedPart(carriedJson)]);
}

function roleExists(): Problem {
  return conflict('The role already exists.', 'already_exists');
}
