import type { Clock, Millis } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';
import type { ClientAccess, ClientStore } from '../store/port/clients.ts';
import type { Store } from '../store/port/store.ts';
import type { Claims } from './claims.ts';
import { readCredentials } from './credentials.ts';
import { createTtlCache } from './ttl-cache.ts';
import { audienceOf, issuerOf, tokenEndpointOf } from './issuer.ts';
import type { Keyring } from './keys.ts';
import {
  createTokenVerifier,
  type KeySource,
  type RejectReason,
  tokenCharactersMax,
  type TokenVerification,
} from './signature.ts';

/** A change of a client or its grant takes effect within 2 s on every node (docs/http-api.md#revocation). */
const CLIENT_FRESH_MS = 1_000;
const CLIENTS_MAX = 10_000;
const QUOTED_LENGTH_MAX = 100;

/** Authenticates requests to the management API. */
export interface Verifier {
  /**
   * Verifies the `Authorization` header of a request to a tenant. Returns without a promise when
   * token and client are cached. Rejects with `StoreUnavailable` when the store cannot be read.
   */
  verify(
    tenant: Tenant,
    authorization: string | undefined,
    now: Millis,
  ): Authentication | Promise<Authentication>;
  /** Stops watching the store. */
  close(): void;
}

/**
 * `missing`: no bearer credentials. `invalid`: a 401 with this message. `unverifiable`: a 503, as the keys
 * of the issuer cannot be fetched now. `verified`: signature,
 * issuer, audience and times are valid; the response is still a 401 unless the token is `global` and
 * not `revoked`.
 */
export type Authentication =
  | { readonly kind: 'missing' }
  | { readonly kind: 'invalid'; readonly message: string }
  | { readonly kind: 'unverifiable' }
  | {
      readonly kind: 'verified';
      readonly token: VerifiedToken;
      /** The `kid` of the tenant's own key; absent for a token of a trusted issuer. */
      readonly signedWith: string | undefined;
      /** Returns the token as it counts for a client with this access. */
      tokenFor(access: ClientAccess | undefined): VerifiedToken;
    };

export interface VerifiedToken {
  readonly clientId: string;
  /** Those of the token that the client is granted now. */
  readonly scopes: readonly string[];
  readonly expiresAt: Millis;
  /** Whether the client's secret was replaced, or a key removed, after the token was issued. */
  readonly revoked: boolean;
  /** Whether the client is registered with this issuer and has the flag now. */
  readonly global: boolean;
  /** Key of the rate bucket: clients of different issuers never share one. */
  readonly bucket: string;
}

export interface VerifierDeps {
  readonly keyring: Pick<Keyring, 'keyFor'>;
  readonly clients: Pick<ClientStore, 'access'>;
  readonly watch: Store['watch'];
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /** Returns whether the issuer of a tenant domain begins with `http://`. */
  readonly plainHttp: (domain: string) => boolean;
  /** Keys of LEAT_TRUSTED_ISSUERS; other external issuers are not accepted. */
  readonly trusted?: ReadonlyMap<string, KeySource> | undefined;
}

/** Creates the verifier of the management API. */
export function createVerifier(deps: VerifierDeps): Verifier {
  const tokens = createTokenVerifier();
  const clients = createTtlCache<Registration>({
    clock: deps.clock,
    freshMs: CLIENT_FRESH_MS,
    entriesMax: CLIENTS_MAX,
  });
  const close = deps.watch((hint) => {
    if (hint.kind === 'client') clients.expire(keyOf(hint.tenant, hint.client));
  });

  const checkClient = (
    tenant: Tenant,
    ownIssuer: string,
    verification: TokenVerification,
  ): Authentication | Promise<Authentication> => {
    if (verification.kind === 'rejected') return refusalOf(verification, tenant, ownIssuer);
    const { clientId } = verification.claims;
    const read = async (): Promise<Registration> =>
      registrationOf(await deps.clients.access(tenant.id, clientId));
    const client = clients.get(keyOf(tenant.id, clientId), read);
    return client instanceof Promise
      ? client.then((settled) => authenticated(verification, settled, ownIssuer))
      : authenticated(verification, client, ownIssuer);
  };
  const identityOf = createIdentityReader(deps.plainHttp);

  return {
    verify: (tenant, authorization, now) => {
      const token = bearerToken(authorization);
      if (token === undefined) return { kind: 'missing' };
      const { issuer: ownIssuer, audience } = identityOf(tenant);
      const own: KeySource = { keyFor: (kid) => deps.keyring.keyFor(tenant.id, kid, now) };
      const keysOf = (issuer: string): KeySource | undefined =>
        issuer === ownIssuer ? own : deps.trusted?.get(issuer);
      const verification = tokens.verify(token, { audience, keysOf }, now);
      if (verification instanceof Promise)
        return verification.then((settled) => checkClient(tenant, ownIssuer, settled));
      return checkClient(tenant, ownIssuer, verification);
    },
    close,
  };
}

/** Issuer and audience of a tenant's own tokens. */
interface Identity {
  readonly issuer: string;
  readonly audience: string;
}

function createIdentityReader(plainHttp: VerifierDeps['plainHttp']): (tenant: Tenant) => Identity {
  const identities = new WeakMap<Tenant, Identity>();
  return (tenant) => {
    const known = identities.get(tenant);
    if (known !== undefined) return known;
    const { domain } = tenant;
    const identity = { issuer: issuerOf(domain, plainHttp(domain)), audience: audienceOf(domain) };
    identities.set(tenant, identity);
    return identity;
  };
}

/** What the store knows of a client, if there is one. */
type Registration = Registered | undefined;

interface Registered extends ClientAccess {
  readonly granted: ReadonlySet<string>;
  /** Its tokens that were seen: a token may have hundreds of scopes to compare. */
  readonly seen: WeakMap<Claims, Authentication>;
}

function registrationOf(access: ClientAccess | undefined): Registration {
  return access && { ...access, granted: new Set(access.scopes), seen: new WeakMap() };
}

/** Returns the token of the header; `undefined` if it has none. */
function bearerToken(authorization: string | undefined): string | undefined {
  const { scheme, parts } = readCredentials(authorization);
  // More than one part is not a token; the verifier rejects it.
  return scheme === 'bearer' && parts.length > 0 ? parts.join(' ') : undefined;
}

function authenticated(
  { claims, kid }: Extract<TokenVerification, { kind: 'valid' }>,
  client: Registration,
  ownIssuer: string,
): Authentication {
  const known = client?.seen.get(claims);
  if (known !== undefined) return known;
  const authentication: Authentication = {
    kind: 'verified',
    token: compared(claims, client, ownIssuer),
    signedWith: claims.issuer === ownIssuer ? kid : undefined,
    tokenFor: (access) => compared(claims, registrationOf(access), ownIssuer),
  };
  client?.seen.set(claims, authentication);
  return authentication;
}

function compared(claims: Claims, client: Registration, ownIssuer: string): VerifiedToken {
  const { clientId, expiresAt, issuer } = claims;
  const registered = client !== undefined && (client.issuer ?? ownIssuer) === issuer;
  const bucket = issuer === ownIssuer ? clientId : `${issuer} ${clientId}`;
  const global = registered && client.global;
  const scopes = registered ? scopesNow(claims, client) : [];
  const revoked = registered && isRevoked(claims, client);
  return { clientId, scopes, expiresAt, global, revoked, bucket };
}

/** Returns the scopes that still count. An external issuer alone decides about those of its tokens. */
function scopesNow({ scopes }: Claims, { issuer, granted }: Registered): readonly string[] {
  const counts = (scope: string): boolean => issuer !== undefined || granted.has(scope);
  return scopes.every(counts) ? scopes : scopes.filter(counts);
}

function isRevoked(claims: Claims, client: Registered): boolean {
  return client.issuer === undefined && claims.credentialsVersion !== client.credentialsVersion;
}

function refusalOf(
  { reason, audiences, expected }: Extract<TokenVerification, { kind: 'rejected' }>,
  { domain }: Tenant,
  ownIssuer: string,
): Authentication {
  if (reason === 'unavailable') return { kind: 'unverifiable' };
  if (reason !== 'audience') return { kind: 'invalid', message: messages[reason](ownIssuer) };
  const quoted = audiences.join(',').slice(0, QUOTED_LENGTH_MAX);
  const message = `Bad audience: ${quoted}, expected: ${expected ?? audienceOf(domain)}`;
  return { kind: 'invalid', message };
}

/** The 401 for a token that no present key has signed. */
export const badSignature = 'Invalid signature received for JSON Web Token validation';

/** The texts of docs/http-api.md#error-catalogue: nothing in them is from an unverified token. */
const messages: Readonly<
  Record<Exclude<RejectReason, 'audience' | 'unavailable'>, (ownIssuer: string) => string>
> = {
  too_long: () => `Token too long: it has more than ${tokenCharactersMax} characters`,
  malformed: (issuer) =>
    `Invalid token: it is no signed JSON Web Token with iss and exp; request one at ${tokenEndpointOf(issuer)}`,
  algorithm: () => 'Invalid token: its algorithm is not RS256',
  issuer: (issuer) =>
    `Invalid token: its issuer is neither ${issuer} nor one that is trusted; request one at ${tokenEndpointOf(issuer)}`,
  not_yet: () =>
    'Invalid token: it is not valid yet; compare the clocks of its issuer and of this server',
  signature: () => badSignature,
  expired: () => 'Expired token received for JSON Web Token validation',
};

function keyOf(tenant: number, client: string): string {
  return `${tenant}/${client}`;
}
