import type { JWTPayload } from 'jose';
import type { Millis } from '../core/clock.ts';

/** Clocks of two machines may differ by this much. */
export const LEEWAY_MS = 5_000;

/** What Leat reads of an access token, in one shape whoever issued it. */
export interface Claims {
  readonly issuer: string;
  /** `azp`, else `client_id`; empty when the token names no client. */
  readonly clientId: string;
  readonly audiences: readonly string[];
  /** Minus infinity when the token does not say. */
  readonly notBefore: Millis;
  readonly expiresAt: Millis;
  /** Of `scope`; none when it is missing or no string. */
  readonly scopes: readonly string[];
  /** `undefined` when it is missing or no array of strings. */
  readonly permissions: readonly string[] | undefined;
}

/** Reads the claims (RFC 7519 section 4.1). `undefined` when one that decides has no meaning. */
export function claimsOf(payload: JWTPayload): Claims | undefined {
  const { iss, exp, nbf, scope } = payload as Record<string, unknown>;
  if (typeof iss !== 'string' || !isFiniteNumber(exp)) return undefined;
  if (nbf !== undefined && !isFiniteNumber(nbf)) return undefined;
  return {
    issuer: iss,
    clientId: [payload['azp'], payload['client_id']].find(isString) ?? '',
    audiences: stringsOf(typeof payload.aud === 'string' ? [payload.aud] : payload.aud) ?? [],
    notBefore: nbf === undefined ? -Infinity : nbf * 1000,
    expiresAt: exp * 1000,
    scopes: typeof scope === 'string' ? scope.split(' ').filter((word) => word !== '') : [],
    permissions: stringsOf(payload['permissions']),
  };
}

/** What is wrong with verified claims now, if anything. To be asked at each use of a token. */
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

function stringsOf(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) && value.every(isString) ? value : undefined;
}

/** JSON can write an infinite number, as `1e999`: a token without an end. */
function isFiniteNumber(value: unknown): value is number {
  return Number.isFinite(value);
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}
