import { Type, type Static } from 'typebox';
import { closed, component, sentName } from './schema.ts';
import { carried, carriedNames, refused } from './carried-fields.ts';
import { fieldsQuery } from './fields.ts';
import { barePageOr, numberedPageQuery, totals } from './numbered-page.ts';
import { printableWithoutBlanks } from './text-patterns.ts';

/** RFC 6749 section 3.3: no spaces, which separate scopes in the claim `scope`. */
export const scopeValue = Type.String({
  minLength: 1,
  maxLength: 280,
  pattern: '^[\\x21\\x23-\\x5B\\x5D-\\x7E]*$',
  format: 'scope',
  description: 'A scope, without spaces',
});

const identifier = Type.String({
  minLength: 1,
  maxLength: 600,
  pattern: printableWithoutBlanks,
  format: 'api-identifier',
  description: 'Audience of the tokens for the API; never changes',
});

const name = 'Name of the API';

const scopeText = Type.String({ maxLength: 500, description: 'What the scope allows' });

const changeable = {
  name: sentName(200, name),
  scopes: Type.Array(closed({ value: scopeValue, description: Type.Optional(scopeText) }), {
    maxItems: 1000,
    description: 'Scopes of the API',
  }),
  enforce_policies: Type.Boolean({ description: 'Whether role-based access control is on' }),
  token_dialect: Type.Union([Type.Literal('access_token'), Type.Literal('access_token_authz')], {
    description: 'With access_token_authz permissions go into the token',
  }),
  token_lifetime: Type.Integer({
    minimum: 1,
    maximum: 2_592_000,
    description: 'Seconds that tokens for the API live',
  }),
};

const anyOf = Type.Partial(closed(changeable)).properties;

const signingSecret = refused('Leat signs tokens with keys of its own');

/** Body of a create. */
export const apiCreate = component('ResourceServerCreate', 'A new API', {
  identifier,
  ...anyOf,
  signing_secret: signingSecret,
  ...carried(carriedNames.api.create),
});

/** Body of an update: any subset. */
export const apiPatch = component('ResourceServerPatch', 'Changes of an API', {
  ...anyOf,
  signing_secret: signingSecret,
  ...carried(carriedNames.api.patch),
});

/** An API in responses. */
export const api = component('ResourceServer', 'An API that tokens are issued for', {
  id: Type.String({ description: 'Id of the API' }),
  identifier,
  ...changeable,
  // That of an API without a name is its identifier.
  name: Type.String({ description: name }),
  is_system: Type.Boolean({ description: 'True for the management API' }),
  ...carried(carriedNames.api.create),
});

/** Path of one API. */
export const apiParams = closed({
  id: Type.String({ description: 'Id of the API, or its identifier, percent-encoded' }),
});

/** Query of the list. */
export const apisQuery = closed({
  ...numberedPageQuery,
  ...fieldsQuery,
  identifiers: Type.Optional(
    Type.Array(Type.String({ description: 'Identifier of an API' }), {
      maxItems: 10,
      description: 'Only APIs with one of these identifiers; repeat the parameter for each',
    }),
  ),
});

/** Responses of the list. */
export const apis = barePageOr(api, { ...totals, resource_servers: Type.Array(api) });

export type ApiCreate = Static<typeof apiCreate>;
export type ApiPatch = Static<typeof apiPatch>;
export type ApiShown = Static<typeof api>;
