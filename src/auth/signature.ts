import { hash, type KeyObject } from 'node:crypto';
import { compactVerify, decodeJwt, decodeProtectedHeader, errors } from 'jose';
import { LRUCache } from 'lru-cache';
import type { ClaimRules } from '../core/claim-rules.ts';
import type { Millis } from '../core/clock.ts';
import { entriesAtMost } from '../core/lru.ts';
import { type Claims, claimsOf, claimsError } from './claims.ts';

/** The only accepted algorithm of access tokens. */
const ALGORITHM = 'RS256';
/**
 * Longer tokens are rejected unread, and not issued. With the other headers of a request they fit into
 * the 16 KiB that both APIs accept.
 */
export const tokenCharactersMax = 12_288;
/** Verified tokens cached. Only tokens with a valid signature are cached, so forged ones cannot fill it. */
const TOKENS_MAX = 10_000;

/** The public keys of an issuer. */
export interface KeySource {
  /**
   * Returns the public key with this `kid` (empty: the token has none), `undefined` if the issuer has none, `unavailable` if the
   * keys cannot be fetched now. Returns the same object as long as a key is valid.
   */
  keyFor(kid: string, now: Millis): FoundKey | Promise<FoundKey>;
  /** How the tokens of the issuer are read. */
  readonly rules?: ClaimRules | undefined;
}

export type FoundKey = KeyObject | undefined | 'unavailable';

/**
 * The outcome of a verification. `kid` names the key that signed the token; `audiences` are those of
 * the token, for the error message.
 */
export type TokenVerification =
  | { readonly kind: 'valid'; readonly claims: Claims; readonly kid: string }
  | {
      readonly kind: 'rejected';
      readonly reason: RejectReason;
      readonly audiences: readonly string[];
      /** The audience by the rules of the issuer, for the error message. */
      readonly expected?: string | undefined;
    };

/** `signature` also means that the issuer has no such key. */
export type RejectReason =
  | 'too_long'
  | 'malformed'
  | 'algorithm'
  | 'issuer'
  | 'signature'
  | 'unavailable'
  | 'expired'
  | 'not_yet'
  | 'audience';

/** The audience and the issuers to accept. */
export interface Expected {
  readonly audience: string;
  /** Returns the keys of an issuer, `undefined` if its tokens are not accepted. */
  keysOf(issuer: string): KeySource | undefined;
}

/** Verifies access tokens (RFC 7519 section 7.2, RFC 8725), for both APIs. */
export interface TokenVerifier {
  /**
   * Verifies a token. One that was verified before costs a hash and a key lookup, and the result is
   * returned without a promise. Times and audience are checked each time.
   */
  verify(
    token: string,
    expected: Expected,
    now: Millis,
  ): TokenVerification | Promise<TokenVerification>;
  /** Number of cached tokens. */
  readonly size: number;
}

/** Creates a verifier with an empty cache. It may serve many audiences and issuers. */
export function createTokenVerifier(tokensMax = TOKENS_MAX): TokenVerifier {
  const verified = new LRUCache<string, Verified>(entriesAtMost(tokensMax));

  const verifySignature = async (
    token: string,
    digest: string,
    { audience, keysOf }: Expected,
    now: Millis,
    pendingKey?: Promise<FoundKey>,
  ): Promise<TokenVerification> => {
    const parsed = parseToken(token, keysOf);
    if (typeof parsed === 'string') return rejected(parsed);
    const source = keysOf(parsed.claims.issuer);
    if (source === undefined) return rejected('issuer');
    const key = await (pendingKey ?? source.keyFor(parsed.kid, now));
    if (key === undefined) return rejected('signature');
    if (key === 'unavailable') {
      // Prefer a definite reason over "keys unavailable".
      return rejected(claimsError(parsed.claims, audience, now) ?? key, parsed.claims);
    }
    if (verified.get(digest)?.key !== key) {
      if (!(await isSignatureValid(token, key))) return rejected('signature');
      verified.set(digest, { ...parsed, key });
    }
    return checkClaims(parsed, audience, now);
  };

  return {
    verify: (token, expected, now) => {
      if (token.length > tokenCharactersMax) return rejected('too_long');
      // Keyed by digest: nothing in the cache can be used as a token.
      const digest = hash('sha256', token, 'base64');
      const known = verified.get(digest);
      if (known !== undefined) {
        const key = expected.keysOf(known.claims.issuer)?.keyFor(known.kid, now);
        if (key === known.key) return checkClaims(known, expected.audience, now);
        if (key instanceof Promise) return verifySignature(token, digest, expected, now, key);
      }
      return verifySignature(token, digest, expected, now);
    },
    get size() {
      return verified.size;
    },
  };
}

interface ParsedToken {
  readonly kid: string;
  readonly claims: Claims;
}

/** A token whose signature was verified with `key`. */
interface Verified extends ParsedToken {
  readonly key: KeyObject;
}

/**
 * Parses a token without verifying it, or returns why it is rejected. Ignores `jwk`, `jku`, `x5c` and
 * `x5u` in the header: they would let a token bring its own key.
 */
function parseToken(
  token: string,
  keysOf: Expected['keysOf'],
): ParsedToken | 'malformed' | 'algorithm' | 'signature' {
  try {
    const { alg, kid, crit } = decodeProtectedHeader(token);
    const claims = claimsOf(decodeJwt(token), (issuer) => keysOf(issuer)?.rules);
    if (claims === undefined || crit !== undefined) return 'malformed';
    if (alg !== ALGORITHM) return 'algorithm';
    if (!isStrictBase64Url(token.slice(token.lastIndexOf('.') + 1))) return 'signature';
    const isKid = kid === undefined || (typeof kid === 'string' && kid !== '');
    return isKid ? { kid: kid ?? '', claims } : 'signature';
  } catch {
    // Any error means that the text is not a token.
    return 'malformed';
  }
}

/**
 * Returns whether a text is base64url as RFC 7515 section 2 defines it: no padding, no blanks, unused
 * bits zero. A signature does not cover its own encoding: a lax decoder would accept one token in any
 * number of spellings, each with its own cache entry.
 */
function isStrictBase64Url(text: string): boolean {
  return Buffer.from(text, 'base64url').toString('base64url') === text;
}

/** Runs in the thread pool, so that forged tokens do not block the event loop. */
async function isSignatureValid(token: string, key: KeyObject): Promise<boolean> {
  try {
    await compactVerify(token, key, { algorithms: [ALGORITHM] });
    return true;
  } catch (error) {
    if (error instanceof errors.JOSEError) return false;
    throw error;
  }
}

function checkClaims(
  { claims, kid }: ParsedToken,
  audience: string,
  now: Millis,
): TokenVerification {
  const error = claimsError(claims, audience, now);
  return error === undefined ? { kind: 'valid', claims, kid } : rejected(error, claims);
}

function rejected(reason: RejectReason, claims?: Claims): TokenVerification {
  const { audiences = [], byRules } = claims ?? {};
  return { kind: 'rejected', reason, audiences, ...(byRules && { expected: byRules.expected }) };
}
