import { createHash } from 'node:crypto';

/** The cookie of console sessions (docs/http-api.md#console-sessions). */

/**
 * Returns its name. The prefix makes browsers refuse it from a plain connection, from another host and
 * with another path (RFC 6265bis, section 4.1.3.2).
 */
function nameOf(isSecure: boolean): string {
  return isSecure ? '__Host-leat_console' : 'leat_console';
}

/** Returns the `Set-Cookie` of a session. */
export function sessionCookie(secret: string, isSecure: boolean): string {
  const attributes = `Path=/; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
  return `${nameOf(isSecure)}=${secret}; ${attributes}`;
}

/** Returns the `Set-Cookie` that removes it from the browser. */
export function clearedCookie(isSecure: boolean): string {
  return `${sessionCookie('', isSecure)}; Max-Age=0`;
}

/**
 * Returns the different values of the cookie in a `Cookie` header. A browser has more than one only
 * where another host or path has set a cookie of this name.
 */
export function secretsOf(header: string | undefined, isSecure: boolean): readonly string[] {
  return header === undefined ? none : [...new Set(cookieValues(header, nameOf(isSecure)))];
}

/**
 * Returns the values of a cookie in a `Cookie` header. Only spaces and tabs are no part of a name: with
 * other white space before it, it is a name to which browsers do not apply the rules of its prefix.
 */
export function cookieValues(header: string, name: string): string[] {
  return header.split(';').flatMap((part) => {
    const pair = part.replace(/^[ \t]+/, '');
    return pair.startsWith(`${name}=`) ? [pair.slice(name.length + 1).trimEnd()] : [];
  });
}

const none: readonly string[] = [];

/** Returns a secret or one-time code as text: 43 characters for 32 bytes. */
export function secretText(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}

/** Returns the SHA-256 of a secret or one-time code; `undefined` for what cannot be one. */
export function secretHash(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9_-]{43}$/.test(text)) return undefined;
  return hashOf(Buffer.from(text, 'base64url'));
}

/** Returns the hash that the store has of a secret or one-time code. */
export function hashOf(bytes: Uint8Array): Uint8Array {
  return createHash('sha256').update(bytes).digest();
}
