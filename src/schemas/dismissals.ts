import { Type, type Static } from 'typebox';
import { atLeast, selectionFields } from './failures.ts';
import { closed, component, time } from './schema.ts';

const dismissalId = Type.String({
  minLength: 26,
  maxLength: 26,
  pattern: '^dsm_[A-Za-z0-9]{22}$',
  format: 'dismissal-id',
  examples: ['dsm_5xJq2Vn8kYdW3tRbHs7McA'],
  description: 'Unique identifier for the dismissal',
});

/** Path of one dismissal. */
export const dismissalParams = closed({ dismissal_id: dismissalId });

/** Body of a dismissal: which open failures. */
export const dismissalCreate = component(
  'DismissalCreate',
  'Which open failures to close, combined with AND; at least one field that selects, or all',
  selectionFields,
);

/** A dismissal and its progress. */
export const dismissal = component(
  'Dismissal',
  'Open failures that are closed without being sent',
  {
    id: dismissalId,
    status: Type.Union([Type.Literal('running'), Type.Literal('done')]),
    total: Type.Integer({ description: 'Failures that matched when it was accepted' }),
    at_least: atLeast,
    dismissed: Type.Integer({ description: 'Of these, closed so far' }),
    skipped: Type.Integer({
      description:
        'Of these, not closed by it: under redelivery, not passed by the event stream yet, or closed in another way before their turn',
    }),
    reopened: Type.Integer({ description: 'Of the dismissed ones, opened again' }),
    created_at: time,
    created_by: Type.String({
      description: 'Id of the client; for a session of the console `console:` and its user',
    }),
  },
);

export type DismissalShown = Static<typeof dismissal>;
