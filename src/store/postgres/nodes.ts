import { type Command, sql } from '../directory/command.ts';
import type { NodeKeys } from '../port/secrets.ts';

/** Returns the nodes with a lease and the keys that they reported when they joined. */
export function* liveNodes(): Command<readonly NodeKeys[]> {
  const rows = yield* sql.all<{ id: string; keys: string }>`
    select id, secret_keys as keys from nodes where lease_until > clock_timestamp() order by id`;
  return rows.map(({ id, keys }) => ({ id, keys: keys.split(',') }));
}
