const MODULUS_BITS_MIN = 2048;
const MODULUS_BITS_MAX = 8192;
/** Common keys have 65,537. With one as long as the modulus a verification takes 30 times as long. */
const EXPONENT_MAX = 2n ** 32n - 1n;

/** The numbers of a public RSA key. */
export interface RsaNumbers {
  readonly bits: number;
  readonly exponent: bigint;
  /** Last byte of the modulus. */
  readonly lastByte: number;
}

/**
 * Returns what importing an RSA key does not check: with an exponent of 1 anybody can sign, and
 * neither the exponent nor the modulus of an RSA key is even.
 */
export function rsaKeyError({ bits, exponent, lastByte }: RsaNumbers): string | undefined {
  if (bits < MODULUS_BITS_MIN || bits > MODULUS_BITS_MAX) {
    return `RSA keys have ${MODULUS_BITS_MIN} to ${MODULUS_BITS_MAX} bits, this one has ${bits}`;
  }
  if (lastByte % 2 === 0) return 'Not a usable RSA modulus';
  const isUsable = exponent >= 3n && exponent % 2n === 1n && exponent <= EXPONENT_MAX;
  return isUsable ? undefined : 'Not a usable RSA exponent';
}

/** Returns the last byte of a modulus as in a JWK. */
export function lastByteOf(modulus = ''): number {
  return Buffer.from(modulus, 'base64url').at(-1) ?? 0;
}
