/**
 * Every scope of the management API (docs/http-api.md#scopes), in documented order. A bootstrap
 * client is granted all of them.
 */
export const managementScopes: readonly string[] = [
  ...scopesOf('event_streams', 'create', 'read', 'update', 'delete'),
  ...scopesOf('event_deliveries', 'read', 'update'),
  ...scopesOf('events', 'create', 'read'),
  ...scopesOf('users', 'create', 'read', 'update', 'delete'),
  ...scopesOf('actions', 'read'),
  ...scopesOf('clients', 'create', 'read', 'update', 'delete'),
  ...scopesOf('resource_servers', 'create', 'read', 'update', 'delete'),
  ...scopesOf('client_grants', 'create', 'read', 'update', 'delete'),
  ...scopesOf('roles', 'create', 'read', 'update', 'delete'),
  ...scopesOf('role_members', 'create', 'read', 'delete'),
  ...scopesOf('logs', 'read'),
];

function scopesOf(noun: string, ...verbs: readonly string[]): string[] {
  return verbs.map((verb) => `${verb}:${noun}`);
}
