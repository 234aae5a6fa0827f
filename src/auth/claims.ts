import type { JWTPayload } from 'jose';
import { claimAt } from '../core/claim-path.ts';
import type { ClaimRules } from '../core/claim-rules.ts';
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
  /** What the rules of the issuer say about the audience; `undefined` without such rules. */
  readonly byRules: { readonly isAccepted: boolean; readonly expected: string } | undefined;
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
 *
 * @param rulesOf returns the rules of an issuer
 */
export function claimsOf(
  payload: JWTPayload,
  rulesOf: (issuer: string) => ClaimRules | undefined = () => undefined,
): Claims | undefined {
  const { iss, sub, exp, nbf, iat, jti, scope } = payload as Record<string, unknown>;
  if (!isString(iss) || !isFiniteNumber(exp)) return undefined;
  if (nbf !== undefined && !isFiniteNumber(nbf)) return undefined;
  if (iat !== undefined && !isFiniteNumber(iat)) return undefined;
  if (![sub, jti].every((claim) => claim === undefined || isString(claim))) return undefined;
  const rules = rulesOf(iss) ?? {};
  const audiences = stringsOf(typeof payload.aud === 'string' ? [payload.aud] : payload.aud) ?? [];
  const counted = (words: readonly string[]): readonly string[] =>
    withoutPrefix(words, rules.prefix);
  const scopes =
    rules.scope === undefined ? splitWords(scope) : wordsOf(claimAt(payload, rules.scope));
  const permissions =
    rules.permissions === undefined
      ? stringsOf(payload['permissions'])
      : wordsOf(claimAt(payload, rules.permissions));
  const words = [...counted(scopes), ...counted(permissions ?? [])];
  return {
    issuer: iss,
    clientId: clientIdOf(payload, rules),
    audiences,
    byRules: audienceByRules(
      rules,
      payload.aud === undefined ? undefined : audiences,
      words.length > 0,
    ),
    notBefore: nbf === undefined ? -Infinity : nbf * 1000,
    expiresAt: exp * 1000,
    scopes: counted(scopes),
    credentialsVersion: payload[credentialsClaim] ?? firstCredentialsVersion,
    permissions: permissions && counted(permissions),
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
  const isForUs = claims.byRules?.isAccepted ?? claims.audiences.includes(audience);
  if (!isForUs) return 'audience';
  return undefined;
}

/** Returns what the rules of an issuer say about the audience; a prefix stands for it where there is none. */
function audienceByRules(
  { audience, prefix }: ClaimRules,
  audiences: readonly string[] | undefined,
  hasWords: boolean,
): Claims['byRules'] {
  if (audience !== undefined) {
    return { isAccepted: audiences?.includes(audience) ?? false, expected: audience };
  }
  if (prefix === undefined || audiences !== undefined) return undefined;
  return { isAccepted: hasWords, expected: `none, and a scope that begins with ${prefix}` };
}

function withoutPrefix(words: readonly string[], prefix = ''): readonly string[] {
  if (prefix === '') return words;
  return words.filter((word) => word.startsWith(prefix)).map((word) => word.slice(prefix.length));
}

/** Returns the words of a string, or the strings of an array; none for anything else. */
function wordsOf(value: unknown): readonly string[] {
  return stringsOf(value) ?? splitWords(value);
}

function splitWords(value: unknown): readonly string[] {
  return typeof value === 'string' ? value.split(' ').filter((word) => word !== '') : [];
}

/** A store refuses to search for U+0000. */
function clientIdOf(payload: JWTPayload, { client }: ClaimRules): string {
  const { azp, client_id: clientId } = payload;
  const named = client === undefined ? [azp, clientId] : [claimAt(payload, client)];
  const id = named.find(isString) ?? '';
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
