import {
  allowInsecureRequests,
  AuthorizationResponseError,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  type Configuration,
  customFetch,
  type CustomFetchOptions,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
} from 'openid-client';
import type { Clock } from '../core/clock.ts';
import type { Claims } from '../core/claim-path.ts';
import { printable } from '../core/setting.ts';
import { isLoopback } from '../core/value.ts';
import { causeOf, fetchBounded, type FetchBounds, type FetchDeps } from './bounded-fetch.ts';
import { createTtlCache } from './ttl-cache.ts';

/** The operator's OpenID provider, as a client of it sees it (OpenID Connect Core section 3.1). */
export interface OpenIdProvider {
  /** Returns the URL of the provider that the browser is sent to. */
  authorizationUrl(login: Login): Promise<{ readonly url: URL } | SignInFailure>;
  /**
   * Redeems the code that a browser brings back, and returns what the provider says about the person.
   * Asks the userinfo endpoint too when the ID token lacks one of `wanted`.
   *
   * @param query the query of the request to the redirect URI
   */
  claims(
    login: Login,
    query: string,
    wanted: ReadonlySet<string>,
  ): Promise<{ readonly claims: Claims } | SignInFailure>;
}

/** One sign-in: the values that tie the response of the provider to the browser that began it. */
export interface Login {
  readonly redirectUri: string;
  readonly state: string;
  readonly nonce: string;
  /** RFC 7636 section 4.1. */
  readonly codeVerifier: string;
}

/** Why nobody is signed in. `reason` is for the log of the operator; it has no secret. */
export interface SignInFailure {
  readonly failure: 'access_denied' | 'provider_unavailable' | 'failed';
  readonly reason: string;
}

export interface OpenIdProviderDeps extends FetchDeps {
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  readonly settings: OpenIdClient;
  readonly limits: FetchBounds & {
    /** How long the discovery document is used. */
    readonly discoveryMs: number;
  };
}

/** The client that the operator has registered at the provider. */
export interface OpenIdClient {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Scopes to ask for; by default `openid email profile`, and `groups` if the provider lists it. */
  readonly scopes?: readonly string[] | undefined;
}

/** Creates the provider; the first sign-in fetches its discovery document. */
export function createOpenIdProvider(deps: OpenIdProviderDeps): OpenIdProvider {
  const { clock, limits } = deps;
  const cache = createTtlCache<Configuration>({
    clock,
    freshMs: limits.discoveryMs,
    entriesMax: 1,
  });
  /** Whatever is wrong with the discovery document, another sign-in may find it right. */
  const configuration = async (): Promise<{ config: Configuration } | SignInFailure> => {
    try {
      return { config: await cache.get('', () => discover(deps)) };
    } catch (error) {
      return { failure: 'provider_unavailable', reason: reasonOf(error) };
    }
  };
  return {
    authorizationUrl: async (login) => {
      const found = await configuration();
      if ('failure' in found) return found;
      try {
        return { url: await authorizationUrl(found.config, login, deps.settings.scopes) };
      } catch (error) {
        return failureOf(error);
      }
    },
    claims: async (login, query, wanted) => {
      const found = await configuration();
      if ('failure' in found) return found;
      try {
        return { claims: await claimsFrom(found.config, login, query, wanted) };
      } catch (error) {
        return failureOf(error);
      }
    },
  };
}

async function discover(deps: OpenIdProviderDeps): Promise<Configuration> {
  const { issuer, clientId, clientSecret } = deps.settings;
  const isPlain = issuer.startsWith('http:');
  const config = await discovery(new URL(issuer), clientId, undefined, clientAuth(clientSecret), {
    [customFetch]: async (url, init) => fetchFromProvider(deps, url, init),
    // Without this the library trusts the connection to the token endpoint and verifies no signature.
    execute: [enableNonRepudiationChecks, ...(isPlain ? [allowInsecureRequests] : [])],
  });
  // The library accepts other issuers for some providers, whose ID tokens may be of any of their customers.
  const { issuer: named } = config.serverMetadata();
  if (URL.parse(named)?.href !== new URL(issuer).href) {
    throw new Error(`${issuer}: its discovery document is of another issuer, ${named}`);
  }
  return config;
}

/**
 * Authenticates the client as providers expect it by default, with HTTP Basic; in the body where the
 * discovery document does not list Basic (OpenID Connect Discovery section 3).
 */
function clientAuth(clientSecret: string): ClientAuth {
  const basic = ClientSecretBasic(clientSecret);
  const post = ClientSecretPost(clientSecret);
  return (server, ...request) => {
    const methods = server.token_endpoint_auth_methods_supported;
    const usesBasic = methods === undefined || methods.includes('client_secret_basic');
    (usesBasic ? basic : post)(server, ...request);
  };
}

/** A request to the provider that got no usable response. */
class ProviderRequestError extends Error {
  override readonly name = 'ProviderRequestError';
}

/** Fetches within the bounds; the library's own timeout is longer. */
async function fetchFromProvider(
  deps: OpenIdProviderDeps,
  url: string,
  { method, headers, body }: CustomFetchOptions,
): Promise<Response> {
  try {
    const { protocol, hostname } = new URL(url);
    // The discovery document of a provider on loopback could name any other address.
    if (protocol === 'http:' && !isLoopback(hostname)) throw new Error('it is not an https URL');
    const init = { method, headers, body: body ?? null };
    return await fetchBounded(deps, url, init, deps.limits, async (response, bytes) => {
      if (response.status >= 500) throw new Error(`status ${response.status}`);
      const content = await bytes();
      const { status } = response;
      return new Response(content.length > 0 ? content : null, {
        status,
        headers: response.headers,
      });
    });
  } catch (error) {
    throw new ProviderRequestError(`${url}: ${causeOf(error)}`, { cause: error });
  }
}

async function authorizationUrl(
  config: Configuration,
  login: Login,
  scopes = defaultScopes(config),
): Promise<URL> {
  return buildAuthorizationUrl(config, {
    redirect_uri: login.redirectUri,
    scope: scopes.join(' '),
    state: login.state,
    nonce: login.nonce,
    code_challenge: await calculatePKCECodeChallenge(login.codeVerifier),
    code_challenge_method: 'S256',
  });
}

function defaultScopes(config: Configuration): readonly string[] {
  const { scopes_supported: known = [] } = config.serverMetadata();
  return ['openid', 'email', 'profile', ...(known.includes('groups') ? ['groups'] : [])];
}

/** The library checks `iss` of the response (RFC 9207), `state`, and the ID token with its signature. */
async function claimsFrom(
  config: Configuration,
  login: Login,
  query: string,
  wanted: ReadonlySet<string>,
): Promise<Claims> {
  const url = new URL(login.redirectUri);
  url.search = query;
  const tokens = await authorizationCodeGrant(config, url, {
    expectedState: login.state,
    expectedNonce: login.nonce,
    pkceCodeVerifier: login.codeVerifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (claims === undefined) throw new Error('the token response has no ID token');
  // OpenID Connect Core section 3.1.3.7; the library compares it only where `aud` has several values.
  if (claims['azp'] !== undefined && claims['azp'] !== config.clientMetadata().client_id) {
    throw new Error('azp of the ID token is not the client');
  }
  const isMissing = [...wanted].some((claim) => !Object.hasOwn(claims, claim));
  if (!isMissing || config.serverMetadata().userinfo_endpoint === undefined) return claims;
  const further = await fetchUserInfo(config, tokens.access_token, claims.sub);
  return joined(claims, further);
}

/** Returns the claims of both; those of the ID token count, and an address unverified in either is. */
function joined(idToken: Claims, userinfo: Claims): Claims {
  const verified = Object.entries(userinfo).filter(
    ([name, value]) => name.endsWith('_verified') && value !== true && value !== 'true',
  );
  return { ...userinfo, ...idToken, ...Object.fromEntries(verified) };
}

function failureOf(error: unknown): SignInFailure {
  const reason = reasonOf(error);
  if (causesOf(error).some((each) => each instanceof ProviderRequestError)) {
    return { failure: 'provider_unavailable', reason };
  }
  if (!(error instanceof AuthorizationResponseError)) return { failure: 'failed', reason };
  return { failure: failures.get(error.error) ?? 'failed', reason };
}

/** By error code of RFC 6749 section 4.1.2.1. */
const failures: ReadonlyMap<string, SignInFailure['failure']> = new Map([
  ['access_denied', 'access_denied'],
  ['server_error', 'provider_unavailable'],
  ['temporarily_unavailable', 'provider_unavailable'],
]);

const reasonCharactersMax = 500;

/**
 * Returns the messages of an error and its causes, with error codes of the provider. Causes of the
 * library that are not errors are left out: they have tokens.
 */
function reasonOf(error: unknown): string {
  const messages = causesOf(error).map((each) =>
    'error' in each ? `${each.message} (${String(each.error)})` : each.message,
  );
  return printable([...new Set(messages)].join(': ')).slice(0, reasonCharactersMax);
}

const causesMax = 5;

/** Returns the error and those that caused it. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  for (let each = error; each instanceof Error && causes.length < causesMax; each = each.cause) {
    causes.push(each);
  }
  return causes;
}
