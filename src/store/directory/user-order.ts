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

/** A statement that reads one page: its values are tenant, limit and offset. */
export interface OrderedPage {
  readonly strings: TemplateStringsArray;
  readonly order: string;
}

const pages = new Map(
  [...orders].map(([field, directions]) => [field, directions.map(pageIn)] as const),
);

/** Returns the statement for an order that an index has, and `undefined` for any other field. */
export function orderedPage(
  field: string,
  { descending }: { readonly descending: boolean },
): OrderedPage | undefined {
  return pages.get(field)?.[descending ? 1 : 0];
}

/** Orders are from this file, values are bound: what a tagged template would be. */
function pageIn(order: string): OrderedPage {
  const parts = [
    `select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = `,
    ` order by ${order} limit `,
    ' offset ',
    '',
  ];
  return { strings: Object.assign(parts, { raw: parts }), order };
}
