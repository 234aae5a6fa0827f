import { Type, type Static } from 'typebox';
import { selectionFields } from './failures.ts';
import { closed, component, time } from './schema.ts';

const dismissalId = Type.String({
  minLength: 26,
  maxLength: 26,
  pattern: '^dsm_[A-Za-z0-9]{22}$',
  format: 'dismissal-id',
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

export type DismissalShown = Static<typeof dismissal>;
