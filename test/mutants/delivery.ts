import type { Mutant } from './mutant.ts';

/** Mutants of the rules of delivery, of the queues of a node, and of what SQLite records. */
export const deliveryMutants: readonly Mutant[] = [
  {
    name: 'no quarter of the slots for fresh events',
    file: 'delivery/slots.ts',
    before: `return dueInFlight < slots - Math.ceil(slots / 4) ? 'due' : 'fresh';`,
    after: `return 'due';`,
    killedBy: {
      file: 'test/delivery/slots.test.ts',
      title: 'give each kind at least a quarter while both wait, whatever was there before',
    },
  },
];
