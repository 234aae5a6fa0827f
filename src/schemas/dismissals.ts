import { Type, type Static } from 'typebox';
import { errorCode, failureGroup, failureText } from './failures.ts';
import { closed, component, eventId, eventType, sentTime, streamId, time } from './schema.ts';

const dismissalId = Type.String({
  minLength: 26,
  maxLength: 26,
  pattern: '^dsm_[A-Za-z0-9]{22}$',
  format: 'dismissal-id',
  description: 'Unique identifier for the dismissal',
});

/** Path of one dismissal. */
export const dismissalParams = closed({ dismissal_id: dismissalId });

export const dismissalText = {
  all: 'Every open failure of the tenant; required without any other field that selects',
  event_ids: 'Events of the one event stream that event_stream_ids names',
  event_stream_ids: 'Event streams',
  failed_from: failureText.failed_from,
  failed_to: failureText.failed_to,
} as const;

/** Body of a dismissal: which open failures. */
export const dismissalCreate = component(
  'DismissalCreate',
  'Which open failures to close, combined with AND; at least one field that selects, or all',
  {
    event_stream_ids: Type.Optional(
      Type.Array(streamId, {
        minItems: 1,
        maxItems: 1000,
        description: dismissalText.event_stream_ids,
      }),
    ),
    event_ids: Type.Optional(
      Type.Array(eventId, { minItems: 1, maxItems: 1000, description: dismissalText.event_ids }),
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
    failed_from: Type.Optional(sentTime(dismissalText.failed_from)),
    failed_to: Type.Optional(sentTime(dismissalText.failed_to)),
    date_from: Type.Optional(sentTime('Earliest time of the event, inclusive')),
    date_to: Type.Optional(sentTime('Latest time of the event, exclusive')),
    all: Type.Optional(Type.Literal(true, { description: dismissalText.all })),
    dry_run: Type.Optional(Type.Boolean({ description: 'Count only' })),
  },
);

/** What a dismissal did. */
export const dismissal = component('Dismissal', 'The result of closing open failures', {
  id: dismissalId,
  status: Type.Literal('done'),
  total: Type.Integer({ description: 'Open failures that matched' }),
  dismissed: Type.Integer({ description: 'Of these, closed' }),
  skipped: Type.Integer({
    description: 'Of these, still open: being redelivered, or not passed by the event stream yet',
  }),
  created_at: time,
  created_by: Type.String({ description: 'Id of the client' }),
});

/** What a dismissal would do. */
export const dismissalPreview = component(
  'DismissalPreview',
  'The open failures that a dismissal matches',
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

export type DismissalSent = Static<typeof dismissalCreate>;
export type DismissalShown = Static<typeof dismissal>;
export type DismissalPreviewShown = Static<typeof dismissalPreview>;
