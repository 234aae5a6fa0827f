import { Type, type Static, type TSchema } from 'typebox';
import { deliveryOptions } from './delivery-options.ts';
import {
  closed,
  component,
  eventType,
  next,
  pageQuery,
  sentName,
  streamId,
  time,
} from './schema.ts';
import { printable, printableWithoutColon } from './text-patterns.ts';

const status = Type.Union([Type.Literal('enabled'), Type.Literal('disabled')], {
  description: 'Whether events are sent',
});

const name = 'Name of the event stream';
const nameSent = Type.Optional(sentName(128, name));

const subscription = closed({ event_type: eventType }, { description: 'An event type' });
const subscriptionsText = 'Event types that are sent';
/** Every node that delivers reads all of them, and every list contains them. */
const subscriptionsMax = 1000;

/** Without control characters, because the value becomes part of a header. */
const secret = (description: string): ReturnType<typeof Type.String> =>
  Type.String({
    minLength: 1,
    maxLength: 4096,
    pattern: printable,
    writeOnly: true,
    examples: ['a secret of yours'],
    description,
  });

const method = <M extends string>(value: M): ReturnType<typeof Type.Literal<M>> =>
  Type.Literal(value, {
    description:
      'How requests are authorized: basic, bearer, custom_header, oauth2_client_credentials',
  });

const username = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: printableWithoutColon,
  examples: ['leat'],
  description: 'User name without a colon',
});
const headerKey = Type.String({
  minLength: 1,
  maxLength: 256,
  pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z\\-]+$",
  examples: ['X-Api-Key'],
  description: 'Name of the header',
});
const password = secret('Password');
const token = secret('Bearer token');
const headerValue = secret('Value of the header');

const clientSecret = secret('Client secret');
const client = {
  token_endpoint: Type.String({
    minLength: 1,
    maxLength: 2048,
    examples: ['https://login.example.com/oauth/token'],
    description: 'https URL that access tokens are fetched from, without user info and fragment',
  }),
  client_id: Type.String({
    minLength: 1,
    maxLength: 256,
    pattern: printable,
    examples: ['leat'],
    description: 'Client id',
  }),
  scope: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1024,
      pattern: '^[!#-\\[\\]-~]+( [!#-\\[\\]-~]+)*$',
      examples: ['events:write'],
      description: 'Scopes of the token, separated by one space',
    }),
  ),
  audience: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1024,
      pattern: printable,
      examples: ['https://hooks.example.com/'],
      description: 'API that the token is for',
    }),
  ),
};

const authorizationText = { description: 'How requests to the endpoint are authorized' };

const authorizationSent = Type.Union(
  [
    closed({ method: method('basic'), username, password }),
    closed({ method: method('bearer'), token }),
    closed({
      method: method('custom_header'),
      header_key: headerKey,
      header_value: headerValue,
    }),
    closed({
      method: method('oauth2_client_credentials'),
      ...client,
      client_secret: clientSecret,
    }),
  ],
  authorizationText,
);

const authorizationPatch = Type.Union(
  [
    closed({ method: method('basic'), username, password: Type.Optional(password) }),
    closed({ method: method('bearer'), token: Type.Optional(token) }),
    closed({
      method: method('custom_header'),
      header_key: headerKey,
      header_value: Type.Optional(headerValue),
    }),
    closed({
      method: method('oauth2_client_credentials'),
      ...client,
      client_secret: Type.Optional(clientSecret),
    }),
  ],
  authorizationText,
);

const authorizationShown = Type.Union(
  [
    closed({ method: method('basic'), username }),
    closed({ method: method('bearer') }),
    closed({ method: method('custom_header'), header_key: headerKey }),
    closed({ method: method('oauth2_client_credentials'), ...client }),
  ],
  { description: 'Without its secret, which is never returned' },
);

const endpoint = Type.String({
  minLength: 1,
  maxLength: 2048,
  examples: ['https://hooks.example.com/leat'],
  description: 'https URL that events are posted to, without user info and fragment',
});

const certificateText =
  'Certificate of the client in PEM, followed by its intermediate certificates';
const certificate = Type.String({ minLength: 1, maxLength: 32_768, description: certificateText });
const privateKey = Type.String({
  minLength: 1,
  maxLength: 16_384,
  writeOnly: true,
  examples: ['a secret of yours'],
  description: 'Private key of the certificate in PEM, not encrypted',
});
const certificateUse = 'Certificate that is shown to the endpoint in TLS; null for none';
/** The shown one may be sent back. */
const expiresAt = Type.Optional(
  Type.String({ maxLength: 30, description: 'Read only: when the certificate expires; ignored' }),
);

const certificateSent = Type.Optional(
  Type.Union(
    [closed({ certificate, private_key: privateKey, expires_at: expiresAt }), Type.Null()],
    { description: certificateUse },
  ),
);
const certificatePatch = Type.Optional(
  Type.Union(
    [
      closed({ certificate, private_key: Type.Optional(privateKey), expires_at: expiresAt }),
      Type.Null(),
    ],
    { description: `${certificateUse}; absent for the present one` },
  ),
);
const certificateShown = Type.Optional(
  closed(
    { certificate, expires_at: time },
    { description: 'Without its key, which is never returned; absent for none' },
  ),
);

const destination = <A extends TSchema, C extends TSchema>(
  authorization: A,
  clientCertificate: C,
) =>
  closed(
    {
      type: Type.Literal('webhook', { description: 'Kind of destination: webhook' }),
      configuration: closed(
        {
          webhook_endpoint: endpoint,
          webhook_authorization: authorization,
          client_certificate: clientCertificate,
        },
        { description: 'Where and how' },
      ),
    },
    { description: 'Where events are sent' },
  );

/** An event stream in responses. */
export const stream = component('EventStream', 'An event stream', {
  id: streamId,
  status,
  name: Type.String({ description: name }),
  subscriptions: Type.Array(subscription, { description: subscriptionsText }),
  created_at: time,
  updated_at: time,
  destination: destination(authorizationShown, certificateShown),
  delivery: Type.Optional(deliveryOptions),
});

/** Query of the list. */
export const streamsQuery = closed(pageQuery);

/** A page of event streams. */
export const streams = closed({ eventStreams: Type.Array(stream), next });

/** The description of `start_from`, which error messages repeat. */
export const startFromText =
  'Where the event stream begins in the event log: now, an offset or a date (RFC 3339)';

/** Body of a create. */
export const streamCreate = component('EventStreamCreate', 'A new event stream', {
  destination: destination(authorizationSent, certificateSent),
  delivery: Type.Optional(deliveryOptions),
  name: nameSent,
  subscriptions: Type.Optional(
    Type.Array(subscription, {
      minItems: 1,
      maxItems: subscriptionsMax,
      description: subscriptionsText,
    }),
  ),
  status: Type.Optional(status),
  start_from: Type.Optional(Type.String({ minLength: 1, description: startFromText })),
});

/** Body of an update: any subset. */
export const streamPatch = component('EventStreamPatch', 'Changes of an event stream', {
  destination: Type.Optional(destination(authorizationPatch, certificatePatch)),
  delivery: Type.Optional(
    Type.Union([deliveryOptions, Type.Null()], {
      description: 'Replaces all options of delivery; null removes them',
    }),
  ),
  name: nameSent,
  subscriptions: Type.Optional(
    Type.Array(subscription, { maxItems: subscriptionsMax, description: subscriptionsText }),
  ),
  status: Type.Optional(status),
  resume: Type.Optional(
    Type.Union([Type.Literal('latest'), Type.Literal('held')], {
      description: 'Only beside status enabled: whether events of the disabled time are sent',
    }),
  ),
});

/** Body of a rotation. */
export const rotation = closed(
  {
    force: Type.Optional(
      Type.Boolean({
        description: 'Whether a previous secret that is still valid ends now; without it: 409',
      }),
    ),
    overlap_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 604_800,
        description: 'Time for which the former secret stays valid, in seconds; default: 86400',
      }),
    ),
  },
  { description: 'How the secret is rotated' },
);

/** A signing secret in responses. */
export const signingSecret = component(
  'SigningSecret',
  'The secret that signs requests to the endpoint',
  {
    secret: Type.String({ description: 'whsec_ and the base64 of 32 bytes (Standard Webhooks)' }),
    created_at: time,
    previous_expires_at: Type.Optional(time),
  },
);

export type SigningSecretShown = Static<typeof signingSecret>;
export type StreamShown = Static<typeof stream>;
export type DestinationSent = Static<
  ReturnType<typeof destination<typeof authorizationPatch, typeof certificatePatch>>
>;
export type StreamPatchSent = Static<typeof streamPatch>;
