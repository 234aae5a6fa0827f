import type { DeliveryStore } from '../../port/deliveries.ts';
import type { Hint } from '../../port/hints.ts';
import type { StoreTime } from '../../port/time.ts';
import { createHistoryPruner } from './history-pruner.ts';
import type { UpkeepDeps } from './upkeep-step.ts';
import { createSettle } from './settle.ts';

export interface DeliveryDeps extends UpkeepDeps {
  readonly hint: (hint: Hint) => void;
  /** Receives the number of attempts that a command has recorded. */
  readonly settled?: ((attempts: number) => void) | undefined;
  readonly time: StoreTime;
}

/** Creates the commands of deliveries that are written apart from PostgreSQL: see each of them. */
export function createDeliveryStore(
  deps: DeliveryDeps,
): Pick<DeliveryStore, 'settle' | 'pruneAttempts'> {
  return {
    settle: createSettle(deps),
    pruneAttempts: createHistoryPruner(deps),
  };
}
