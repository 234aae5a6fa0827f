import { createKeyedSerialQueue } from '../../core/serial-queue.ts';
import { type On, sql, type Statement } from '../directory/command.ts';
import type { ChangeUser, SortQuery, UserRow } from '../directory/users.ts';
import type { Hint } from '../port/hints.ts';
import type { StoreTime } from '../port/time.ts';
import { appendWithin } from './append.ts';
import { run } from './commands.ts';
import type { Database } from './database.ts';
import type { WalRoom } from './wal-room.ts';

export interface UserChangeDeps extends On {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
  readonly time: StoreTime;
  readonly walRoom: WalRoom;
}

export interface UserChanges {
  readonly change: ChangeUser;
  /** Resolves when no change is in progress. */
  idle(): Promise<void>;
}

/**
 * Changes users, one change of a user after the other. A plan is made before the transaction: for
 * 1 MiB it takes some 10 ms and yields to the event loop, which a transaction cannot.
 */
export function createUserChanges(deps: UserChangeDeps): UserChanges {
  const { db, on, hint, time, walRoom } = deps;
  const queue = createKeyedSerialQueue();
  return {
    change: ({ tenant, id }, plan) =>
      queue.run(`${tenant} ${id}`, async () => {
        const planned = await plan(on.lists.read);
        if ('result' in planned) return planned.result;
        const { write, event } = planned;
        await walRoom.make(planned.length + event.body.length);
        const { result, written } = db.transact('durable', () => {
          const { result: outcome, isWritten } = run(db, write());
          if (!isWritten) return { result: outcome, written: [] };
          return { result: outcome, ...appendWithin(db, tenant, [event], time.now()) };
        });
        if (written.length > 0) hint({ kind: 'appended', tenant, events: written });
        await walRoom.clear();
        return result;
      }),
    idle: () => queue.idle(),
  };
}

/**
 * Sorts by a field whose name is a bound value; a field that no user has leaves the ids to sort.
 * About 1 µs for each user of the tenant.
 */
export function sortedUsers({
  tenant,
  field,
  descending,
  take,
  skip,
}: SortQuery): Statement<UserRow[]> {
  return sql.all<UserRow>`
    select id, connection, email, username, password_hash, profile, created_at, updated_at
    from (
      select users.*, (select value from json_each(profile) where key = ${field}) as sort_key
      from users where tenant = ${tenant}
    )
    order by iif(${descending}, null, sort_key), iif(${descending}, sort_key, null) desc, id
    limit ${take} offset ${skip}`;
}
