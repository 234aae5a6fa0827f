import { type Static, type TSchema, Type } from 'typebox';
import { replay } from './replays.ts';
import { closed, component, next, pageQuery, streamId, time } from './schema.ts';
import { printable } from './text-patterns.ts';

const orNull = <S extends TSchema>(schema: S, description: string) =>
  Type.Union([schema, Type.Null()], { description });
const count = (description: string) => Type.Integer({ minimum: 0, description });
const atLeast = Type.Boolean({
  description:
    'Whether there may be more: at most 10,000 events of the log were read, fewer for a list',
});
const status = Type.Union([Type.Literal('enabled'), Type.Literal('disabled')]);

/** Body of a pause. */
export const pauseSent = closed(
  {
    reason: Type.Optional(
      Type.String({
        maxLength: 256,
        pattern: printable,
        examples: ['CRM upgrade'],
        description: 'Shown in the health; without control characters',
      }),
    ),
  },
  { description: 'Why the event stream is paused' },
);

const paused = closed({
  at: time,
  reason: orNull(Type.String(), 'As it was sent; null without one'),
});

const disabled = closed({
  reason: Type.Union(
    [
      Type.Literal('consecutive_failures'),
      Type.Literal('open_failures'),
      Type.Literal('gone'),
      Type.Literal('lag'),
      Type.Literal('by_hand'),
    ],
    { description: 'Why it was disabled' },
  ),
  at: time,
  last_error_code: orNull(Type.String(), 'Error code of its last failed attempt before'),
  waiting_events: count('Events of its types that it has not passed'),
  at_least: atLeast,
});

/** The state of a stream, as far as the store knows it. */
export const streamHealth = component('EventStreamHealth', 'How an event stream is doing', {
  event_stream_id: streamId,
  name: Type.String({ description: 'Its name' }),
  endpoint_host: Type.String({ description: 'Host of its endpoint' }),
  state: Type.Union(
    [
      Type.Literal('disabled'),
      Type.Literal('paused'),
      Type.Literal('failing'),
      Type.Literal('lagging'),
      Type.Literal('ok'),
    ],
    { description: 'The first that holds' },
  ),
  status,
  paused: orNull(paused, 'Null unless it is paused'),
  disabled: orNull(disabled, 'Null unless it is disabled'),
  failures: closed(
    {
      consecutive: count('Failed deliveries since the last success'),
      open: count('Open failures'),
      limit_consecutive: count('The event stream is disabled at so many consecutive failures'),
      limit_open: count('The event stream is disabled at so many open failures'),
    },
    { description: 'The failure counters and their limits' },
  ),
  lag: closed(
    {
      events: count('Events of its types after its stored cursor'),
      at_least: atLeast,
      seconds: Type.Number({ description: 'Age of the oldest of them; 0 without any' }),
    },
    { description: 'What it has not passed' },
  ),
  success_24h: orNull(
    Type.Number(),
    'Part of the deliveries of about the last 24 hours that succeeded, 0 to 1; null without any',
  ),
  p95_24h_ms: orNull(
    Type.Number(),
    'Milliseconds from acceptance to success that 95 % of the first deliveries of about the last 24 hours took at most; null without any',
  ),
  retrying: count('Deliveries that wait for an attempt'),
  in_flight: count('Deliveries whose attempt has been under way for more than a second'),
  in_flight_seconds: count('How long the oldest of them has been under way; 0 without any'),
  next_attempt_at: orNull(time, 'When the next of the waiting deliveries is due; null without any'),
  last_delivered_at: orNull(time, 'When its last success was recorded; null when not known'),
  last_failed_at: orNull(time, 'When its last failed attempt was recorded; null when not known'),
  failing_since: orNull(
    time,
    'When the oldest attempt began that failed since its last success, or that success if it was later; null without one',
  ),
  results_refused: orNull(
    closed({
      since: time,
      code: Type.String({ description: 'Error of the store: a SQLSTATE, or a code of SQLite' }),
    }),
    'Set while the store refuses to record results of the event stream, whose events wait and are sent again',
  ),
  signing_secrets: Type.Array(
    closed({ created_at: time, expires_at: orNull(time, 'Null for the present one') }),
    { description: 'Newest first, without the secrets' },
  ),
  replay: orNull(replay, 'The replay that is running; null without one'),
});

export const streamHealthText = {
  statuses: 'States, comma separated: disabled, paused, failing, lagging, ok',
  q: 'Part of the name or of the host of the endpoint, whatever its case; without control characters',
} as const;

const sort = Type.Union(
  [
    Type.Literal('name'),
    Type.Literal('-open_failures'),
    Type.Literal('-lag'),
    Type.Literal('-last_failed_at'),
  ],
  { default: 'name', description: 'Order; with a minus the largest first, then by id' },
);

/** The query of the health of all streams. */
export const streamHealthQuery = closed({
  ...pageQuery,
  statuses: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1024, description: streamHealthText.statuses }),
  ),
  q: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 256,
      pattern: printable,
      description: streamHealthText.q,
    }),
  ),
  sort: Type.Optional(sort),
});

/** A page of the health of streams. */
export const streamHealths = component('EventStreamHealths', 'How event streams are doing', {
  streams: Type.Array(streamHealth),
  total: Type.Integer({ description: 'Event streams on all pages' }),
  next,
  as_of: time,
});

export type StreamSort = Static<typeof sort>;
export type StreamHealthShown = Static<typeof streamHealth>;
export type StreamHealthsShown = Static<typeof streamHealths>;
