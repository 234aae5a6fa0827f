import { type Static, Type } from 'typebox';
import { envelope } from './events.ts';
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

export const eventLogText = {
  event_types: 'Event types, comma separated',
  filter: 'Condition over the envelope as JSON, at most 2 KiB',
} as const;

/** The query of the list of events. */
export const eventLogQuery = closed({
  ...pageQuery,
  event_types: Type.Optional(
    Type.String({ maxLength: 16_384, description: eventLogText.event_types }),
  ),
  date_from: Type.Optional(sentTime('Earliest time of acceptance, inclusive')),
  date_to: Type.Optional(sentTime('Latest time of acceptance, exclusive')),
  filter: Type.Optional(Type.String({ maxLength: 2048, description: eventLogText.filter })),
});

const offset = Type.String({ description: 'Position in the log' });

const logged = closed({ event: envelope, offset, accepted_at: time });

/** A page of the event log. */
export const eventLog = component('EventLog', 'Events of the log, newest first', {
  events: Type.Array(logged),
  next,
  scanned_to: Type.String({
    description: 'Offset of the oldest event that was read; the page has every event from there on',
  }),
});

/** The path of one event. */
export const eventParams = closed({
  event_id: Type.String({
    minLength: 1,
    maxLength: 255,
    examples: ['evt_b8dLcukC7edhDQ7cn5d4gE'],
    description: 'Id of the event, or the idempotency key with which it was published',
  }),
});

/** The query of one event. */
export const eventQuery = closed(pageQuery);

const entry = {
  timestamp: time,
  status: Type.Union(
    [
      Type.Literal('delivered'),
      Type.Literal('failed'),
      Type.Literal('retrying'),
      Type.Literal('dismissed'),
    ],
    { description: 'retrying marks an accepted redelivery, dismissed the end of a failure' },
  ),
  duration: Type.Optional(Type.Number({ description: 'Milliseconds' })),
  http_status: Type.Optional(Type.Integer({ description: 'Status of the response, if any' })),
  error_code: Type.Optional(Type.String({ description: 'Why it failed, for programs' })),
  error_message: Type.Optional(Type.String({ description: 'Why it failed, for people' })),
};

const attempt = closed(
  {
    attempt: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'Its number, from 1 with each redelivery; absent where that is not known',
      }),
    ),
    ...entry,
  },
  { description: 'An attempt, or a mark between attempts' },
);

const state = Type.Union(
  [
    Type.Literal('failed'),
    Type.Literal('retrying'),
    Type.Literal('in_progress'),
    Type.Literal('blocked'),
    Type.Literal('dismissed'),
    Type.Literal('delivered'),
    Type.Literal('skipped'),
    Type.Literal('filtered'),
    Type.Literal('waiting'),
  ],
  { description: 'What became of the event' },
);

const delivery = closed(
  {
    event_stream_id: streamId,
    name: Type.String({ description: 'Name of the event stream' }),
    state,
    next_attempt_at: Type.Optional(time),
    attempts_pruned: Type.Optional(
      Type.Literal(true, { description: 'The attempt that succeeded is not stored any more' }),
    ),
    attempts: Type.Array(attempt, { maxItems: 20, description: 'The newest ones, oldest first' }),
  },
  { description: 'What became of an event at one event stream' },
);

/** What became of an event. */
export const tracedEvent = component('TracedEvent', 'An event, and what became of it', {
  event: envelope,
  offset: Type.Optional(offset),
  accepted_at: Type.Optional(time),
  counts: Type.Object({}, { description: 'How many event streams there are of each state' }),
  deliveries: Type.Array(delivery, { maxItems: 100, description: 'In the order of stream ids' }),
  next,
});

const streamAttempt = closed(
  {
    event_id: Type.Optional(eventId),
    event_type: Type.Optional(eventType),
    offset,
    ...entry,
  },
  { description: 'An attempt; without the event when the log does not have it any more' },
);

/** A page of the attempts of a stream. */
export const attempts = component('EventStreamAttempts', 'Attempts of an event stream', {
  attempts: Type.Array(streamAttempt, { description: 'Those of the newest events first' }),
  next,
});

/** The query of the attempts of a stream. */
export const attemptsQuery = closed(pageQuery);

export type EventLogQuery = Static<typeof eventLogQuery>;
export type EventLogShown = Static<typeof eventLog>;
export type TracedEventShown = Static<typeof tracedEvent>;
export type EventDeliveryShown = Static<typeof delivery>;
export type AttemptShown = Static<typeof attempt>;
export type StreamAttemptShown = Static<typeof streamAttempt>;
export type AttemptsShown = Static<typeof attempts>;
