import { sql, type Statement } from '../directory/command.ts';
import type { ChangeUser, SortQuery, UserRow } from '../directory/users.ts';
import type { Hint } from '../port/hints.ts';
import { run } from './commands.ts';
import type { Database } from './database.ts';
import type { StoreIdentity } from './identity.ts';
import { appendWithin } from './log.ts';

/** Creates the changes of users: one transaction each, in which the plan is made as well. */
export function createUserChange({
  db,
  identity,
  hint,
}: {
  readonly db: Database;
  readonly identity: StoreIdentity;
  readonly hint: (hint: Hint) => void;
}): ChangeUser {
  return async ({ tenant }, plan) => {
    const { result, written } = await identity.transact(db, 'confirmed', async (tx) => {
      const planned = await plan((command) => run(tx, command));
      if ('result' in planned) return { result: planned.result, written: [] };
      const { result: outcome, isWritten } = await run(tx, planned.write());
      if (!isWritten) return { result: outcome, written: [] };
      return { result: outcome, ...(await appendWithin(tx, tenant, [planned.event])) };
    });
    if (written.length > 0) hint({ kind: 'appended', tenant, events: written });
    return result;
  };
}

/**
 * Sorts by a field whose name is a bound value; a field that no user has leaves the ids to sort.
 * Missing values and null come before numbers and booleans, those before texts, those before the
 * rest. `offset 0` lets PostgreSQL extract the value once for each user instead of once for each
 * use.
 */
export function sortedUsers({
  tenant,
  field,
  descending,
  take,
  skip,
}: SortQuery): Statement<UserRow[]> {
  const direction = descending ? -1 : 1;
  return sql.all<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from (
      select users.*,
        case when profile !~ ${unreadable} then profile::json -> ${field}::text end as value
      from users where tenant = ${tenant}
      offset 0
    ) as valued
    order by
      ${direction}::integer * case coalesce(json_typeof(value), 'null')
        when 'null' then 0 when 'number' then 1 when 'boolean' then 1 when 'string' then 2 else 3
      end,
      ${direction}::integer * case json_typeof(value)
        when 'number' then (value #>> '{}')::numeric
        when 'boolean' then (value #>> '{}')::boolean::integer
      end,
      case when not ${descending} and json_typeof(value) = 'string' then value #>> '{}' end
        collate "C",
      case when ${descending} and json_typeof(value) = 'string' then value #>> '{}' end
        collate "C" desc,
      id
    limit ${take} offset ${skip}`;
}

/** JSON texts with U+0000 or half a surrogate pair, from which PostgreSQL extracts nothing. */
const unreadable = String.raw`[^\\](\\\\)*\\u(0000|[dD][89a-fA-F])`;
