import { Type, type Static, type TArray, type TObject, type TSchema } from 'typebox';
import { carried, carriedNames, refused } from './carried-fields.ts';
import { fieldsQuery } from './fields.ts';
import {
  accepted,
  closed,
  component,
  extensible,
  next,
  pageQuery,
  sentName,
  unsupported,
} from './schema.ts';
import { barePageOr, numberedPageQuery, totals } from './numbered-page.ts';

/** 32 hexadecimal digits; of a client of an external issuer, the id that the issuer uses. */
const clientId = Type.String({
  minLength: 1,
  maxLength: 255,
  pattern: '^[\\x20-\\x7E]*$',
  format: 'client-id',
  description: 'Id of the client',
});

const issuer = Type.String({
  maxLength: 2048,
  description: 'External issuer of the tokens of this client, one of the trusted ones',
});

const name = 'Name of the client';
const nameSent = sentName(255, name);

const global = Type.Boolean({ description: 'Whether the client may use the management API' });

/** RFC 7517 sections 4 and 9.3: the common fields of a public key for signatures. */
const keyFields = {
  kid: Type.Optional(Type.String({ minLength: 1, maxLength: 255, description: 'Id of the key' })),
  use: Type.Optional(Type.Literal('sig', { description: 'What the key is for: sig' })),
  key_ops: Type.Optional(
    Type.Array(Type.Literal('verify', { description: 'verify' }), {
      minItems: 1,
      maxItems: 1,
      description: 'What the key is for: verify',
    }),
  ),
  ext: Type.Optional(Type.Boolean({ description: 'Whether the key is extractable' })),
};

const number = (description: string): ReturnType<typeof Type.String> =>
  Type.String({
    minLength: 1,
    maxLength: 4096,
    pattern: '^[A-Za-z0-9_-]+$',
    format: 'base64url',
    description,
  });

/** Fields that are not listed are left out (RFC 7517 section 4), except those of a private key: 400. */
export const publicKey = Type.Union(
  [
    extensible({
      kty: Type.Literal('RSA', { description: 'Kind of key: RSA or EC' }),
      n: number('Modulus'),
      e: number('Exponent'),
      alg: Type.Optional(
        Type.Union([Type.Literal('RS256'), Type.Literal('PS256')], {
          description: 'Signature algorithm: RS256 or PS256',
        }),
      ),
      ...keyFields,
    }),
    extensible({
      kty: Type.Literal('EC', { description: 'Kind of key: RSA or EC' }),
      crv: Type.Literal('P-256', { description: 'Curve: P-256' }),
      x: number('Coordinate x'),
      y: number('Coordinate y'),
      alg: Type.Optional(Type.Literal('ES256', { description: 'Signature algorithm: ES256' })),
      ...keyFields,
    }),
  ],
  { description: 'A public key' },
);

const keySet = <K extends TSchema>(key: K): TObject<{ keys: TArray<K> }> =>
  extensible(
    { keys: Type.Array(key, { minItems: 1, maxItems: 20, description: 'Public keys' }) },
    { description: 'Public keys that prove private_key_jwt' },
  );

const jwks = keySet(publicKey);

/** RFC 7517 section 5: the handler leaves out the keys that Leat cannot use, and refuses a set of such alone. */
const jwksSent = keySet(
  Type.Union([...publicKey.anyOf, extensible({}, { description: 'Any other key: left out' })], {
    description: 'A public key; one that cannot verify an assertion is left out',
  }),
);

/** Body of a create. */
export const clientCreate = component(
  'ClientCreate',
  'A new client; client_id and issuer are sent together or not at all',
  {
    client_id: Type.Optional(clientId),
    issuer: Type.Optional(issuer),
    name: nameSent,
    global: Type.Optional(global),
    jwks: Type.Optional(jwksSent),
    ...carried(carriedNames.client.create),
  },
);

/** Body of an update: any subset. */
export const clientPatch = component('ClientPatch', 'Changes of a client', {
  name: Type.Optional(nameSent),
  global: Type.Optional(global),
  jwks: Type.Optional(
    Type.Union([jwksSent, Type.Null()], {
      description: 'Public keys that prove private_key_jwt; null removes them',
    }),
  ),
  client_secret: refused('Leat makes secrets: POST /clients/{client_id}/rotate-secret returns one'),
  ...carried(carriedNames.client.patch),
});

const shown = {
  client_id: clientId,
  issuer: Type.Optional(issuer),
  name: Type.String({ description: name }),
  global,
};

/** A client in responses. */
export const client = component('Client', 'A client', {
  ...shown,
  jwks: Type.Optional(jwks),
  ...carried(carriedNames.client.create),
});

/** A client in responses of operations that create a secret. */
export const clientWithSecret = component('ClientWithSecret', 'A client with its secret', {
  ...shown,
  client_secret: Type.Optional(
    Type.String({ description: 'Shown in this response only; stored as a hash' }),
  ),
  jwks: Type.Optional(jwks),
  ...carried(carriedNames.client.create),
});

/** Path of one client. */
export const clientParams = closed({
  client_id: Type.String({ description: 'Id of the client, percent-encoded' }),
});

/** Query of the list. */
export const clientsQuery = closed({
  ...numberedPageQuery,
  ...pageQuery,
  ...fieldsQuery,
  is_global: Type.Optional(Type.Boolean({ description: 'Only clients with this global' })),
  is_first_party: unsupported('Leat does not select clients by carried fields'),
  app_type: unsupported('Leat does not select clients by carried fields'),
  external_client_id: unsupported('Leat does not select clients by carried fields'),
  search_engine: accepted('Leat does not search clients'),
  q: unsupported('Leat does not search clients'),
});

/** Responses of the list. */
export const clients = Type.Union([
  barePageOr(client, { ...totals, clients: Type.Array(client) }),
  closed({ clients: Type.Array(client), next }),
]);

export type ClientCreate = Static<typeof clientCreate>;
export type ClientsQuery = Static<typeof clientsQuery>;
export type ClientPatch = Static<typeof clientPatch>;
export type KeySetSent = Static<typeof jwksSent>;
export type ClientShown = Static<typeof client>;
