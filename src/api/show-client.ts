import type { Client } from '../core/types.ts';
import type { FieldsQuery } from '../schemas/fields.ts';
import type { JsonText } from './http/sliced-json.ts';
import { carriedPart } from './carry.ts';
import { showFields } from './show-fields.ts';

/** Returns the client with the fields that the query selects; `secret` is one that was just made. */
export function showClient(
  { id, issuer, name, global, jwks, carriedJson }: Client,
  { query, secret }: { readonly query?: FieldsQuery; readonly secret?: string | undefined } = {},
): JsonText {
  const parts = [
    JSON.stringify({ client_id: id, issuer, name, global }),
    ...(jwks === undefined ? [] : [`{"jwks":${jwks}}`]),
    ...carriedPart(carriedJson),
    ...(secret === undefined ? [] : [JSON.stringify({ client_secret: secret })]),
  ];
  return showFields(parts, query);
}
