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

/** A client assertion, and the values its claims must match. */
export interface AssertionRequest {
  readonly tenant: Tenant;
  /** Of the tenant (docs/http-api.md#issuer). */
  readonly issuer: string;
  readonly assertion: string;
  /** The parameter `client_id`, when it was sent. */
  readonly clientId: string | undefined;
  readonly now: Millis;
}

/**
 * Returns the client that signed the assertion (`private_key_jwt`, RFC 7523 section 3), or
 * `undefined` when anything about it is wrong. Each assertion is accepted once. It has exactly one
 * audience: another server that it names as well could present it here.
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
  const { aud, jti, exp = Infinity } = claims;
  if (Array.isArray(aud) && aud.length !== 1) return undefined;
  if (exp * 1000 > now + AHEAD_MS_MAX + LEEWAY_MS) return undefined;
  if (typeof jti !== 'string' || jti === '' || jti.length > JTI_LENGTH_MAX) return undefined;
  if (jti.includes('\0')) return undefined;
  // The library rounds times to whole seconds: a fractional `exp` is valid until the next second.
  const usedUntil = Math.ceil(exp) * 1000 + LEEWAY_MS;
  const fresh = await clients.useAssertion(tenant.id, clientId, jti, usedUntil);
  return fresh ? client : undefined;
}

/** Returns the client id that the assertion claims; its signature is not verified yet. */
function claimedClient({ assertion, clientId }: AssertionRequest): string | undefined {
  if (assertion.length > ASSERTION_LENGTH_MAX) return undefined;
  try {
    const { iss, sub } = decodeJwt(assertion);
    const isOne = iss === sub && (clientId ?? iss) === iss;
    // The store does not search for such a text.
    return isOne && iss?.includes('\0') !== true ? iss : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the claims if signature, issuer, subject, audience and times are valid. */
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
    // jose throws a TypeError for a key of the wrong type; the client registered it.
    if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** Tries every suitable key when the assertion has no `kid` (RFC 7515 section 4.1.4). */
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

/** Clients send the issuer or the token endpoint as audience, some always with `https://`. */
function audiencesOf(issuer: string): string[] {
  return [issuer, issuer.replace(/^http:/, 'https:')].flatMap((base) => [
    base,
    tokenEndpointOf(base),
    `${tokenEndpointOf(base)}/`,
  ]);
}
