import { SignJWT } from 'jose';
import { firstCredentialsVersion } from '../core/clients.ts';
import type { Millis } from '../core/clock.ts';
import { type Client, type Grant, managementApiId, type Tenant } from '../core/types.ts';
import type { Store } from '../store/port/store.ts';
import { credentialsClaim } from './claims.ts';
import { authenticateClient } from './authentication.ts';
import { audienceOf, issuerOf, managementAudiences } from './issuer.ts';
import type { Keyring } from './keys.ts';
import { type Parameters, readParameters } from './parameters.ts';
import { tokenCharactersMax } from './signature.ts';
import { accessDenied, invalidScope, missingParameter, TokenError } from './token-error.ts';

const GRANT_TYPE = 'client_credentials';
const QUOTED_LENGTH_MAX = 100;

/** Issues access tokens to clients: RFC 6749 section 4.4, docs/http-api.md#token-endpoint. */
export interface TokenEndpoint {
  /** Handles a token request. Rejects with `StoreUnavailable` when the store cannot be reached. */
  issue(request: TokenRequest): Promise<HandledRequest>;
}

export interface TokenRequest {
  readonly tenant: Tenant;
  /** The `Authorization` header. */
  readonly authorization: string | undefined;
  /** The `Content-Type` header. */
  readonly contentType: string | undefined;
  readonly body: string;
  readonly now: Millis;
}

export interface TokenResponse {
  readonly status: number;
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;
}

/** The response to a token request, and what the audit log records of it. */
export interface HandledRequest {
  readonly response: TokenResponse;
  readonly audit: {
    /** The client that the request named, if it exists: any other text may be a secret. */
    readonly clientId: string | undefined;
    /** The audience of the token, or the code of the error. */
    readonly result: { readonly audience: string } | { readonly error: string };
  };
}

export interface TokenEndpointDeps {
  readonly store: Pick<Store, 'clients' | 'apis' | 'grants' | 'roles'>;
  readonly keyring: Pick<Keyring, 'signer'>;
  /** Returns whether the issuer of a tenant domain begins with `http://`. */
  readonly plainHttp: (domain: string) => boolean;
  /** LEAT_MANAGEMENT_TOKEN_SECONDS: lifetime of tokens for the management API. */
  readonly managementTokenSeconds: number;
}

/** Creates the token endpoint of all tenants. */
export function createTokenEndpoint(deps: TokenEndpointDeps): TokenEndpoint {
  return {
    issue: async (request) => {
      const issuer = issuerOf(request.tenant.domain, deps.plainHttp(request.tenant.domain));
      const { clients, found } = rememberingClient(deps.store.clients);
      const grant = await tokenGrantFor(deps, clients, issuer, request);
      const clientId = found()?.id;
      const refused = (error: TokenError): HandledRequest => ({
        response: errorResponse(error),
        audit: { clientId, result: { error: error.error } },
      });
      if (grant instanceof TokenError) return refused(grant);
      const token = await signToken(deps.keyring, issuer, request, grant);
      if (token.length > tokenCharactersMax) return refused(tooLong(token.length));
      const audit = { clientId, result: { audience: grant.target.identifier } };
      return { response: tokenResponse(token, grant), audit };
    },
  };
}

type ClientReader = Pick<Store['clients'], 'get' | 'useAssertion'>;

/** Returns the store of clients for one request, and the client that it has found there. */
function rememberingClient(store: ClientReader): {
  readonly clients: ClientReader;
  found(this: void): Client | undefined;
} {
  let found: Client | undefined;
  const get: ClientReader['get'] = async (tenant, id) => {
    found = await store.get(tenant, id);
    return found;
  };
  return { clients: { get, useAssertion: store.useAssertion }, found: () => found };
}

/** Returns the error response of RFC 6749 section 5.2. */
export function errorResponse({ status, error, description, headers }: TokenError): TokenResponse {
  const body = { error, error_description: description };
  return { status, body, headers: { ...uncached, ...headers } };
}

/** The content of a token. */
interface TokenGrant {
  readonly client: Client;
  readonly target: TargetApi;
  readonly scopes: readonly string[];
  readonly permissions: readonly string[] | undefined;
}

/** The API a token is for. */
interface TargetApi {
  /** Id of the API, as in grants. */
  readonly id: string;
  /** `aud` of the token, whichever form was requested. */
  readonly identifier: string;
  readonly lifetimeSeconds: number;
  /** Whether the token has a `permissions` claim: access control is on, with the `_authz` dialect. */
  readonly carriesPermissions: boolean;
}

/** Checks a token request; the order of the checks decides which error is returned. */
async function tokenGrantFor(
  { store, managementTokenSeconds }: TokenEndpointDeps,
  clients: ClientReader,
  issuer: string,
  { tenant, authorization, contentType, body, now }: TokenRequest,
): Promise<TokenGrant | TokenError> {
  const parameters = readParameters(contentType, body);
  if (parameters instanceof TokenError) return parameters;

  const unsupported = checkGrantType(parameters.get('grant_type'));
  if (unsupported !== undefined) return unsupported;

  const managementForms = managementAudiences(tenant.domain, issuer);
  const audience = audienceIn(parameters, managementForms);
  if (audience instanceof TokenError) return audience;

  const proof = { tenant, issuer, authorization, parameters, now };
  const client = await authenticateClient(clients, proof);
  if (client instanceof TokenError) return client;

  const target = managementForms.includes(audience)
    ? managementTarget(tenant, managementTokenSeconds)
    : await findTarget(store.apis, tenant, audience);
  if (target instanceof TokenError) return target;

  const grant = await findGrant(store.grants, client, target, audience);
  if (grant instanceof TokenError) return grant;

  const held = target.carriesPermissions ? await permissionsOf(store.roles, grant) : undefined;
  const requested = requestedScopes(parameters.get('scope'));
  if (requested === undefined) return { client, target, scopes: grant.scope, permissions: held };
  const missing = requested.filter((scope) => !(held ?? grant.scope).includes(scope));
  if (missing.length > 0) return notGranted(missing);
  return { client, target, scopes: requested, permissions: held && requested.toSorted() };
}

/** Returns the API that is asked for: by `audience`, or by `resource`, its name in RFC 8707 section 2. */
function audienceIn(
  parameters: Parameters,
  managementForms: readonly string[],
): string | TokenError {
  const [audience, resource] = [parameters.get('audience'), parameters.get('resource')];
  const sent = [audience, resource].filter((value) => value !== undefined);
  const areForms = sent.every((value) => managementForms.includes(value));
  if (new Set(sent).size > 1 && !areForms) {
    const description = 'audience and resource name two APIs: send one of them';
    return new TokenError(400, 'invalid_target', description);
  }
  return audience ?? resource ?? missingParameter('audience');
}

function checkGrantType(grantType: string | undefined): TokenError | undefined {
  if (grantType === undefined) return missingParameter('grant_type');
  if (grantType === GRANT_TYPE) return undefined;
  return new TokenError(400, 'unsupported_grant_type', 'Grant type not supported');
}

function managementTarget({ domain }: Tenant, lifetimeSeconds: number): TargetApi {
  const identifier = audienceOf(domain);
  return { id: managementApiId, identifier, lifetimeSeconds, carriesPermissions: false };
}

async function findTarget(
  apis: Pick<Store['apis'], 'get'>,
  tenant: Tenant,
  audience: string,
): Promise<TargetApi | TokenError> {
  const api = await apis.get(tenant.id, audience);
  // The store also finds APIs by id, which is not an audience.
  if (api?.identifier !== audience) {
    const management = audienceOf(tenant.domain);
    return accessDenied(`Service not found: ${cut(audience)}; the management API is ${management}`);
  }
  return {
    id: api.id,
    identifier: api.identifier,
    lifetimeSeconds: api.tokenLifetimeSeconds,
    carriesPermissions: api.enforcePolicies && api.tokenDialect === 'access_token_authz',
  };
}

async function findGrant(
  grants: Pick<Store['grants'], 'of'>,
  client: Client,
  target: TargetApi,
  audience: string,
): Promise<Grant | TokenError> {
  const grant = await grants.of(client.tenant, client.id, target.id);
  return grant ?? accessDenied(`Client is not authorized to access "${cut(audience)}".`);
}

/** Returns the requested scopes without duplicates; `undefined` if none was requested. */
function requestedScopes(parameter: string | undefined): readonly string[] | undefined {
  const requested = new Set(parameter?.split(' ').filter((word) => word !== ''));
  return requested.size === 0 ? undefined : [...requested];
}

function notGranted(scopes: readonly string[]): TokenError {
  return invalidScope(`Client has not been granted scopes: ${cut(scopes.join(' '))}`);
}

/** A token that both APIs would refuse helps nobody. */
function tooLong(characters: number): TokenError {
  return invalidScope(
    `The token would be too long: ${characters} characters, at most ${tokenCharactersMax}. Request fewer scopes with the parameter scope, or grant fewer`,
  );
}

/** Returns the scopes of the grant and the permissions of the client's roles, sorted, without duplicates. */
async function permissionsOf(
  roles: Pick<Store['roles'], 'permissionsOf'>,
  { tenant, client, api, scope }: Grant,
): Promise<string[]> {
  const ofRoles = await roles.permissionsOf(tenant, client, api);
  return [...new Set([...scope, ...ofRoles])].toSorted();
}

/** Signs the access token; its claims: docs/http-api.md#access-token-claims. */
async function signToken(
  keyring: Pick<Keyring, 'signer'>,
  issuer: string,
  { tenant, now }: TokenRequest,
  { client, target, scopes, permissions }: TokenGrant,
): Promise<string> {
  const { kid, key } = await keyring.signer(tenant.id, now);
  const issuedAt = Math.floor(now / 1000);
  return new SignJWT({
    iss: issuer,
    sub: `${client.id}@clients`,
    aud: target.identifier,
    iat: issuedAt,
    exp: issuedAt + target.lifetimeSeconds,
    azp: client.id,
    gty: 'client-credentials',
    ...credentialsField(client, target),
    ...scopeField(scopes),
    ...(permissions === undefined ? {} : { permissions }),
  })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid })
    .sign(key);
}

function tokenResponse(token: string, { target, scopes }: TokenGrant): TokenResponse {
  const body = {
    access_token: token,
    ...scopeField(scopes),
    expires_in: target.lifetimeSeconds,
    token_type: 'Bearer',
  };
  return { status: 200, body, headers: uncached };
}

/** Only the management API can tell whether the credentials are still those of the client. */
function credentialsField({ credentialsVersion }: Client, { id }: TargetApi): object {
  const isNeeded = id === managementApiId && credentialsVersion !== firstCredentialsVersion;
  return isNeeded ? { [credentialsClaim]: credentialsVersion } : {};
}

function scopeField(scopes: readonly string[]): { scope?: string } {
  return scopes.length === 0 ? {} : { scope: scopes.join(' ') };
}

const uncached = { 'cache-control': 'no-store', pragma: 'no-cache' };

function cut(text: string): string {
  return text.slice(0, QUOTED_LENGTH_MAX);
}
