import { isValidAt } from '../core/streams.ts';
import { createHash } from 'node:crypto';
import type { Millis } from '../core/clock.ts';
import { deliveryBody } from '../core/envelope.ts';
import { traceHeaders } from '../core/trace.ts';
import type { OwnBytes } from '../core/own-bytes.ts';
import { decodeSecret, sign, signedText, signWithKey, type WebhookKey } from '../core/sign.ts';
import { needsWebhookKey } from '../core/streams.ts';
import type {
  Authorization,
  ClientCertificate,
  DeliveredEvent,
  SigningSecret,
  Stream,
} from '../core/types.ts';
import type { DeliverySettings } from './settings.ts';
import { type TokenOwner, tokenOwnerOf } from './http/access-tokens.ts';
import { basicOf } from './http/basic.ts';
import type { ClientIdentity } from './http/connect.ts';
import type { RequestNeeds } from './http/route.ts';
import type { WebhookRequest } from './http/transport.ts';

/** The parts of a request that are the same for every event of one version of a stream. */
export interface RequestTemplate extends RequestNeeds {
  readonly tenant: number;
  readonly origin: string;
  readonly path: string;
  readonly headers: readonly string[];
  /** `undefined` for the default. */
  readonly timeoutMs: number | undefined;
  /** Of the signing secrets, newest first; none with `v1a` alone. */
  readonly keys: readonly SigningKey[];
  /** Name of the header with the authorization. */
  readonly secretHeader: string;
  /** Signed with the key of the tenant, as `v1a`: for {@link signRequest}. */
  readonly hasKey: boolean;
  /** Removed from error messages. */
  readonly secrets: readonly string[];
  readonly stream: string;
  /** Of the stream. */
  readonly version: number;
  readonly attributePrefix: string;
}

interface SigningKey {
  readonly key: OwnBytes;
  readonly expiresAt: Millis | undefined;
}

/** Builds the template; done once per version of a stream. */
export function requestTemplateOf(
  { id, tenant, version, destination, delivery, signingSecrets }: Stream,
  settings: Pick<DeliverySettings, 'userAgent' | 'attributePrefix'>,
): RequestTemplate {
  const { origin, pathname, search } = new URL(destination.endpoint);
  const { header, secrets, token } = credentialsOf(tenant, destination.authorization);
  const { userAgent, attributePrefix } = settings;
  const own = Object.entries(delivery?.headers ?? {}).flatMap(([name, value]) => [
    name,
    headerText(value),
  ]);
  return {
    tenant,
    origin,
    path: `${pathname}${search}`,
    headers: [
      'content-type',
      'application/json',
      'user-agent',
      userAgent,
      ...acceptOf([...header, ...own]),
      ...header,
      ...own,
    ],
    timeoutMs: delivery?.timeoutMs,
    secretHeader: header[0] ?? 'authorization',
    keys: delivery?.signature === 'v1a' ? [] : signingSecrets.map(signingKeyOf),
    hasKey: needsWebhookKey(delivery),
    secrets: [...secrets, ...signingSecrets.map(({ secret }) => secret)],
    token,
    identity: identityOf(tenant, destination.clientCertificate),
    stream: id,
    version,
    attributePrefix,
  };
}

/**
 * Returns the header that every client sends: many firewalls refuse requests without one. A stream may have
 * its own.
 */
function acceptOf(headers: readonly string[]): readonly string[] {
  const hasOwn = headers.some((text, at) => at % 2 === 0 && text.toLowerCase() === 'accept');
  return hasOwn ? [] : ['accept', '*/*'];
}

function signingKeyOf({ secret, expiresAt }: SigningSecret): SigningKey {
  return { key: decodeSecret(secret), expiresAt };
}

/** What is sent of an event. */
export type SentEvent = Pick<DeliveredEvent, 'id' | 'body' | 'trace'>;

/**
 * Builds the request of docs/http-api.md#webhook-request for one event, signed at `now` with every
 * secret that has not expired by then (Standard Webhooks, Signature scheme).
 */
export function prepareRequest(
  template: RequestTemplate,
  event: SentEvent,
  now: Millis,
): WebhookRequest {
  const body = deliveryBody(event.body, template.attributePrefix, template.stream);
  const seconds = Math.floor(now / 1000);
  const signature = signWithSecrets(template, event.id, seconds, body, now);
  return requestOf(template, event, { body, seconds, signature });
}

/** Builds the same, signed with the key of the tenant, and with the secrets for `v1 v1a`. */
export async function signRequest(
  template: RequestTemplate,
  event: SentEvent,
  now: Millis,
  key: WebhookKey,
): Promise<WebhookRequest> {
  const body = deliveryBody(event.body, template.attributePrefix, template.stream);
  const seconds = Math.floor(now / 1000);
  const own = `v1a,${await signWithKey(key, signedText(event.id, seconds, body))}`;
  const others = signWithSecrets(template, event.id, seconds, body, now);
  const signature = others === '' ? own : `${others} ${own}`;
  const request = requestOf(template, event, { body, seconds, signature });
  request.headers.push('webhook-key-id', key.kid);
  return request;
}

function signWithSecrets(
  { keys }: RequestTemplate,
  id: string,
  seconds: number,
  body: string,
  now: Millis,
): string {
  const valid = keys.filter((each) => isValidAt(each, now));
  return sign(
    valid.map(({ key }) => key),
    id,
    seconds,
    body,
  );
}

function requestOf(
  template: RequestTemplate,
  event: SentEvent,
  signed: { readonly body: string; readonly seconds: number; readonly signature: string },
): WebhookRequest {
  const { body, seconds, signature } = signed;
  const own = ['webhook-id', event.id, 'webhook-timestamp', `${seconds}`];
  const headers = [...template.headers, ...own, 'webhook-signature', signature];
  if (event.trace !== undefined) headers.push(...traceHeaders(event.trace));
  const { tenant, stream, origin, path, secretHeader, timeoutMs, token, identity } = template;
  return {
    tenant,
    stream,
    origin,
    path,
    secretHeader,
    timeoutMs,
    token,
    identity,
    headers,
    body,
  };
}

interface Credentials {
  /** The header of docs/http-api.md#destination-authorization; empty where the transport adds it. */
  readonly header: readonly [name: string, value: string] | readonly [];
  /** The secrets, in every form that they are sent in. */
  readonly secrets: readonly string[];
  /** Whose access tokens are sent instead of a header that never changes. */
  readonly token?: TokenOwner | undefined;
}

function credentialsOf(tenant: number, authorization: Authorization): Credentials {
  if (authorization.method === 'basic') {
    const { username, password } = authorization;
    // RFC 7617 section 2, with the UTF-8 that its section 2.1 allows.
    const basic = Buffer.from(`${username}:${password}`, 'utf8').toString('base64');
    return { header: ['authorization', `Basic ${basic}`], secrets: [password, basic] };
  }
  if (authorization.method === 'bearer') {
    const { token } = authorization;
    return { header: ['authorization', `Bearer ${headerText(token)}`], secrets: [token] };
  }
  if (authorization.method === 'oauth2_client_credentials') {
    const { clientSecret } = authorization;
    const secrets = [clientSecret, basicOf(authorization)];
    return { header: [], secrets, token: tokenOwnerOf(tenant, authorization) };
  }
  const { headerKey, headerValue } = authorization;
  const secrets = [headerValue, ...withoutScheme(headerValue)];
  return { header: [headerKey, headerText(headerValue)], secrets };
}

/** Returns the identity, which no other tenant shares: what it has shown belongs to a connection. */
function identityOf(
  tenant: number,
  certificate: ClientCertificate | undefined,
): ClientIdentity | undefined {
  if (certificate === undefined) return undefined;
  const named = JSON.stringify([tenant, certificate.certificate, certificate.privateKey]);
  return { ...certificate, id: createHash('sha256').update(named).digest('base64url') };
}

/** Returns the credentials after a scheme (RFC 9110 section 11.4): a receiver may show them alone. */
function withoutScheme(headerValue: string): readonly string[] {
  const credentials = /^[A-Za-z][A-Za-z0-9-]* +(?<credentials>\S{8,})$/.exec(headerValue.trim());
  return Object.values(credentials?.groups ?? {});
}

/** Headers are written as Latin-1, one byte per character: in this form a text is sent as UTF-8. */
function headerText(value: string): string {
  return Buffer.from(value, 'utf8').toString('latin1');
}
