import { Type } from 'typebox';
import { closed, eventType, sentTime } from './schema.ts';

/** Query of a pull. */
export const pullQuery = closed({
  from: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1024,
      description: 'Offset to go on after; not together with from_timestamp',
    }),
  ),
  from_timestamp: Type.Optional(
    sentTime('Time from which on accepted events are sent, from the oldest retained one'),
  ),
  event_type: Type.Optional(
    Type.Array(eventType, {
      minItems: 1,
      maxItems: 100,
      description: 'Event types, repeatable; every type unless sent',
    }),
  ),
});

/** Headers of a pull. */
export const pullHeaders = closed({
  'Last-Event-ID': Type.Optional(
    Type.String({ description: 'Offset of the last event that was read; overrides from' }),
  ),
});

/** Response of a pull. */
export const pullBody = Type.String({
  description:
    'Server-sent events. Each has its event type as event, its offset as id, and the JSON object {"offset", "event"} as data. An offset-only event moves the offset past events that the filter excludes. An error event {"error": {"code", "message", "offset"}} precedes an early end of the connection.',
});
