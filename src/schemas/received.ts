import { type Static, Type } from 'typebox';
import { closed, component, time } from './schema.ts';

const status = Type.Integer({
  minimum: 200,
  maximum: 599,
  examples: [503],
  description: 'HTTP status of the response',
});
const delayText = 'Time until the response, in milliseconds';
const delay = Type.Integer({ minimum: 0, maximum: 30_000, examples: [0], description: delayText });
const timesText = 'Number of requests that get it; later ones get 204 at once';
const times = Type.Integer({ minimum: 1, maximum: 1000, examples: [3], description: timesText });

/** Body that sets the answer of an inspector. */
export const answerSent = component(
  'InspectorAnswer',
  'The response of an inspector to its next requests',
  { status, delay_ms: Type.Optional(delay), times: Type.Optional(times) },
);

/** The answer in responses. */
export const answer = closed(
  {
    status,
    delay_ms: delay,
    times: Type.Optional(
      Type.Integer({ description: 'Number of requests that get it; absent: all' }),
    ),
  },
  { description: 'The response to the next request' },
);

const request = closed(
  {
    received_at: time,
    method: Type.Literal('POST', { description: 'Always POST' }),
    path: Type.String({ description: 'Path and query' }),
    headers: Type.Object(
      {},
      {
        additionalProperties: Type.String(),
        description: 'By name, in lower case; the value of the authorization is ***',
      },
    ),
    body: Type.String({ description: 'The body as it was sent' }),
    signature: Type.Union(
      [
        Type.Literal('valid'),
        Type.Literal('wrong'),
        Type.Literal('missing'),
        Type.Literal('unknown_key'),
        Type.Literal('unchecked'),
      ],
      {
        description:
          'Whether a signature matches a signing secret of the event stream (v1) or the key of the tenant that webhook-key-id names (v1a); unknown_key: it names none that is published; unchecked: none is of these versions',
      },
    ),
    status: Type.Optional(
      Type.Integer({ description: 'Status of the response; absent without one' }),
    ),
    error: Type.Optional(
      Type.String({ description: 'Why the attempt ended without a response, for example timeout' }),
    ),
  },
  { description: 'A request' },
);

/** What the inspector of a stream received. */
export const received = component('Received', 'What the inspector of an event stream received', {
  received: Type.Array(request, { maxItems: 50, description: 'Requests, newest first' }),
  answer,
});

export type ReceivedShown = Static<typeof received>;
