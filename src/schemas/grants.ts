import { Type, type Static } from 'typebox';
import { scopeValue } from './apis.ts';
import { carried, carriedAs, carriedNames, refused } from './carried-fields.ts';
import { barePageOr, numberedPageQuery, totals } from './numbered-page.ts';
import { closed, component, next, pageQuery, unsupported } from './schema.ts';

const clientId = Type.String({ description: 'Id of the client' });
const audience = Type.String({ description: 'Identifier of the API' });
const scope = Type.Array(scopeValue, {
  maxItems: 1000,
  uniqueItems: true,
  description: 'Scopes that the client may ask for',
});

/** With other values a grant would allow more in Leat than it says. */
const narrower = {
  subject_type: carriedAs('Leat has grants of clients only', 'client'),
  organization_usage: carriedAs('Leat has no organizations', 'deny', 'allow'),
};

/** Body of a create. */
export const grantCreate = component('ClientGrantCreate', 'A new client grant', {
  client_id: clientId,
  audience,
  scope: Type.Optional(scope),
  default_for: refused('Leat has grants of one client each'),
  ...carried(carriedNames.grant.create, narrower),
});

/** Body of an update. */
export const grantPatch = component('ClientGrantPatch', 'Changes of a client grant', {
  scope: Type.Optional(scope),
  ...carried(carriedNames.grant.patch, narrower),
});

/** A client grant in responses. */
export const grant = component('ClientGrant', 'The scopes of an API that a client may request', {
  id: Type.String({ description: 'Id of the grant' }),
  client_id: clientId,
  audience,
  scope,
  ...carried(carriedNames.grant.create, narrower),
});

/** Path of one client grant. */
export const grantParams = closed({ id: Type.String({ description: 'Id of the grant' }) });

/** Query of the list. */
export const grantsQuery = closed({
  ...pageQuery,
  ...numberedPageQuery,
  client_id: Type.Optional(clientId),
  audience: Type.Optional(audience),
  subject_type: Type.Optional(
    Type.Union([Type.Literal('client'), Type.Literal('user')], {
      description: 'Every grant is one of a client',
    }),
  ),
  allow_any_organization: unsupported('Leat does not select grants by carried fields'),
  default_for: unsupported('Leat has grants of one client each'),
});

/** Responses of the list. */
export const grants = Type.Union([
  closed({ client_grants: Type.Array(grant), next }),
  barePageOr(grant, { ...totals, client_grants: Type.Array(grant) }),
]);

export type GrantCreate = Static<typeof grantCreate>;
export type GrantsQuery = Static<typeof grantsQuery>;
export type GrantShown = Static<typeof grant>;
