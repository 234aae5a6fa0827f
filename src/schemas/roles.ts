import { Type, type Static } from 'typebox';
import { scopeValue } from './apis.ts';
import { carried, carriedAs, carriedNames, refused } from './carried-fields.ts';
import { barePageOr, numberedPageQuery, totals } from './numbered-page.ts';
import { closed, component, next, pageQuery, sentName } from './schema.ts';

/** Permissions, clients and users that one request can add or remove. */
const ITEMS_MAX = 50;

const name = 'Name of the role';
const nameSent = sentName(255, name);
const description = Type.String({ maxLength: 255, description: 'What the role is for' });

const carriedByRole = carried(carriedNames.role.create, {
  type: carriedAs('Leat has roles of the tenant only', 'tenant'),
});

/** Body of a create. */
export const roleCreate = component('RoleCreate', 'A new role', {
  name: nameSent,
  description: Type.Optional(description),
  owner_id: refused('Leat has no organizations, and roles of the tenant only'),
  ...carriedByRole,
});

/** Body of an update: any subset. */
export const rolePatch = component('RolePatch', 'Changes of a role', {
  name: Type.Optional(nameSent),
  description: Type.Optional(description),
});

/** A role in responses. */
export const role = component('Role', 'A group of permissions', {
  id: Type.String({ description: 'Id of the role' }),
  name: Type.String({ description: name }),
  description,
  ...carriedByRole,
});

/** Path of one role. */
export const roleParams = closed({ id: Type.String({ description: 'Id of the role' }) });

/** Query of the list of roles. */
export const rolesQuery = closed({
  ...numberedPageQuery,
  name_filter: Type.Optional(
    Type.String({
      maxLength: 255,
      description: 'Only roles whose name contains this text, in any case of a to z',
    }),
  ),
  type: Type.Optional(
    Type.Union([Type.Literal('tenant'), Type.Literal('organization')], {
      description: 'Every role is one of the tenant',
    }),
  ),
  owner_id: Type.Optional(Type.String({ description: 'No role has an owner' })),
});

/** Query of the permissions and of the clients of a role. */
export const roleItemsQuery = closed(numberedPageQuery);

/** Responses of the list of roles. */
export const roles = barePageOr(role, { ...totals, roles: Type.Array(role) });

/** One permission of a role. */
export const permission = component('Permission', 'A scope of an API', {
  resource_server_identifier: Type.String({
    minLength: 1,
    maxLength: 600,
    description: 'Identifier of the API',
  }),
  permission_name: scopeValue,
});

/** Responses of the list of permissions. */
export const permissions = barePageOr(permission, {
  ...totals,
  permissions: Type.Array(permission),
});

/** Body that adds or removes permissions. */
export const permissionsSent = component('RolePermissions', 'Permissions of a role', {
  permissions: Type.Array(permission, {
    minItems: 1,
    maxItems: ITEMS_MAX,
    description: 'Permissions to add or to remove',
  }),
});

const clientId = Type.String({ minLength: 1, maxLength: 255, description: 'Id of the client' });

/** Responses of the list of clients: their ids. */
export const roleClients = barePageOr(clientId, { ...totals, clients: Type.Array(clientId) });

/** Body that assigns a role to clients, or removes it from them. */
export const clientsSent = component('RoleClients', 'Clients that hold a role', {
  clients: Type.Array(clientId, {
    minItems: 1,
    maxItems: ITEMS_MAX,
    description: 'Ids of clients',
  }),
});

const userId = Type.String({ minLength: 1, maxLength: 300, description: 'Id of the user' });

/** Query of the list of users. */
export const roleUsersQuery = closed({ ...pageQuery, ...numberedPageQuery });

/**
 * A user of a role: an object with the id only, as the npm package `auth0` expects objects. Other fields
 * of a user require the scope read:users.
 */
const roleUser = closed({ user_id: userId });

/** A page of users. */
export const roleUsers = Type.Union([
  closed({ users: Type.Array(roleUser), next }),
  barePageOr(roleUser, { ...totals, users: Type.Array(roleUser) }),
]);

/** Body that assigns a role to users, or removes it from them. */
export const usersSent = component('RoleUsers', 'Users that hold a role', {
  users: Type.Array(userId, {
    minItems: 1,
    maxItems: ITEMS_MAX,
    description: 'Ids of users',
  }),
});

/** Response without data. */
export const done = closed({}, { description: 'An empty object' });

export type PermissionSent = Static<typeof permission>;
export type RoleShown = Static<typeof role>;
