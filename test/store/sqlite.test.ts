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
import type { Engine } from './contract/engine.ts';
import { sqliteFile, sqliteMemory } from './engines.ts';

every(sqliteFile);
describe('without a file', { tags: ['long'] }, () => every(sqliteMemory));

function every(engine: Engine): void {
  logContract(engine);
  streamsContract(engine);
  streamStatesContract(engine);
  deliveriesContract(engine);
  deliveryStatsContract(engine);
  eventTypesContract(engine);
  dismissalsContract(engine);
  ownershipContract(engine);
  takenEventsContract(engine);
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
