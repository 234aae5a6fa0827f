import { type Static, Type } from 'typebox';
import { delivery } from './deliveries.ts';
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

/** An error code, or one of two classes. */
export const errorCode = Type.String({
  maxLength: 32,
  pattern:
    '^(http_([1-9][0-9]{2}|4xx|5xx)|timeout|dns|refused|reset|tls|protocol|blocked_address|authorization|stream_disabled)$',
  format: 'error-code',
  examples: ['http_5xx'],
  description: 'Error code, or one of the classes http_4xx and http_5xx',
});

export const failureText = {
  event_stream_ids: 'Ids of event streams, comma separated',
  statuses: 'failed (the default), retrying, or both, comma separated',
  error_codes: 'Error codes, or the classes http_4xx and http_5xx, comma separated',
  event_types: 'Event types, comma separated',
  failed_from: 'Earliest time at which the failure was opened, inclusive',
  failed_to: 'Latest time at which the failure was opened, exclusive',
} as const;

const listed = (name: keyof typeof failureText, maxLength: number) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description: failureText[name] }));

/** The query of the failures of all streams. */
export const allDeliveriesQuery = closed({
  ...pageQuery,
  event_stream_ids: listed('event_stream_ids', 27_000),
  statuses: listed('statuses', 1024),
  error_codes: listed('error_codes', 4096),
  event_types: listed('event_types', 16_384),
  failed_from: Type.Optional(sentTime(failureText.failed_from)),
  failed_to: Type.Optional(sentTime(failureText.failed_to)),
  date_from: Type.Optional(sentTime('Earliest time of the event, inclusive')),
  date_to: Type.Optional(sentTime('Latest time of the event, exclusive')),
});

const code = Type.Union([Type.String(), Type.Null()], {
  description: 'Error code of the last failed attempt; null when that is not known',
});

const { id, event_stream_id, event_type, attempts, event } = delivery.properties;

const failure = component('Failure', 'An open failure, or a delivery that waits for a retry', {
  id,
  event_stream_id,
  event_type,
  status: Type.Union([Type.Literal('failed'), Type.Literal('retrying')]),
  error_code: code,
  failed_at: Type.Union([time, Type.Null()], {
    description: 'When the failure was opened; null for a delivery that waits for a retry',
  }),
  next_attempt_at: Type.Union([time, Type.Null()], {
    description: 'When the next attempt is due; null when none is, or the event stream sends none',
  }),
  attempts,
  event,
});

/** A page of the failures of all streams. */
export const allDeliveries = closed(
  { deliveries: Type.Array(failure), next },
  { description: 'Newest failure first; a page may have fewer items than requested, or none' },
);

const timeOf = (description: string) => Type.String({ ...time, description });

/** Open failures of one stream with one error code. */
export const failureGroup = closed({
  event_stream_id: streamId,
  name: Type.String({ description: 'Name of the event stream' }),
  error_code: code,
  count: Type.Integer({ description: 'Open failures' }),
  first_failed_at: timeOf('When the first of them was opened'),
  last_failed_at: timeOf('When the last of them was opened'),
  last_attempt_at: Type.Optional(
    timeOf('When an attempt failed last with this code; absent where a request counts only'),
  ),
  sample: closed(
    {
      event_id: eventId,
      event_type: eventType,
      error_message: Type.Optional(Type.String({ description: 'Why it failed' })),
    },
    { description: 'The failure that was attempted last, if it is still open; else the newest' },
  ),
});

/** The query of the groups. */
export const groupsQuery = closed({
  ...pageQuery,
  event_stream_ids: listed('event_stream_ids', 27_000),
  error_codes: listed('error_codes', 4096),
  sort: Type.Optional(
    Type.Union([Type.Literal('-count'), Type.Literal('-last_attempt_at')], {
      default: '-count',
      description: 'Order: the largest, or those with the last attempt first',
    }),
  ),
});

/** A page of groups. */
export const failureGroups = component('FailureGroups', 'Open failures by stream and error code', {
  groups: Type.Array(failureGroup, { description: 'In the order of sort' }),
  total: Type.Integer({ description: 'Groups on all pages' }),
  next,
  as_of: time,
});

export const selectionText = {
  all: 'Every open failure of the tenant; required without any other field that selects',
  event_ids: 'Events of the one event stream that event_stream_ids names',
  event_stream_ids: 'Event streams',
  failed_from: failureText.failed_from,
  failed_to: failureText.failed_to,
} as const;

/** The fields of a request that select open failures, combined with AND. */
export const selectionFields = {
  event_stream_ids: Type.Optional(
    Type.Array(streamId, {
      minItems: 1,
      maxItems: 1000,
      description: selectionText.event_stream_ids,
    }),
  ),
  event_ids: Type.Optional(
    Type.Array(eventId, { minItems: 1, maxItems: 1000, description: selectionText.event_ids }),
  ),
  error_codes: Type.Optional(
    Type.Array(errorCode, {
      minItems: 1,
      maxItems: 100,
      description: 'Error codes of the last failed attempt',
    }),
  ),
  event_types: Type.Optional(
    Type.Array(eventType, { minItems: 1, maxItems: 1000, description: 'Event types' }),
  ),
  failed_from: Type.Optional(sentTime(selectionText.failed_from)),
  failed_to: Type.Optional(sentTime(selectionText.failed_to)),
  date_from: Type.Optional(sentTime('Earliest time of the event, inclusive')),
  date_to: Type.Optional(sentTime('Latest time of the event, exclusive')),
  all: Type.Optional(Type.Literal(true, { description: selectionText.all })),
  dry_run: Type.Optional(Type.Boolean({ description: 'Count only' })),
};

/** Of the total of a redelivery or a dismissal. */
export const atLeast = Type.Optional(
  Type.Literal(true, {
    description:
      'Present while there are too many failures to count at once: the total grows until all are taken',
  }),
);

const selection = closed(selectionFields);

/** What a request with `dry_run` would do. */
export const failurePreview = component(
  'FailurePreview',
  'The open failures that a request selects',
  {
    count: Type.Integer({ description: 'Open failures that match' }),
    groups: Type.Array(failureGroup, {
      maxItems: 20,
      description: 'The largest groups of one event stream and one error code, largest first',
    }),
    failed_to: Type.String({
      format: 'date-time',
      description: 'Sent as failed_to, it selects the failures that were counted',
    }),
  },
);

export type FailureShown = Static<typeof failure>;
export type FailuresShown = Static<typeof allDeliveries>;
export type FailureGroupShown = Static<typeof failureGroup>;
export type SelectionSent = Static<typeof selection>;
export type FailurePreviewShown = Static<typeof failurePreview>;
export type FailureGroupsShown = Static<typeof failureGroups>;
