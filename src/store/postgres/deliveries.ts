import type { DeliveryStore } from '../port/deliveries.ts';
import type { Hint } from '../port/hints.ts';
import { claimDue } from './due.ts';
import { createHistoryPruner } from './history-pruner.ts';
import type { DayDeps } from './old-days.ts';
import { createSettle } from './settle.ts';

/** Creates the commands of deliveries that are written apart from SQLite: see each of them. */
export function createDeliveryStore(
  deps: DayDeps & { readonly hint: (hint: Hint) => void },
): Pick<DeliveryStore, 'claimDue' | 'settle' | 'pruneAttempts'> {
  const { db, identity } = deps;
  return {
    claimDue: (requests) => identity.transact(db, 'relaxed', (tx) => claimDue(tx, requests)),
    settle: createSettle(deps),
    pruneAttempts: createHistoryPruner(deps),
  };
}
