import type { webcrypto } from 'node:crypto';
import { errors, importJWK, type JWK } from 'jose';

const MODULUS_BITS_MIN = 2048;
const MODULUS_BITS_MAX = 8192;

/**
 * Returns why a public key cannot be used for `private_key_jwt`; `undefined` if it can. Imports it
 * the way the token endpoint does.
 */
export async function publicKeyError(jwk: JWK): Promise<string | undefined> {
  const key = await imported(jwk);
  if (key === undefined) return 'Not a usable public key';
  return jwk.kty === 'RSA' ? rsaError(key.algorithm as RsaAlgorithm) : undefined;
}

/** With an exponent of 1 anybody could sign; the import accepts it. */
function rsaError({ modulusLength, publicExponent }: RsaAlgorithm): string | undefined {
  if (modulusLength < MODULUS_BITS_MIN || modulusLength > MODULUS_BITS_MAX) {
    return `RSA keys have ${MODULUS_BITS_MIN} to ${MODULUS_BITS_MAX} bits, this one has ${modulusLength}`;
  }
  const exponent = BigInt(`0x${publicExponent.toHex() || '0'}`);
  return exponent < 3n || exponent % 2n === 0n ? 'Not a usable RSA exponent' : undefined;
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
