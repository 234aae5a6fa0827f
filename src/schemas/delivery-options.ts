import { Type, type Static } from 'typebox';
import { closed, component } from './schema.ts';
import { printableWithoutOuterBlanks } from './text-patterns.ts';

/** Node writes a header as one byte per character; blanks at the ends would get lost. */
const headerValue = Type.String({
  minLength: 1,
  maxLength: 1024,
  pattern: printableWithoutOuterBlanks,
  description: 'Value of a header: printable characters, no blank at its ends',
});

/** A condition over the envelope of an event; `core/filter.ts` checks it. */
export const filter = Type.Object(
  {},
  {
    examples: [{ 'data.object.app_metadata.plan': { $in: ['pro', 'team'] } }],
    description:
      'Condition over the envelope of an event, whose fields are paths with dots or JSON Pointers: events that do not match are passed',
  },
);

/** The member `delivery` of an event stream. */
export const deliveryOptions = component(
  'EventStreamDelivery',
  'How events are delivered; what is absent has its default',
  {
    retry: Type.Optional(
      Type.Union(
        [
          Type.Literal('quick'),
          Type.Literal('hours'),
          Type.Literal('days'),
          closed({
            delays_seconds: Type.Array(
              Type.Integer({ minimum: 1, maximum: 86_400, description: 'Seconds' }),
              { minItems: 1, maxItems: 20, description: 'Waits between the requests' },
            ),
            retry_4xx: Type.Optional(
              Type.Array(Type.Integer({ minimum: 400, maximum: 499, description: 'Status' }), {
                maxItems: 100,
                description: '4xx responses that are retried',
              }),
            ),
          }),
        ],
        { description: 'When a failed delivery is repeated: quick, hours, days, or the waits' },
      ),
    ),
    per_second: Type.Optional(
      Type.Number({
        minimum: 0.1,
        maximum: 10_000,
        description: 'Requests per second, over a second at most so many at once',
      }),
    ),
    headers: Type.Optional(
      Type.Record(Type.String(), headerValue, {
        maxProperties: 20,
        examples: [{ 'X-Environment': 'production' }],
        description: 'Headers of every request, by name; they are not secret',
      }),
    ),
    concurrency: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'Requests at once, at most LEAT_STREAM_CONCURRENCY',
      }),
    ),
    filter: Type.Optional(filter),
    order_by: Type.Optional(
      Type.String({
        maxLength: 256,
        examples: ['/data/object/user_id'],
        description:
          'Path into the envelope, with dots or a JSON Pointer: events with the same value there are sent one after the other; "" for all events of the stream',
      }),
    ),
    on_failure: Type.Optional(
      Type.Union([Type.Literal('continue'), Type.Literal('block')], {
        description:
          'With order_by, what follows a failed event: the next one with its value (continue, default), or none until it was redelivered or dismissed (block)',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        minimum: 1000,
        maximum: 30_000,
        description: 'Timeout of a request in milliseconds, instead of LEAT_ATTEMPT_TIMEOUT_MS',
      }),
    ),
    signature: Type.Optional(
      Type.Union([Type.Literal('v1'), Type.Literal('v1a'), Type.Literal('v1 v1a')], {
        description:
          'Signature of a request: v1 with the signing secret (default), v1a with the key of the tenant, or both',
      }),
    ),
  },
);

export type DeliveryOptionsSent = Static<typeof deliveryOptions>;
