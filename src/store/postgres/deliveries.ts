import type { DeliveryStore } from '../port/deliveries.ts';
import type { Hint } from '../port/hints.ts';
import type { Queries } from './database.ts';
import { dayMs } from './partitions.ts';
import { claimDue } from './due.ts';
import { failure, listFailures } from './failures.ts';
import { createHistoryPruner } from './history-pruner.ts';
import type { DayDeps } from './old-days.ts';
import type { StoreIdentity } from './identity.ts';
import { redeliver, redeliverMany } from './redelivery.ts';
import { lockRun, noteChanges } from './runs.ts';
import { createSettle } from './settle.ts';

export interface DeliveryDeps extends DayDeps {
  readonly identity: StoreIdentity;
  readonly hint: (hint: Hint) => void;
}

/** Creates the store of the deliveries that did not settle at once: due rows and open failures. */
export function createDeliveryStore(deps: DeliveryDeps): DeliveryStore {
  const { db, identity, hint } = deps;
  return {
    listFailures: (tenant, stream, query) => listFailures(db, tenant, stream, query),
    failure: (tenant, stream, eventId) => failure(db, tenant, stream, eventId),
    redeliver: async (tenant, stream, eventId) => {
      const result = await db.transact('durable', (tx) => redeliver(tx, tenant, stream, eventId));
      if (result === 'accepted') hint({ kind: 'stream', tenant, stream });
      return result;
    },
    redeliverMany: async (tenant, stream, filter) => {
      const count = await db.transact('durable', (tx) => redeliverMany(tx, tenant, stream, filter));
      if (count > 0) hint({ kind: 'stream', tenant, stream });
      return count;
    },
    addTest: async (tenant, stream, event) => {
      const result = await db.transact('durable', (tx) => addTest(tx, tenant, stream, event));
      if (result === 'accepted') hint({ kind: 'stream', tenant, stream });
      return result;
    },
    claimDue: (requests, rules) =>
      identity.transact(db, 'relaxed', (tx) => claimDue(tx, requests, rules)),
    settle: createSettle(deps),
    pruneAttempts: createHistoryPruner(deps),
  };
}

/** A test starts as a row: due now, with its body, and never in the log. */
async function addTest(
  tx: Queries,
  tenant: number,
  stream: string,
  event: Parameters<DeliveryStore['addTest']>[2],
): ReturnType<DeliveryStore['addTest']> {
  const run = await lockRun(tx, tenant, stream);
  if (run === undefined) return 'unknown';
  if (run.status === 'disabled') return 'disabled';
  await tx.run`
    insert into deliveries (tenant, stream, event_id, type, time, kind, state, attempt, due_at,
      event_day, attempts_from, attempts_to, body, trace)
    values (${tenant}, ${stream}, ${event.id}, ${event.type}, ${event.time}, 'test', 'retrying', 1,
      leat_now(), leat_now() / ${dayMs}, leat_now() / ${dayMs}, leat_now() / ${dayMs},
      ${event.body}, ${event.trace})`;
  await noteChanges(tx, [run]);
  return 'accepted';
}
