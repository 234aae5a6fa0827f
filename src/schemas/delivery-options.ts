import { Type, type Static } from 'typebox';
import { component } from './schema.ts';

/** Node writes a header as one byte per character; blanks at the ends would get lost. */
const headerValue = Type.String({
  minLength: 1,
  maxLength: 1024,
  pattern: '^(?!\\s)[^\\p{Cc}]+(?<!\\s)$',
  description: 'Value of a header: printable characters, no blank at its ends',
});

/** The member `delivery` of an event stream. */
export const deliveryOptions = component(
  'EventStreamDelivery',
  'How events are delivered; what is absent has its default',
  {
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
    timeout_ms: Type.Optional(
      Type.Integer({
        minimum: 1000,
        maximum: 30_000,
        description: 'Timeout of a request in milliseconds, instead of LEAT_ATTEMPT_TIMEOUT_MS',
      }),
    ),
  },
);

export type DeliveryOptionsSent = Static<typeof deliveryOptions>;
