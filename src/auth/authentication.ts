import type { Millis } from '../core/clock.ts';
import type { Client, Tenant } from '../core/types.ts';
import type { ClientStore } from '../store/port/clients.ts';
import { authenticateByAssertion } from './assertion.ts';
import { secretMatches } from './clients.ts';
import type { ParameterName, Parameters } from './parameters.ts';
import { invalidClient, invalidRequest, missingParameter, type TokenError } from './token-error.ts';

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

/** The client authentication methods, for the discovery documents. */
export const authenticationMethods: readonly string[] = [
  'client_secret_post',
  'client_secret_basic',
  'private_key_jwt',
];

/** The parts of a token request that authenticate its client. */
export interface AuthenticationRequest {
  readonly tenant: Tenant;
  readonly issuer: string;
  /** The `Authorization` header. */
  readonly authorization: string | undefined;
  readonly parameters: Parameters;
  readonly now: Millis;
}

/** Authenticates the client by exactly one method (RFC 6749 section 2.3). */
export async function authenticateClient(
  clients: Pick<ClientStore, 'get' | 'useAssertion'>,
  request: AuthenticationRequest,
): Promise<Client | TokenError> {
  const { parameters, tenant } = request;
  const authorization = request.authorization?.trim() || undefined;
  const secret = parameters.get('client_secret');
  const assertion = parameters.get('client_assertion');
  const methods = [authorization, secret, assertion].filter((method) => method !== undefined);
  if (methods.length > 1) return invalidRequest('More than one client authentication method');

  if (authorization !== undefined) return byBasic(clients, tenant, authorization, parameters);
  if (assertion !== undefined) return byAssertion(clients, request, assertion);
  const clientId = parameters.get('client_id');
  if (clientId === undefined) return missingParameter('client_id');
  const client = await bySecret(clients, tenant, clientId, [secret ?? '']);
  return client ?? invalidClient(tenant.domain);
}

async function byBasic(
  clients: Pick<ClientStore, 'get'>,
  tenant: Tenant,
  authorization: string,
  parameters: Parameters,
): Promise<Client | TokenError> {
  const failed = invalidClient(tenant.domain);
  const credentials = basicCredentials(authorization);
  if (credentials === undefined) return failed;
  const { clientId, secrets } = credentials;
  if ((parameters.get('client_id') ?? clientId) !== clientId) {
    return invalidRequest('client_id differs from that of the Authorization header');
  }
  return (await bySecret(clients, tenant, clientId, secrets)) ?? failed;
}

async function byAssertion(
  clients: Pick<ClientStore, 'get' | 'useAssertion'>,
  { parameters, ...request }: AuthenticationRequest,
  assertion: string,
): Promise<Client | TokenError> {
  const typeName: ParameterName = 'client_assertion_type';
  const type = parameters.get(typeName);
  if (type === undefined) return missingParameter(typeName);
  if (type !== ASSERTION_TYPE) return invalidRequest(`${typeName} is not ${ASSERTION_TYPE}`);
  const clientId = parameters.get('client_id');
  const client = await authenticateByAssertion(clients, { ...request, assertion, clientId });
  return client ?? invalidClient(request.tenant.domain);
}

/** Compares even if there is no such client: the response time must not reveal which ids exist. */
async function bySecret(
  clients: Pick<ClientStore, 'get'>,
  tenant: Tenant,
  clientId: string,
  secrets: readonly string[],
): Promise<Client | undefined> {
  const client = await clients.get(tenant.id, clientId);
  const secretHash = client?.issuer === undefined ? client?.secretHash : undefined;
  const matching = secrets.map((secret) => secretMatches(secret, secretHash));
  return matching.includes(true) ? client : undefined;
}

interface BasicCredentials {
  readonly clientId: string;
  /** Both decodings of the secret: form encoding (RFC 6749) writes a blank as `+`, others do not. */
  readonly secrets: readonly string[];
}

/** RFC 6749 section 2.3.1: id and secret, each percent-encoded, joined by a colon, in base64. */
function basicCredentials(authorization: string): BasicCredentials | undefined {
  const encoded = /^basic +(?<base64>[A-Za-z0-9+/_-]+={0,2})$/i.exec(authorization)?.groups;
  const text = Buffer.from(encoded?.['base64'] ?? '', 'base64').toString();
  const colon = text.indexOf(':');
  if (colon < 1) return undefined;
  const secret = text.slice(colon + 1);
  try {
    const secrets = [secret, secret.replaceAll('+', ' ')].map(decodeURIComponent);
    const clientId = decodeURIComponent(text.slice(0, colon));
    return clientId.includes('\0') ? undefined : { clientId, secrets };
  } catch {
    return undefined;
  }
}
