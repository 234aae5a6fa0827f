import {
  Type,
  type TObject,
  type TOptional,
  type TProperties,
  type TSchema,
  type TSchemaOptions,
  type TString,
} from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { withoutOuterBlanks } from './text-patterns.ts';

export type { Static, TSchema } from 'typebox';
export { IsUri as isUri, IsUriReference as isUriReference } from 'typebox/format';

/**
 * Returns a function that checks values against a schema. Its first call compiles the schema: the
 * program has some hundred schemas, and compiling them all would be a tenth of its start.
 */
export function compile(schema: TSchema): (value: unknown) => boolean {
  let validator: Validator | undefined;
  return (value) => (validator ??= Compile(schema)).Check(value);
}

/** Like {@link closed}, with further fields, which have no effect. */
export function extensible<P extends TProperties>(
  properties: P,
  options: TSchemaOptions = {},
): TObject<P> {
  return Type.Object(properties, { ...options, additionalProperties: true });
}

/** Returns a schema of objects with these properties and no others. */
export function closed<P extends TProperties>(
  properties: P,
  options: TSchemaOptions = {},
): TObject<P> {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

/** Names a schema, so that the API reference shows it once. */
export function named<S extends TSchema>(id: string, schema: S): S {
  return { ...schema, $id: id };
}

/** Returns a named schema of objects with these properties and no others. */
export function component<P extends TProperties>(
  id: string,
  description: string,
  properties: P,
): TObject<P> {
  return named(id, closed(properties, { description }));
}

/** The body of an error response (docs/http-api.md#error-body). */
export const problem = component('Error', 'An error', {
  statusCode: Type.Integer({ description: 'HTTP status' }),
  error: Type.String({ description: 'Reason phrase of the status' }),
  message: Type.String({ description: 'What is wrong, for people' }),
  errorCode: Type.Optional(
    Type.String({ description: 'What is wrong, for programs; only where one is documented' }),
  ),
  unknown: Type.Optional(
    Type.Literal(true, {
      description:
        'Only with 503: the change had reached the store, which did not say whether it is stored',
    }),
  ),
});

const idLength = { minLength: 26, maxLength: 26 };

/** Path parameter of an event stream. */
export const streamId = Type.String({
  ...idLength,
  pattern: '^est_[A-Za-z0-9]{22}$',
  format: 'event-stream-id',
  examples: ['est_MASi45ub7Qe4ZE36UT5G6c'],
  description: 'Unique identifier for the event stream',
});

/** Path of one event stream. */
export const streamParams = closed({ id: streamId });

/** Path parameter of an event. */
export const eventId = Type.String({
  ...idLength,
  pattern: '^evt_[A-Za-z0-9]{22}$',
  format: 'event-id',
  examples: ['evt_b8dLcukC7edhDQ7cn5d4gE'],
  description: 'Unique identifier for the event',
});

/** A name that a client sends: blanks at its ends would make two names that look the same. */
export const sentName = (lengthMax: number, what: string): ReturnType<typeof Type.String> =>
  Type.String({
    minLength: 1,
    maxLength: lengthMax,
    pattern: withoutOuterBlanks,
    format: 'name',
    description: `${what}, no blank at its ends`,
  });

/** Two or more segments, joined by dots. */
export const eventType = Type.String({
  maxLength: 128,
  pattern: '^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$',
  format: 'event-type',
  examples: ['user.created'],
  description: 'Event type: two or more segments of a-z, 0-9 and _, joined by dots',
});

/** A time that a client sends; the handler checks that it is valid. */
export const sentTime = (description: string): ReturnType<typeof Type.String> =>
  Type.String({ description: `${description} (RFC 3339)` });

/** A time in responses. */
export const time = Type.String({
  format: 'date-time',
  examples: ['2026-03-01T09:30:00.000Z'],
  description: 'ISO 8601, UTC, with milliseconds',
});

/** The query of a page. */
export const pageQuery = {
  take: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, default: 50, description: 'Items of a page' }),
  ),
  from: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1024,
      description: 'The next of the page before',
    }),
  ),
};

/** Returns the schema of a query parameter of other servers that does not choose which items come. */
export const accepted = (reason: string): TOptional<TString> =>
  Type.Optional(Type.String({ description: `Accepted without effect: ${reason}` }));

/** Returns the schema of one that would: it is 400 unless it is empty. */
export const unsupported = (reason: string): TOptional<TString> =>
  Type.Optional({
    ...Type.String({ description: `Refused: ${reason}` }),
    not: { minLength: 1 },
  });

/** Cursor of the next page; absent on the last one. */
export const next = Type.Optional(
  Type.String({ description: 'Pass it as from; absent at the end' }),
);

/** A body without data. */
export const emptyBody = closed({}, { description: 'Nothing' });
