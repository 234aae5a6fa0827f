/**
 * Returns whether a JWK may verify signatures, by what it says it is for (RFC 7517 sections 4.2 and
 * 4.3). A key that says nothing may.
 */
export function mayVerify(jwk: object): boolean {
  const { use = 'sig', key_ops: operations = ['verify'] } = jwk as Readonly<
    Record<string, unknown>
  >;
  return use === 'sig' && Array.isArray(operations) && operations.includes('verify');
}
