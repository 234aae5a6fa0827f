import { type Static, Type } from 'typebox';
import { filter } from './delivery-options.ts';
import { closed, component } from './schema.ts';

/** Body of a test of a filter. */
export const filterTest = component('FilterTest', 'A filter to try', {
  filter,
  events: Type.Optional(
    Type.Array(Type.Object({}, { description: 'The envelope of an event' }), {
      minItems: 1,
      maxItems: 100,
      description: 'Events to filter instead of those of the event log',
    }),
  ),
});

/** Its result. */
export const filterTested = closed({
  read: Type.Integer({ description: 'Events that were filtered' }),
  matched: Type.Integer({ description: 'Of these, events that match' }),
  sample: Type.Array(Type.Object({}, { description: 'The envelope of an event' }), {
    maxItems: 10,
    description: 'The newest of these; of sent events the first ones',
  }),
});

export type FilterTestedShown = Static<typeof filterTested>;
