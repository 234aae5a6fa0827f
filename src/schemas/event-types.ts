import { type Static, Type } from 'typebox';
import { closed, component, eventType, next, pageQuery, time } from './schema.ts';

/** The query of the list of event types. */
export const eventTypesQuery = closed(pageQuery);

const shown = closed({
  type: eventType,
  catalogue: Type.Boolean({ description: 'Whether it is predefined' }),
  last_seen_at: Type.Union([time, Type.Null()], {
    description: 'When the newest event of the type was accepted; null without any in the log',
  }),
  sample: Type.Union([Type.Object({}), Type.Null()], {
    description:
      'Data of an event: of predefined types an invented one, else the newest event; null when that is not in the log any more, or larger than 8 KiB',
  }),
});

/** A page of the list of event types. */
export const eventTypes = component('EventTypes', 'Types of events, in their order', {
  types: Type.Array(shown),
  next,
});

export type EventTypesShown = Static<typeof eventTypes>;
