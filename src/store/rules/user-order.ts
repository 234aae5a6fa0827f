/**
 * Orders of users that an index has, as both engines write them. Users of one value follow in the
 * order of their ids, in the same direction: then a page is read from the index alone, also where
 * thousands have the same value.
 */
const orders: ReadonlyMap<string, readonly [ascending: string, descending: string]> = new Map([
  ['user_id', ['id', 'id desc']],
  ['created_at', ['created_at, id', 'created_at desc, id desc']],
  ['updated_at', ['updated_at, id', 'updated_at desc, id desc']],
  ['email', ['email, id', 'email desc, id desc']],
  ['username', ['username nulls first, id', 'username desc nulls last, id desc']],
]);

/** A statement that reads one page: its values are tenant, limit and offset. */
type PageStatement = TemplateStringsArray;

const statements = new Map(
  [...orders].map(([field, directions]) => [field, directions.map(pageStatement)] as const),
);

const statementsWithin = new Map(
  [...orders].map(([field, directions]) => [field, directions.map(statementWithin)] as const),
);

/** The statement for an order that an index has; `undefined` for any other field. */
export function orderedPage(
  field: string,
  { descending }: { readonly descending: boolean },
): PageStatement | undefined {
  return statements.get(field)?.[descending ? 1 : 0];
}

/**
 * The same where the engine sends a page as a whole: profiles are null when all of them together are
 * larger than the first value of the statement, a number of bytes.
 */
export function orderedPageWithin(
  field: string,
  { descending }: { readonly descending: boolean },
): PageStatement | undefined {
  return statementsWithin.get(field)?.[descending ? 1 : 0];
}

/** Names are of this file, values are bound: what a tagged template would be. */
function pageStatement(order: string): PageStatement {
  const parts = [
    `select id, connection, email, username, password_hash, profile, created_at, updated_at
    from users where tenant = `,
    ` order by ${order} limit `,
    ' offset ',
    '',
  ];
  return Object.assign(parts, { raw: parts });
}

function statementWithin(order: string): PageStatement {
  const parts = [
    `select id, connection, email, username, password_hash, created_at, updated_at,
      case when sum(octet_length(profile)) over () <= `,
    `::bigint then profile end as profile
    from (
      select id, connection, email, username, password_hash, profile, created_at, updated_at
      from users where tenant = `,
    ` order by ${order} limit `,
    ' offset ',
    `) as page order by ${order}`,
  ];
  return Object.assign(parts, { raw: parts });
}
