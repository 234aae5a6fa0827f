import type { JWTPayload } from 'jose';
import { firstCredentialsVersion } from '../core/clients.ts';
import type { Millis } from '../core/clock.ts';

/** Tolerated difference between the clocks of two machines. */
export const LEEWAY_MS = 5_000;

/** The claim of management tokens with the version of the client's credentials; absent at the first. */
export const credentialsClaim = 'credentials_version';

/** The claims of an access token that Leat uses, in one shape for all issuers. */
export interface Claims {
  readonly issuer: string;
  /** `azp`, else `client_id`; empty if the token has neither, or one that no client can have. */
  readonly clientId: string;
  readonly audiences: readonly string[];
  /** Minus infinity without `nbf`. */
  readonly notBefore: Millis;
  readonly expiresAt: Millis;
  /** The parts of `scope`; none if it is missing or not a string. */
  readonly scopes: readonly string[];
  /** Of Leat's own tokens: see `credentialsVersion` of a client. The first if it is missing. */
  readonly credentialsVersion: unknown;
  /** `undefined` if it is missing or not an array of strings. */
  readonly permissions: readonly string[] | undefined;
}

/**
 * Reads the claims (RFC 7519 section 4.1). Returns `undefined` if `iss`, `sub`, `exp`, `nbf`, `iat` or
 * `jti` has another type than it should, or `iss` or `exp` is missing.
 */
export function claimsOf(payload: JWTPayload): Claims | undefined {
  const { iss, sub, exp, nbf, iat, jti, scope } = payload as Record<string, unknown>;
  if (!isString(iss) || !isFiniteNumber(exp)) return undefined;
  if (nbf !== undefined && !isFiniteNumber(nbf)) return undefined;
  if (iat !== undefined && !isFiniteNumber(iat)) return undefined;
  if (![sub, jti].every((claim) => claim === undefined || isString(claim))) return undefined;
  return {
    issuer: iss,
    clientId: clientIdOf(payload),
    audiences: stringsOf(typeof payload.aud === 'string' ? [payload.aud] : payload.aud) ?? [],
    notBefore: nbf === undefined ? -Infinity : nbf * 1000,
    expiresAt: exp * 1000,
    scopes: typeof scope === 'string' ? scope.split(' ').filter((word) => word !== '') : [],
    credentialsVersion: payload[credentialsClaim] ?? firstCredentialsVersion,
    permissions: stringsOf(payload['permissions']),
  };
}

/** Returns why verified claims are not acceptable now, if so. To be called at each use of a token. */
export function claimsError(
  claims: Claims,
  audience: string,
  now: Millis,
): 'expired' | 'not_yet' | 'audience' | undefined {
  if (now >= claims.expiresAt + LEEWAY_MS) return 'expired';
  if (now < claims.notBefore - LEEWAY_MS) return 'not_yet';
  if (!claims.audiences.includes(audience)) return 'audience';
  return undefined;
}

/** A store refuses to search for U+0000. */
function clientIdOf({ azp, client_id: clientId }: JWTPayload): string {
  const id = [azp, clientId].find(isString) ?? '';
  return id.includes('\0') ? '' : id;
}

function stringsOf(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) && value.every(isString) ? value : undefined;
}

/** JSON can hold an infinite number, `1e999`: such a token would never expire. */
function isFiniteNumber(value: unknown): value is number {
  return Number.isFinite(value);
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}
