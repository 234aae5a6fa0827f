import { describe } from 'node:test';
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
import { eventTypesContract } from './contract/event-types.ts';
import { failuresContract } from './contract/failures.ts';
import { redeliveriesContract } from './contract/redeliveries.ts';
import { skippedContract } from './contract/skipped.ts';
import { streamStatesContract } from './contract/stream-states.ts';
import { streamsContract } from './contract/streams.ts';
import { takenEventsContract } from './contract/taken-events.ts';
import { postgres } from './engines.ts';

logContract(postgres);
streamsContract(postgres);
deliveriesContract(postgres);
ownershipContract(postgres);
takenEventsContract(postgres);
settleContract(postgres);
failuresContract(postgres);
redeliveriesContract(postgres);
orderContract(postgres);
replaysContract(postgres);

// With the quick tests they run on SQLite alone.
describe('further contracts', { tags: ['long'] }, () => {
  streamStatesContract(postgres);
  deliveryStatsContract(postgres);
  eventTypesContract(postgres);
  dismissalsContract(postgres);
  pausesContract(postgres);
  skippedContract(postgres);
  eventLogContract(postgres);
  alertStateContract(postgres);
  certificatesContract(postgres);
  overviewContract(postgres);
});
