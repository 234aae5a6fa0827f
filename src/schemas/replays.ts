import { Type, type Static } from 'typebox';
import {
  closed,
  component,
  eventId,
  eventType,
  next,
  pageQuery,
  sentTime,
  streamId,
  time,
} from './schema.ts';

const replayId = Type.String({
  minLength: 26,
  maxLength: 26,
  pattern: '^rpl_[A-Za-z0-9]{22}$',
  format: 'replay-id',
  examples: ['rpl_5xJq2Vn8kYdW3tRbHs7McA'],
  description: 'Unique identifier for the replay',
});

/** Path of one replay. */
export const replayParams = closed({ id: streamId, replay_id: replayId });

export const replayText = {
  date_from: 'Earliest time of acceptance, inclusive',
  date_to: 'Latest time of acceptance, exclusive',
  from: 'Offset of the log to begin after',
  event_ids: 'Events to send again instead of a range',
} as const;

/** Body that starts a replay: one of `date_from`, `from` and `event_ids`. */
export const replayCreate = component(
  'ReplayCreate',
  'Which events to send again; exactly one of date_from, from and event_ids',
  {
    date_from: Type.Optional(sentTime(replayText.date_from)),
    from: Type.Optional(
      Type.String({ minLength: 1, maxLength: 1024, description: replayText.from }),
    ),
    event_ids: Type.Optional(
      Type.Array(eventId, { minItems: 1, maxItems: 1000, description: replayText.event_ids }),
    ),
    date_to: Type.Optional(sentTime(replayText.date_to)),
    event_types: Type.Optional(
      Type.Array(eventType, {
        minItems: 1,
        description: 'Of the types that the event stream wants; all of them unless sent',
      }),
    ),
  },
);

/** A replay and its progress. */
export const replay = component(
  'Replay',
  'A range of the event log that is sent to an event stream again',
  {
    id: replayId,
    status: Type.Union(
      [
        Type.Literal('running'),
        Type.Literal('done'),
        Type.Literal('cancelled'),
        Type.Literal('failed'),
      ],
      { description: 'failed: the rest of the range was pruned before it was sent' },
    ),
    from: Type.String({ description: 'The start as an offset' }),
    matched: Type.Integer({ description: 'Events found so far' }),
    sent: Type.Integer({ description: 'Events delivered' }),
    failed: Type.Integer({ description: 'Events that became failures' }),
    created_at: time,
    finished_at: Type.Optional(time),
  },
);

/** Query of the list of replays. */
export const replaysQuery = closed(pageQuery);

/** A page of replays. */
export const replays = closed(
  { replays: Type.Array(replay), next },
  { description: 'Newest first' },
);

export type ReplayCreateSent = Static<typeof replayCreate>;
export type ReplayShown = Static<typeof replay>;
export type ReplaysShown = Static<typeof replays>;
