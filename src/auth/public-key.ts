import type { webcrypto } from 'node:crypto';
import { errors, importJWK, type JWK } from 'jose';
import { lastByteOf, rsaKeyError } from './rsa-key.ts';

/**
 * Returns why a public key cannot be used for `private_key_jwt`; `undefined` if it can. Imports it
 * the way the token endpoint does.
 */
export async function publicKeyError(jwk: JWK): Promise<string | undefined> {
  const key = await imported(jwk);
  if (key === undefined) return 'Not a usable public key';
  if (jwk.kty !== 'RSA') return undefined;
  const { modulusLength: bits, publicExponent } = key.algorithm as RsaAlgorithm;
  const exponent = BigInt(`0x${publicExponent.toHex() || '0'}`);
  return rsaKeyError({ bits, exponent, lastByte: lastByteOf(jwk.n) });
}

type RsaAlgorithm = webcrypto.RsaHashedKeyAlgorithm;

async function imported(jwk: JWK): Promise<CryptoKey | undefined> {
  try {
    const key = await importJWK(jwk, jwk.kty === 'RSA' ? 'RS256' : 'ES256');
    return key instanceof Uint8Array ? undefined : key;
  } catch (error) {
    // WebCrypto throws a DataError for numbers that are not a key.
    const isInvalid = error instanceof DOMException || error instanceof TypeError;
    if (isInvalid || error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}
