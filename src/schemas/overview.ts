import { type Static, Type } from 'typebox';
import { failureGroup } from './failures.ts';
import { closed, component, time } from './schema.ts';

const count = (description: string) => Type.Integer({ minimum: 0, description });

const minute = closed(
  {
    at: time,
    published: count('Events accepted'),
    delivered: count('Deliveries that succeeded'),
    failed: count('Deliveries that became failures'),
  },
  { description: 'A minute, UTC' },
);

/** How all streams of a tenant are doing. */
export const overview = component('Overview', 'How all event streams are doing', {
  as_of: time,
  streams: closed(
    {
      total: count('Event streams'),
      ok: count('Those in the state ok'),
      failing: count('Those that fail'),
      lagging: count('Those with an event that has waited for 300 s'),
      paused: count('Those that are paused'),
      disabled: count('Those that are disabled'),
    },
    { description: 'Event streams by state' },
  ),
  failures: closed(
    {
      open: count('Open failures'),
      retrying: count('Deliveries that wait for an attempt, counted up to 100,000'),
    },
    { description: 'Deliveries that did not succeed so far' },
  ),
  oldest_undelivered_at: Type.Union([time, Type.Null()], {
    description:
      'When the oldest event was accepted that waits for an event stream that is neither paused nor disabled; null when none has waited for 90 s',
  }),
  last_hour: Type.Array(minute, { description: 'Oldest first; the present minute is the last' }),
  groups: Type.Array(failureGroup, {
    maxItems: 5,
    description: 'The largest groups of open failures of one event stream and one error code',
  }),
});

export type OverviewShown = Static<typeof overview>;
