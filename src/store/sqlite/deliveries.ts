import type { Millis } from '../../core/clock.ts';
import type { DeliveryStore } from '../port/deliveries.ts';
import type { Hint } from '../port/hints.ts';
import type { StoreTime } from '../port/time.ts';
import type { Database } from './database.ts';
import { claimDue } from './due.ts';
import { failure, listFailures } from './failures.ts';
import { createHistoryPruner } from './history-pruner.ts';
import type { UpkeepDeps } from './horizon.ts';
import { redeliver, redeliverMany } from './redelivery.ts';
import { readRun } from './runs.ts';
import { createSettle } from './settle.ts';

export interface DeliveryDeps extends UpkeepDeps {
  readonly hint: (hint: Hint) => void;
  /** Receives the number of attempts that a command has recorded. */
  readonly settled?: ((attempts: number) => void) | undefined;
  readonly time: StoreTime;
}

/** Creates the store of the deliveries that did not settle at once: due rows and open failures. */
export function createDeliveryStore(deps: DeliveryDeps): DeliveryStore {
  const { db, hint, time } = deps;
  return {
    listFailures: async (tenant, stream, query) => listFailures(db, tenant, stream, query),
    failure: async (tenant, stream, eventId) => failure(db, tenant, stream, eventId),
    redeliver: async (tenant, stream, eventId) => {
      const result = db.transact('durable', () =>
        redeliver(db, tenant, stream, eventId, time.now()),
      );
      if (result === 'accepted') hint({ kind: 'stream', tenant, stream });
      return result;
    },
    redeliverMany: async (tenant, stream, filter) => {
      const count = db.transact('durable', () =>
        redeliverMany(db, tenant, stream, filter, time.now()),
      );
      if (count > 0) hint({ kind: 'stream', tenant, stream });
      return count;
    },
    addTest: async (tenant, stream, event) => {
      const result = db.transact('durable', () => addTest(db, tenant, stream, event, time.now()));
      if (result === 'accepted') hint({ kind: 'stream', tenant, stream });
      return result;
    },
    claimDue: async (requests, rules) =>
      db.transact('relaxed', () => {
        const now = time.now();
        return requests.map((request) => claimDue(db, request, now, rules));
      }),
    settle: createSettle(deps),
    pruneAttempts: createHistoryPruner(deps),
  };
}

/** A test starts as a row: due now, with its body, and never in the log. */
function addTest(
  db: Database,
  tenant: number,
  stream: string,
  event: Parameters<DeliveryStore['addTest']>[2],
  now: Millis,
): Awaited<ReturnType<DeliveryStore['addTest']>> {
  const run = readRun(db, tenant, stream);
  if (run === undefined) return 'unknown';
  if (run.status === 'disabled') return 'disabled';
  db.run`
    insert into deliveries (tenant, stream, event_id, type, time, kind, state, attempt, due_at, body,
      trace)
    values (${tenant}, ${stream}, ${event.id}, ${event.type}, ${event.time}, 'test', 'retrying', 1,
      ${now}, ${event.body}, ${event.trace})`;
  return 'accepted';
}
