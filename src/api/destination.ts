import type { Millis } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { isReservedHeader } from '../core/reserved-headers.ts';
import { inspectedBy, inspectorEndpointOf, newInspectorEndpoint } from '../core/inspector.ts';
import type { AuthorizationPatch, DestinationPatch } from '../core/streams.ts';
import type { Authorization, Destination } from '../core/types.ts';
import type { DestinationSent, StreamShown } from '../schemas/streams.ts';
import { readClientCertificate } from './client-certificate.ts';
import { formatViolation } from './http/violation.ts';
import { badBody, type Problem, quoted } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';

type EgressSettings = Pick<ApiSettings, 'allowHttpEndpoints' | 'blockedLiteral'>;

/** The stream of a destination; `isNew` before its creation. */
export interface DestinationOwner {
  readonly id: string;
  readonly isNew: boolean;
}

/** Checks a destination beyond its schema. Throws 400. */
export function destinationOf(
  sent: DestinationSent,
  owner: DestinationOwner,
  settings: EgressSettings,
  now: Millis,
): DestinationPatch {
  const { webhook_endpoint: endpoint, webhook_authorization: authorization } = sent.configuration;
  const reason = endpointViolation(endpoint, settings) ?? inspectorViolation(endpoint, owner);
  if (reason !== undefined) {
    const description = 'https URL that events are posted to, without user info and fragment';
    throw badBody(reason, 'destination.configuration.webhook_endpoint', description);
  }
  return {
    type: sent.type,
    endpoint: endpointFor(endpoint, owner),
    authorization: authorizationOf(authorization, settings),
    clientCertificate: certificateOf(sent.configuration, now),
  };
}

const certificateAt = 'destination.configuration.client_certificate';

function certificateOf(
  { webhook_endpoint: endpoint, client_certificate: sent }: DestinationSent['configuration'],
  now: Millis,
): DestinationPatch['clientCertificate'] {
  if (sent === undefined || sent === null) return sent;
  if (!/^https:/i.test(endpoint)) {
    const reason = 'A client certificate needs an https:// endpoint';
    throw badBody(reason, certificateAt, 'Certificate that is shown to the endpoint in TLS');
  }
  const read = readClientCertificate(sent, now);
  if (!('reason' in read)) return read;
  throw badBody(read.reason, `${certificateAt}.${read.field}`, certificateTexts[read.field]);
}

const certificateTexts = {
  certificate: 'Certificate of the client in PEM, followed by its intermediate certificates',
  private_key: 'Private key of the certificate in PEM, not encrypted',
};

/** Returns the error for a certificate without its key. */
export function keyMissing(): Problem {
  const reason =
    'Missing required property: private_key (required because the endpoint or the certificate changes; client_certificate null removes it)';
  return badBody(reason, `${certificateAt}.private_key`, certificateTexts.private_key);
}

/** Returns a destination for a response, without its secret. */
export function showDestination(destination: Destination): Shown {
  const { type, endpoint, authorization, clientCertificate } = destination;
  const configuration = {
    webhook_endpoint: endpoint,
    webhook_authorization: showAuthorization(authorization),
  };
  if (clientCertificate === undefined) return { type, configuration };
  const { certificate, expiresAt } = clientCertificate;
  const client_certificate = { certificate, expires_at: formatTime(expiresAt) };
  return { type, configuration: { ...configuration, client_certificate } };
}

type Shown = StreamShown['destination'];

/** Returns the field of a request that contains the secret. */
export function secretField(method: Authorization['method']): string {
  const fields = {
    basic: 'password',
    bearer: 'token',
    custom_header: 'header_value',
    oauth2_client_credentials: 'client_secret',
  };
  return fields[method];
}

function endpointViolation(endpoint: string, settings: EgressSettings): string | undefined {
  const url = URL.parse(endpoint);
  // The parser would drop white space and control characters and correct `\` and a missing `//`, so that
  // the URL would differ from the one sent.
  if (url === null || /[\s\p{Cc}\\]/u.test(endpoint) || !/^https?:\/\/[^/]/i.test(endpoint)) {
    return formatViolation('https-url', endpoint);
  }
  if (url.username !== '' || url.password !== '') return 'User info is not allowed in the URL';
  if (endpoint.includes('#')) return 'A fragment is not allowed in the URL';
  if (url.protocol === 'http:' && !settings.allowHttpEndpoints) return httpForbidden;
  const address = settings.blockedLiteral(url.hostname);
  return address === undefined ? undefined : `blocked address: ${address} (LEAT_EGRESS_ALLOW)`;
}

/** A stream has no inspector but its own: nobody reads what is sent to another one. */
function inspectorViolation(endpoint: string, { id, isNew }: DestinationOwner): string | undefined {
  if (inspectedBy(endpoint) === undefined) return undefined;
  const own = new URL(isNew ? newInspectorEndpoint : inspectorEndpointOf(id));
  if (new URL(endpoint).origin === own.origin) return undefined;
  const whose = isNew ? 'a new event stream' : 'this event stream';
  return `The inspector of ${whose} is ${isNew ? newInspectorEndpoint : inspectorEndpointOf(id)}`;
}

/** Returns the endpoint to store: that of a new stream's inspector gets the id of the stream. */
function endpointFor(endpoint: string, { id, isNew }: DestinationOwner): string {
  if (!isNew || inspectedBy(endpoint) === undefined) return endpoint;
  const { pathname, search } = new URL(endpoint);
  return `${inspectorEndpointOf(id).slice(0, -1)}${pathname}${search}`;
}

const httpForbidden =
  'http:// endpoints are not allowed; the operator can allow them with LEAT_ALLOW_HTTP_ENDPOINTS=true';

type AuthorizationSent = DestinationSent['configuration']['webhook_authorization'];

function authorizationOf(sent: AuthorizationSent, settings: EgressSettings): AuthorizationPatch {
  if (sent.method === 'oauth2_client_credentials') return clientOf(sent, settings);
  if (sent.method !== 'custom_header') return sent;
  const { method, header_key: headerKey, header_value: headerValue } = sent;
  if (isReservedHeader(headerKey)) {
    const at = 'destination.configuration.webhook_authorization.header_key';
    throw badBody(`Header not allowed: ${quoted(headerKey)}`, at, 'Name of the header');
  }
  return { method, headerKey, headerValue };
}

function clientOf(
  sent: AuthorizationSent & { readonly method: 'oauth2_client_credentials' },
  settings: EgressSettings,
): AuthorizationPatch {
  const reason = endpointViolation(sent.token_endpoint, settings);
  if (reason !== undefined) {
    const at = 'destination.configuration.webhook_authorization.token_endpoint';
    throw badBody(reason, at, 'https URL of the token endpoint, without user info and fragment');
  }
  const { method, scope, audience, client_secret: clientSecret } = sent;
  // An absent field differs from an undefined one when a change is compared with what is stored.
  return {
    method,
    tokenEndpoint: sent.token_endpoint,
    clientId: sent.client_id,
    ...(clientSecret === undefined ? {} : { clientSecret }),
    ...(scope === undefined ? {} : { scope }),
    ...(audience === undefined ? {} : { audience }),
  };
}

function showAuthorization(
  authorization: Authorization,
): Shown['configuration']['webhook_authorization'] {
  const { method } = authorization;
  if (method === 'basic') return { method, username: authorization.username };
  if (method === 'bearer') return { method };
  if (method === 'custom_header') return { method, header_key: authorization.headerKey };
  const { tokenEndpoint, clientId, scope, audience } = authorization;
  return {
    method,
    token_endpoint: tokenEndpoint,
    client_id: clientId,
    ...(scope === undefined ? {} : { scope }),
    ...(audience === undefined ? {} : { audience }),
  };
}
