import type { ClientGuard, Guard } from '../port/guard.ts';
import { accessOf } from './clients.ts';
import { heldSession } from './console-sessions.ts';
import { lockAccess } from './access-lock.ts';
import { aroundChanges, type Command, type Purposes, sql } from './command.ts';
import { forKeyShare } from './dialect.ts';

/**
 * Returns connections whose changes call the guard in each transaction, before anything is changed. Changes of
 * the access of a tenant's clients follow each other, so that one which is committed after a
 * revocation also sees it.
 */
export function guardedOn(on: Purposes, guard: Guard): Purposes {
  return aroundChanges(on, (command) => guarded(command, guard));
}

function* guarded<T>(command: () => Command<T>, guard: Guard): Command<T> {
  const { tenant } = guard;
  yield* lockAccess(tenant);
  if (guard.session !== undefined) guard.check(yield* heldSession(tenant, guard.session));
  else guard.check(yield* accessOf(tenant, guard.client), yield* isSigned(guard));
  return yield* command();
}

/** A key that is found stays until the commit. */
function* isSigned({ tenant, signedWith }: ClientGuard): Command<boolean> {
  if (signedWith === undefined) return true;
  const key = yield* sql.get`
    select 1 from signing_keys where tenant = ${tenant} and kid = ${signedWith} ${forKeyShare}`;
  return key !== undefined;
}
