import { deliveriesContract } from './contract/deliveries.ts';
import { deliveryStatsContract } from './contract/delivery-stats.ts';
import { dismissalsContract } from './contract/dismissals.ts';
import { logContract } from './contract/log.ts';
import { alertStateContract } from './contract/alert-state.ts';
import { certificatesContract } from './contract/certificates.ts';
import { ownershipContract } from './contract/ownership.ts';
import { orderContract } from './contract/order.ts';
import { overviewContract } from './contract/overview.ts';
import { pausesContract } from './contract/pauses.ts';
import { replaysContract } from './contract/replays.ts';
import { settleContract } from './contract/settle.ts';
import { eventLogContract } from './contract/event-log.ts';
import { failuresContract } from './contract/failures.ts';
import { redeliveriesContract } from './contract/redeliveries.ts';
import { skippedContract } from './contract/skipped.ts';
import { streamsContract } from './contract/streams.ts';
import { sqliteFile, sqliteMemory } from './engines.ts';

for (const engine of [sqliteMemory, sqliteFile]) {
  logContract(engine);
  streamsContract(engine);
  deliveriesContract(engine);
  deliveryStatsContract(engine);
  dismissalsContract(engine);
  ownershipContract(engine);
  settleContract(engine);
  alertStateContract(engine);
  certificatesContract(engine);
  overviewContract(engine);
  pausesContract(engine);
  skippedContract(engine);
  eventLogContract(engine);
  failuresContract(engine);
  redeliveriesContract(engine);
  orderContract(engine);
  replaysContract(engine);
}
