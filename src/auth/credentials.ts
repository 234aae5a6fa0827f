/** What an `Authorization` header says (RFC 9110 section 11.6.2), read the same way by both APIs. */
export interface Credentials {
  /** In lower case; empty when the header says nothing. */
  readonly scheme: string;
  /** What follows the scheme. A bearer token is one part alone (RFC 6750 section 2.1). */
  readonly parts: readonly string[];
}

/** Reads the value of the header. Its parts are separated by blanks (U+0020) and nothing else. */
export function readCredentials(authorization = ''): Credentials {
  const [scheme = '', ...parts] = authorization.split(' ').filter((part) => part !== '');
  return { scheme: scheme.toLowerCase(), parts };
}
