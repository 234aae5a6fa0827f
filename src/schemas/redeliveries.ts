import { type Static, Type } from 'typebox';
import { atLeast, selectionFields } from './failures.ts';
import { closed, component, next, pageQuery, time } from './schema.ts';

const redeliveryId = Type.String({
  minLength: 26,
  maxLength: 26,
  pattern: '^rdl_[A-Za-z0-9]{22}$',
  format: 'redelivery-id',
  examples: ['rdl_5xJq2Vn8kYdW3tRbHs7McA'],
  description: 'Unique identifier for the redelivery',
});

/** Path of one redelivery. */
export const redeliveryParams = closed({ redelivery_id: redeliveryId });

/** Query of the list of redeliveries. */
export const redeliveriesQuery = closed(pageQuery);

/** Body of a redelivery: which open failures. */
export const redeliveryCreate = component(
  'RedeliveryCreate',
  'Which open failures to send again, combined with AND; at least one field that selects, or all',
  selectionFields,
);

/** A redelivery of many failures and its progress. */
export const redeliveryProgress = component(
  'RedeliveryProgress',
  'Failures of one or more event streams that are sent again',
  {
    id: redeliveryId,
    status: Type.Union([Type.Literal('running'), Type.Literal('done'), Type.Literal('cancelled')]),
    total: Type.Integer({ description: 'Failures that matched when it was accepted' }),
    at_least: atLeast,
    delivered: Type.Integer({ description: 'Of these, delivered since' }),
    failed: Type.Integer({ description: 'Of these, failed again' }),
    skipped: Type.Integer({
      description:
        'Of these, not sent: under redelivery already, closed before their turn, cancelled, or their event stream was deleted',
    }),
    remaining: Type.Integer({ description: 'Of these, not over yet' }),
    created_at: time,
    created_by: Type.String({
      description: 'Id of the client; for a session of the console `console:` and its user',
    }),
  },
);

/** A page of redeliveries. */
export const redeliveries = closed(
  { redeliveries: Type.Array(redeliveryProgress), next },
  { description: 'Newest first' },
);

export type RedeliveriesShown = Static<typeof redeliveries>;
export type RedeliveryShown = Static<typeof redeliveryProgress>;
