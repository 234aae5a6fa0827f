import { hash, type KeyObject } from 'node:crypto';
import { compactVerify, decodeJwt, decodeProtectedHeader, errors } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Millis } from '../core/clock.ts';
import { type Claims, claimsOf, claimsError } from './claims.ts';

/** The one algorithm of access tokens. */
const ALGORITHM = 'RS256';
/** A longer token is refused unread; Leat's own have about 1,500 characters with every scope. */
const TOKEN_LENGTH_MAX = 8192;
/** Verified tokens kept. Only a valid signature brings a token in, so strangers cannot fill it. */
const TOKENS_MAX = 10_000;

/** Where the keys of an issuer come from. */
export interface KeySource {
  /**
   * The public key with this `kid`, `undefined` when the issuer has none, `unavailable` when that
   * cannot be found out now. As long as a key is good, the same object is answered.
   */
  keyFor(kid: string, now: Millis): FoundKey | Promise<FoundKey>;
}

export type FoundKey = KeyObject | undefined | 'unavailable';

/** What became of a token. `audiences` is what the token says, for the message. */
export type TokenVerification =
  | { readonly kind: 'valid'; readonly claims: Claims }
  | {
      readonly kind: 'refused';
      readonly reason: RejectReason;
      readonly audiences: readonly string[];
    };

/** `signature` also stands for a key that its issuer does not have. */
export type RejectReason =
  | 'malformed'
  | 'algorithm'
  | 'issuer'
  | 'signature'
  | 'unavailable'
  | 'expired'
  | 'not_yet'
  | 'audience';

/** What a token has to be good for. */
export interface Expected {
  readonly audience: string;
  /** The keys of an issuer, `undefined` when its tokens are not accepted. */
  keysOf(issuer: string): KeySource | undefined;
}

/** Verifies access tokens (RFC 7519 section 7.2, RFC 8725); one for both APIs. */
export interface TokenVerifier {
  /**
   * A token that was verified before costs one hash and one look at its key, and is answered
   * without a promise. Its times and its audience are judged each time.
   */
  verify(
    token: string,
    expected: Expected,
    now: Millis,
  ): TokenVerification | Promise<TokenVerification>;
  /** Verified tokens in memory. */
  readonly size: number;
}

/** Creates a verifier with an empty memory. It may serve many audiences and issuers. */
export function createTokenVerifier(tokensMax = TOKENS_MAX): TokenVerifier {
  const verified = new LRUCache<string, Verified>({ max: tokensMax });

  const examine = async (
    token: string,
    digest: string,
    { audience, keysOf }: Expected,
    now: Millis,
    asked?: Promise<FoundKey>,
  ): Promise<TokenVerification> => {
    const read = readToken(token);
    if (typeof read === 'string') return rejected(read);
    const source = keysOf(read.claims.issuer);
    if (source === undefined) return rejected('issuer');
    const key = await (asked ?? source.keyFor(read.kid, now));
    if (key === undefined) return rejected('signature');
    if (key === 'unavailable') {
      // What is wrong anyway is not worth an apology.
      return rejected(claimsError(read.claims, audience, now) ?? key, read.claims);
    }
    if (verified.get(digest)?.key !== key) {
      if (!(await signatureHolds(token, key))) return rejected('signature');
      verified.set(digest, { ...read, key });
    }
    return acceptedOrRejected(read.claims, audience, now);
  };

  return {
    verify: (token, expected, now) => {
      if (token.length > TOKEN_LENGTH_MAX) return rejected('malformed');
      // The digest and not the token is the key: nothing in memory can be used as a token.
      const digest = hash('sha256', token, 'base64');
      const known = verified.get(digest);
      if (known !== undefined) {
        const key = expected.keysOf(known.claims.issuer)?.keyFor(known.kid, now);
        if (key === known.key) return acceptedOrRejected(known.claims, expected.audience, now);
        if (key instanceof Promise) return examine(token, digest, expected, now, key);
      }
      return examine(token, digest, expected, now);
    },
    get size() {
      return verified.size;
    },
  };
}

interface Read {
  readonly kid: string;
  readonly claims: Claims;
}

/** A token whose signature holds by `key`. */
interface Verified extends Read {
  readonly key: KeyObject;
}

/**
 * Takes a token apart without believing it. Of its header only `alg` and `kid` are looked at:
 * `jwk`, `jku`, `x5c` and `x5u` would let a token bring its own key.
 */
function readToken(token: string): Read | 'malformed' | 'algorithm' | 'signature' {
  try {
    const { alg, kid, crit } = decodeProtectedHeader(token);
    const claims = claimsOf(decodeJwt(token));
    if (claims === undefined || crit !== undefined) return 'malformed';
    if (alg !== ALGORITHM) return 'algorithm';
    if (!isStrictBase64Url(token.slice(token.lastIndexOf('.') + 1))) return 'signature';
    return { kid: typeof kid === 'string' ? kid : '', claims };
  } catch {
    // Whatever a stranger's text throws means one thing: it is no token.
    return 'malformed';
  }
}

/**
 * Whether it is written as RFC 7515 section 2 wants it: no padding, no blanks, unused bits zero. A
 * signature does not cover its own spelling, so that one token would otherwise be good in any
 * number of them, each with a place in memory.
 */
function isStrictBase64Url(text: string): boolean {
  return Buffer.from(text, 'base64url').toString('base64url') === text;
}

/** Runs in the thread pool, so that forged tokens do not stop the event loop. */
async function signatureHolds(token: string, key: KeyObject): Promise<boolean> {
  try {
    await compactVerify(token, key, { algorithms: [ALGORITHM] });
    return true;
  } catch (error) {
    if (error instanceof errors.JOSEError) return false;
    throw error;
  }
}

function acceptedOrRejected(claims: Claims, audience: string, now: Millis): TokenVerification {
  const flaw = claimsError(claims, audience, now);
  return flaw === undefined ? { kind: 'valid', claims } : rejected(flaw, claims);
}

function rejected(reason: RejectReason, claims?: Claims): TokenVerification {
  return { kind: 'refused', reason, audiences: claims?.audiences ?? [] };
}
