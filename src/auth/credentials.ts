/** The parts of an `Authorization` header (RFC 9110 section 11.6.2); both APIs parse it the same way. */
export interface Credentials {
  /** In lower case; empty if the header is missing or blank. */
  readonly scheme: string;
  /** The parts after the scheme. A bearer token is exactly one (RFC 6750 section 2.1). */
  readonly parts: readonly string[];
}

/** Splits the value of the header at blanks (U+0020) and nothing else. */
export function readCredentials(authorization = ''): Credentials {
  const at = authorization.indexOf(' ');
  // Most have one blank: an array of parts would cost more than all else here.
  const isPair = at > 0 && at + 1 < authorization.length && !authorization.includes(' ', at + 1);
  if (isPair) {
    return {
      scheme: authorization.slice(0, at).toLowerCase(),
      parts: [authorization.slice(at + 1)],
    };
  }
  const [scheme = '', ...parts] = authorization.split(' ').filter((part) => part !== '');
  return { scheme: scheme.toLowerCase(), parts };
}
