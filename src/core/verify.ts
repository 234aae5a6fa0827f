import {
  createHmac,
  createPublicKey,
  type KeyObject,
  timingSafeEqual,
  verify as verifyEd25519,
} from 'node:crypto';
import { mayVerify } from './key-purpose.ts';
import { decodeSecret } from './sign.ts';

/** The signature headers of a webhook. */
export interface SignatureHeaders {
  /** `webhook-id` */
  readonly id: string | undefined;
  /** `webhook-timestamp` */
  readonly timestamp: string | undefined;
  /** `webhook-signature` */
  readonly signature: string | undefined;
  /** `webhook-key-id`, the key of a signature `v1a` */
  readonly keyId: string | undefined;
}

/** What the signatures of a webhook are verified with. */
export interface VerificationKeys {
  /** `whsec_…`; each may have signed as `v1`. */
  readonly secrets: readonly string[];
  /** The keys that may have signed as `v1a`; `undefined` where they are not known. */
  readonly publicKeys: PublicKeys | undefined;
}

/** Ed25519 keys of a tenant by their ids. */
export type PublicKeys = ReadonlyMap<string, KeyObject>;

/**
 * The result of a verification; only a `valid` webhook is authentic. `unknown key`: `webhook-key-id` is
 * missing or names none of the keys. `unchecked`: every signature has a version for which there is no key
 * here.
 */
export type SignatureCheck =
  | 'valid'
  | 'missing'
  | 'wrong'
  | 'unknown key'
  | 'unchecked'
  | 'too old'
  | 'too new';

/** Returns whether a header `webhook-signature` has a signature of the version `v1a`. */
export function hasAsymmetric(signature: string | undefined): boolean {
  return signature?.split(' ').some((value) => value.startsWith('v1a,')) ?? false;
}

const toleranceSeconds = 300;

/**
 * Verifies the signatures of a received webhook (Standard Webhooks, Verifying signatures): one of them
 * must match, and the timestamp may differ from `nowSeconds` by at most 5 minutes. Takes the same time for
 * every wrong `v1`.
 *
 * @param body the received bytes, unchanged
 */
export function verify(
  keys: VerificationKeys,
  { id, timestamp, signature, keyId }: SignatureHeaders,
  body: Uint8Array,
  nowSeconds: number,
): SignatureCheck {
  if (id === undefined || timestamp === undefined || signature === undefined) return 'missing';
  const text = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const digests = keys.secrets.map((secret) =>
    createHmac('sha256', decodeSecret(secret)).update(text).digest(),
  );
  const checks = signature.split(' ').map((value): SignatureCheck => {
    const [version = '', sent] = value.split(',', 2);
    if (sent === undefined) return 'wrong';
    const bytes = Buffer.from(sent, 'base64');
    if (version === 'v1') return checkDigest(digests, bytes);
    return version === 'v1a' ? checkEd25519(keys.publicKeys, keyId, text, bytes) : 'unchecked';
  });
  if (checks.includes('valid')) return checkAge(timestamp, nowSeconds);
  return (['wrong', 'unknown key'] as const).find((check) => checks.includes(check)) ?? 'unchecked';
}

function checkDigest(digests: readonly Uint8Array[], sent: Uint8Array): SignatureCheck {
  if (digests.length === 0) return 'unchecked';
  const matching = digests.filter(
    (digest) => digest.length === sent.length && timingSafeEqual(digest, sent),
  );
  return matching.length > 0 ? 'valid' : 'wrong';
}

function checkEd25519(
  keys: PublicKeys | undefined,
  keyId: string | undefined,
  text: Uint8Array,
  sent: Uint8Array,
): SignatureCheck {
  if (keyId === undefined) return 'unknown key';
  if (keys === undefined) return 'unchecked';
  const key = keys.get(keyId);
  if (key === undefined) return 'unknown key';
  return verifyEd25519(null, text, key, sent) ? 'valid' : 'wrong';
}

function checkAge(timestamp: string, nowSeconds: number): SignatureCheck {
  if (!/^[0-9]{1,12}$/.test(timestamp)) return 'wrong';
  const aheadSeconds = Number(timestamp) - nowSeconds;
  if (aheadSeconds < -toleranceSeconds) return 'too old';
  return aheadSeconds > toleranceSeconds ? 'too new' : 'valid';
}

/**
 * Returns the Ed25519 keys of a key set (RFC 7517 section 5, RFC 8037 section 2) by id. Other keys are
 * left out; returns `undefined` when it is no key set.
 */
export function publicKeysOf(jwks: unknown): PublicKeys | undefined {
  const { keys } = Object(jwks) as { readonly keys?: unknown };
  if (!Array.isArray(keys)) return undefined;
  const found = new Map<string, KeyObject>();
  for (const jwk of keys as readonly unknown[]) {
    const { kid, kty, crv, x } = Object(jwk) as Readonly<Record<string, unknown>>;
    if (typeof kid !== 'string' || typeof x !== 'string') continue;
    if (kty !== 'OKP' || crv !== 'Ed25519' || !mayVerify(Object(jwk) as object)) continue;
    try {
      found.set(kid, createPublicKey({ key: { kty, crv, x }, format: 'jwk' }));
    } catch {
      // A key that cannot be read signs nothing that could be verified.
    }
  }
  return found;
}
