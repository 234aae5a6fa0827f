import { describe } from 'node:test';
import { alertStateContract } from './contract/alert-state.ts';
import { certificatesContract } from './contract/certificates.ts';
import { eventLogContract } from './contract/event-log.ts';
import { eventTypesContract } from './contract/event-types.ts';
import { logContract } from './contract/log.ts';
import { overviewContract } from './contract/overview.ts';
import { ownershipContract } from './contract/ownership.ts';
import { settleContract } from './contract/settle.ts';
import { streamStatesContract } from './contract/stream-states.ts';
import { streamsContract } from './contract/streams.ts';
import { takenEventsContract } from './contract/taken-events.ts';
import { postgres } from './engines.ts';

logContract(postgres);
streamsContract(postgres);
ownershipContract(postgres);
takenEventsContract(postgres);
settleContract(postgres);

// With the quick tests they run on SQLite alone.
describe('further contracts', { tags: ['long'] }, () => {
  streamStatesContract(postgres);
  eventTypesContract(postgres);
  eventLogContract(postgres);
  alertStateContract(postgres);
  certificatesContract(postgres);
  overviewContract(postgres);
});
