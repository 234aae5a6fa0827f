import { Type } from 'typebox';
import { scopeValue } from './apis.ts';
import { closed, component, next, pageQuery } from './schema.ts';

const clientId = Type.String({ description: 'Id of the client' });
const audience = Type.String({ description: 'Identifier of the API' });
const scope = Type.Array(scopeValue, {
  maxItems: 1000,
  uniqueItems: true,
  description: 'Scopes that the client may ask for',
});

/** Body of a create. */
export const grantCreate = component('ClientGrantCreate', 'A new client grant', {
  client_id: clientId,
  audience,
  scope: Type.Optional(scope),
});

/** Body of an update. */
export const grantPatch = component('ClientGrantPatch', 'Changes of a client grant', {
  scope: Type.Optional(scope),
});

/** A client grant in responses. */
export const grant = component('ClientGrant', 'The scopes of an API that a client may request', {
  id: Type.String({ description: 'Id of the grant' }),
  client_id: clientId,
  audience,
  scope,
});

/** Path of one client grant. */
export const grantParams = closed({ id: Type.String({ description: 'Id of the grant' }) });

/** Query of the list. */
export const grantsQuery = closed({
  ...pageQuery,
  client_id: Type.Optional(clientId),
  audience: Type.Optional(audience),
});

/** A page of client grants. */
export const grants = closed({ client_grants: Type.Array(grant), next });
