/**
 * Orders of users that an index has. Users with the same value follow in the order of their ids, in
 * the same direction: then a page is read from the index alone, even where thousands share a value.
 */
const orders: ReadonlyMap<string, readonly [ascending: string, descending: string]> = new Map([
  ['user_id', ['id', 'id desc']],
  ['created_at', ['created_at, id', 'created_at desc, id desc']],
  ['updated_at', ['updated_at, id', 'updated_at desc, id desc']],
  ['email', ['email, id', 'email desc, id desc']],
  ['username', ['username nulls first, id', 'username desc nulls last, id desc']],
]);

/** Returns an order that an index has, as SQL; `undefined` for any other field. */
export function indexedOrder(
  field: string,
  { descending }: { readonly descending: boolean },
): string | undefined {
  return orders.get(field)?.[descending ? 1 : 0];
}
