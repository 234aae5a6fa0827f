import {
  createLocalJWKSet,
  decodeJwt,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  jwtVerify,
  type JWTVerifyOptions,
} from 'jose';
import type { Millis } from '../core/clock.ts';
import type { Client, Tenant } from '../core/types.ts';
import type { ClientStore } from '../store/port/clients.ts';
import { LEEWAY_MS } from './claims.ts';
import { tokenEndpointOf } from './issuer.ts';

const ALGORITHMS = ['RS256', 'PS256', 'ES256'];
const AHEAD_MS_MAX = 5 * 60_000;
const ASSERTION_LENGTH_MAX = 8192;
const JTI_LENGTH_MAX = 255;

/** Signature algorithms of client assertions, for the discovery documents. */
export const assertionAlgorithms: readonly string[] = ALGORITHMS;

/** A client assertion as it came, and what it has to fit. */
export interface AssertionRequest {
  readonly tenant: Tenant;
  /** Of the tenant, as §2 defines it. */
  readonly issuer: string;
  readonly assertion: string;
  /** The parameter `client_id`, when it was sent. */
  readonly clientId: string | undefined;
  readonly now: Millis;
}

/**
 * `private_key_jwt` (RFC 7523 section 3): the client that signed the assertion, `undefined` when
 * anything about it is wrong. Each assertion is good once.
 */
export async function authenticateByAssertion(
  clients: Pick<ClientStore, 'get' | 'useAssertion'>,
  request: AssertionRequest,
): Promise<Client | undefined> {
  const { tenant, now } = request;
  const clientId = claimedClient(request);
  if (clientId === undefined) return undefined;
  const client = await clients.get(tenant.id, clientId);
  if (client?.jwks === undefined || client.issuer !== undefined) return undefined;
  const claims = await verifiedClaims(client.jwks, request, clientId);
  if (claims === undefined) return undefined;
  const { jti, exp = Infinity } = claims;
  if (exp * 1000 > now + AHEAD_MS_MAX + LEEWAY_MS) return undefined;
  if (typeof jti !== 'string' || jti === '' || jti.length > JTI_LENGTH_MAX) return undefined;
  // An `exp` between two seconds holds until the later one: the library counts whole seconds.
  const usedUntil = Math.ceil(exp) * 1000 + LEEWAY_MS;
  const fresh = await clients.useAssertion(tenant.id, clientId, jti, usedUntil);
  return fresh ? client : undefined;
}

/** Who the assertion says it is from, not believed yet. */
function claimedClient({ assertion, clientId }: AssertionRequest): string | undefined {
  if (assertion.length > ASSERTION_LENGTH_MAX) return undefined;
  try {
    const { iss, sub } = decodeJwt(assertion);
    return iss === sub && (clientId ?? iss) === iss ? iss : undefined;
  } catch {
    return undefined;
  }
}

/** The claims when signature, issuer, subject, audience and times hold. */
async function verifiedClaims(
  jwks: string,
  { issuer, assertion, now }: AssertionRequest,
  clientId: string,
): Promise<JWTPayload | undefined> {
  try {
    return await verifyWithAny(JSON.parse(jwks) as JSONWebKeySet, assertion, {
      algorithms: ALGORITHMS,
      issuer: clientId,
      subject: clientId,
      audience: audiencesOf(issuer),
      requiredClaims: ['exp', 'jti'],
      clockTolerance: LEEWAY_MS / 1000,
      currentDate: new Date(now),
    });
  } catch (error) {
    // A key that does not fit its algorithm is a TypeError; the client sent it, so it is refused.
    if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** Tries every key that fits when the assertion names none (RFC 7515 section 4.1.4). */
async function verifyWithAny(
  jwks: JSONWebKeySet,
  assertion: string,
  options: JWTVerifyOptions,
): Promise<JWTPayload | undefined> {
  try {
    return (await jwtVerify(assertion, createLocalJWKSet(jwks), options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    for await (const key of error) {
      const payload = await verifyWith(key, assertion, options);
      if (payload !== undefined) return payload;
    }
    return undefined;
  }
}

async function verifyWith(
  key: CryptoKey,
  assertion: string,
  options: JWTVerifyOptions,
): Promise<JWTPayload | undefined> {
  try {
    return (await jwtVerify(assertion, key, options)).payload;
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) return undefined;
    throw error;
  }
}

/** Clients know the issuer or the token endpoint, some of them only in its `https://` form. */
function audiencesOf(issuer: string): string[] {
  return [issuer, issuer.replace(/^http:/, 'https:')].flatMap((base) => [
    base,
    tokenEndpointOf(base),
    `${tokenEndpointOf(base)}/`,
  ]);
}
