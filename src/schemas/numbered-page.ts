import { Type, type TArray, type TProperties, type TSchema, type TUnion } from 'typebox';
import { closed } from './schema.ts';

/** Query of a list that is paged by number. */
export const numberedPageQuery = {
  page: Type.Optional(Type.Integer({ minimum: 0, default: 0, description: 'Page, from 0' })),
  per_page: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 100, default: 50, description: 'Items of a page' }),
  ),
  include_totals: Type.Optional(
    Type.Boolean({ default: false, description: 'Whether the answer tells how many there are' }),
  ),
};

/** The position of a page in its list. */
export const totals = {
  start: Type.Integer({ description: 'Items before the page' }),
  limit: Type.Integer({ description: 'The per_page of the query' }),
  total: Type.Integer({ description: 'Items of the whole list' }),
  length: Type.Integer({ description: 'Items of this page' }),
};

/** Returns the responses of a list: the bare items, or with `include_totals` these properties. */
export function barePageOr<S extends TSchema, P extends TProperties>(
  item: S,
  properties: P,
): TUnion<[TArray<S>, ReturnType<typeof closed<P>>]> {
  return Type.Union([Type.Array(item), closed(properties)]);
}
