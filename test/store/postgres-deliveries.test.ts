import { describe } from 'node:test';
import { deliveriesContract } from './contract/deliveries.ts';
import { deliveryStatsContract } from './contract/delivery-stats.ts';
import { dismissalsContract } from './contract/dismissals.ts';
import { failuresContract } from './contract/failures.ts';
import { orderContract } from './contract/order.ts';
import { pausesContract } from './contract/pauses.ts';
import { redeliveriesContract } from './contract/redeliveries.ts';
import { replaysContract } from './contract/replays.ts';
import { skippedContract } from './contract/skipped.ts';
import { postgres } from './engines.ts';

// Apart from `postgres.test.ts`, so that two processes share the work.
deliveriesContract(postgres);
failuresContract(postgres);
redeliveriesContract(postgres);
orderContract(postgres);
replaysContract(postgres);

// With the quick tests they run on SQLite alone.
describe('further contracts', { tags: ['long'] }, () => {
  deliveryStatsContract(postgres);
  dismissalsContract(postgres);
  pausesContract(postgres);
  skippedContract(postgres);
});
