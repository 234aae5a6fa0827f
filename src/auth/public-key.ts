import type { webcrypto } from 'node:crypto';
import { errors, importJWK, type JWK } from 'jose';

const MODULUS_BITS_MIN = 2048;
const MODULUS_BITS_MAX = 8192;

/**
 * Why a public key cannot prove `private_key_jwt`; `undefined` when it can. It is imported as the
 * token endpoint will import it.
 */
export async function faultOfKey(jwk: JWK): Promise<string | undefined> {
  const key = await imported(jwk);
  if (key === undefined) return 'Not a usable public key';
  return jwk.kty === 'RSA' ? faultOfRsa(key.algorithm as RsaAlgorithm) : undefined;
}

/** An exponent of 1 would let everybody sign; the import takes it. */
function faultOfRsa({ modulusLength, publicExponent }: RsaAlgorithm): string | undefined {
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
    // WebCrypto says DataError for numbers that are no key.
    const refused = error instanceof DOMException || error instanceof TypeError;
    if (refused || error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}
