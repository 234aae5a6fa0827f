import { generateKeyPair, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';

/** What differs between the keys that sign access tokens and those that sign webhooks. */
export interface KeyUse<J> {
  /** The part of the store that has them. */
  readonly part: 'keys' | 'webhookKeys';
  /** What they sign, in messages. */
  readonly signs: 'tokens' | 'webhooks';
  /** How long a former key stays published once its successor signs. */
  readonly formerPublishedMs: number;
  /** A published key set is read from the store again after this time. */
  readonly jwksFreshMs: number;
  generate(): Promise<{ readonly privateKey: KeyObject }>;
  /** Returns the published key, `undefined` for a key of another type. */
  publicJwk(kid: string, publicKey: KeyObject): J | undefined;
}

/** The published key; has no fields of the private key. */
export interface RsaJwk {
  readonly kty: 'RSA';
  readonly use: 'sig';
  readonly alg: 'RS256';
  readonly kid: string;
  readonly n: string;
  readonly e: string;
}

/** The published key (RFC 8037 section 2). */
export interface Ed25519Jwk {
  readonly kty: 'OKP';
  readonly crv: 'Ed25519';
  readonly use: 'sig';
  readonly alg: 'EdDSA';
  readonly kid: string;
  readonly x: string;
}

/** Keys of a tenant are read again after this time, so that all nodes follow a change within 10 s. */
export const FRESH_MS = 5_000;
/**
 * The longest token lifetime an API can have (30 days), and 5 s leeway. A former key stays published
 * for this time, whatever lifetimes are configured now: one may have been lowered after a token was
 * issued.
 */
const TOKEN_LIFETIME_MAX_MS = 2_592_000_000 + 5_000;
const MODULUS_BITS = 2048;

const generate = promisify(generateKeyPair);

/** The keys that sign access tokens. */
export const accessTokenKeys: KeyUse<RsaJwk> = {
  part: 'keys',
  signs: 'tokens',
  formerPublishedMs: TOKEN_LIFETIME_MAX_MS,
  jwksFreshMs: FRESH_MS,
  generate: () => generate('rsa', { modulusLength: MODULUS_BITS }),
  publicJwk: (kid, publicKey) => {
    const { n, e } = publicKey.export({ format: 'jwk' });
    return n === undefined || e === undefined
      ? undefined
      : { kty: 'RSA', use: 'sig', alg: 'RS256', kid, n, e };
  },
};

/** The keys that sign webhooks as `v1a` (Standard Webhooks, Signature scheme). */
export const webhookKeys: KeyUse<Ed25519Jwk> = {
  part: 'webhookKeys',
  signs: 'webhooks',
  /** For receivers that verify what they have stored. */
  formerPublishedMs: 7 * 86_400_000,
  // A receiver asks for a key that it does not know, which may have begun to sign just now.
  jwksFreshMs: 0,
  generate: () => generate('ed25519'),
  publicJwk: (kid, publicKey) => {
    const { crv, x } = publicKey.export({ format: 'jwk' });
    return crv !== 'Ed25519' || x === undefined
      ? undefined
      : { kty: 'OKP', crv, use: 'sig', alg: 'EdDSA', kid, x };
  },
};
