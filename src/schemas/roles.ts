import { Type, type Static } from 'typebox';
import { scopeValue } from './apis.ts';
import { barePageOr, numberedPageQuery, totals } from './numbered-page.ts';
import { closed, named, next, pageQuery } from './schema.ts';

/** Permissions, clients and users that one request can add or remove. */
const ITEMS_MAX = 50;

const name = Type.String({ minLength: 1, maxLength: 50, description: 'Name of the role' });
const description = Type.String({ maxLength: 255, description: 'What the role is for' });

/** Body of a create. */
export const roleCreate = named(
  'RoleCreate',
  closed({ name, description: Type.Optional(description) }, { description: 'A new role' }),
);

/** Body of an update: any subset. */
export const rolePatch = named(
  'RolePatch',
  closed(
    { name: Type.Optional(name), description: Type.Optional(description) },
    { description: 'Changes of a role' },
  ),
);

/** A role in responses. */
export const role = named(
  'Role',
  closed(
    { id: Type.String({ description: 'Id of the role' }), name, description },
    { description: 'A group of permissions' },
  ),
);

/** Path of one role. */
export const roleParams = closed({ id: Type.String({ description: 'Id of the role' }) });

/** Query of the lists that are paged by number. */
export const rolesQuery = closed(numberedPageQuery);

/** Responses of the list of roles. */
export const roles = barePageOr(role, { ...totals, roles: Type.Array(role) });

/** One permission of a role. */
export const permission = named(
  'Permission',
  closed(
    {
      resource_server_identifier: Type.String({
        minLength: 1,
        maxLength: 600,
        description: 'Identifier of the API',
      }),
      permission_name: scopeValue,
    },
    { description: 'A scope of an API' },
  ),
);

/** Responses of the list of permissions. */
export const permissions = barePageOr(permission, {
  ...totals,
  permissions: Type.Array(permission),
});

/** Body that adds or removes permissions. */
export const permissionsSent = named(
  'RolePermissions',
  closed(
    {
      permissions: Type.Array(permission, {
        minItems: 1,
        maxItems: ITEMS_MAX,
        description: 'Permissions to add or to remove',
      }),
    },
    { description: 'Permissions of a role' },
  ),
);

const clientId = Type.String({ minLength: 1, maxLength: 255, description: 'Id of the client' });

/** Responses of the list of clients: their ids. */
export const roleClients = barePageOr(clientId, { ...totals, clients: Type.Array(clientId) });

/** Body that assigns a role to clients, or removes it from them. */
export const clientsSent = named(
  'RoleClients',
  closed(
    {
      clients: Type.Array(clientId, {
        minItems: 1,
        maxItems: ITEMS_MAX,
        description: 'Ids of clients',
      }),
    },
    { description: 'Clients that hold a role' },
  ),
);

const userId = Type.String({ minLength: 1, maxLength: 300, description: 'Id of the user' });

/** Query of the list of users. */
export const roleUsersQuery = closed(pageQuery);

/**
 * A page of users: objects with the id only, as the npm package `auth0` expects objects. Other fields of
 * a user require the scope read:users.
 */
export const roleUsers = closed({ users: Type.Array(closed({ user_id: userId })), next });

/** Body that assigns a role to users, or removes it from them. */
export const usersSent = named(
  'RoleUsers',
  closed(
    {
      users: Type.Array(userId, {
        minItems: 1,
        maxItems: ITEMS_MAX,
        description: 'Ids of users',
      }),
    },
    { description: 'Users that hold a role' },
  ),
);

/** Response without data. */
export const done = closed({}, { description: 'An empty object' });

export type PermissionSent = Static<typeof permission>;
