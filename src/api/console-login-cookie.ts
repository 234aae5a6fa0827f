import type { Millis } from '../core/clock.ts';
import { cookieValues } from './console-cookie.ts';

/** The path of the console, and where it begins. */
export const consoleRoot = '/console/';

/** A sign-in between the redirect to the identity provider and the return of the browser. */
export interface StoredLogin {
  readonly tenant: number;
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
  /** Where the browser goes afterwards, as {@link consolePath} returns it. */
  readonly to: string;
  readonly begunAt: Millis;
  /**
   * Hash of the secret of the session that the browser has, which the sign-in replaces. The request that
   * comes back from the provider is one of another site, so that it does not have that cookie.
   */
  readonly former?: string | undefined;
}

/*
 * The cookie is not sealed or signed. It ties a sign-in to the browser that began it: its state must be
 * that of the response, and a site that plants a response of its own cannot know or set it (HttpOnly; with
 * `__Host-` no other host and no plain connection sets it). Its values are secret from everybody else, but
 * not from the owner of the browser, who gains nothing by reading or changing them: the verifier protects
 * the code against those who see it on its way, `to` is checked again when it is read, and the owner may
 * begin as many sign-ins as they like. A signature would not stop an attacker who can set cookies, either:
 * Leat gives a signed one to everybody.
 */

/**
 * Returns the name of the cookie. With the prefix browsers refuse it from a plain connection, from
 * another host and with another path (RFC 6265bis, section 4.1.3.2).
 */
function nameOf(isSecure: boolean): string {
  return isSecure ? '__Host-leat_console_login' : 'leat_console_login';
}

/** Returns the `Set-Cookie` of a sign-in. Lax, because the provider sends the browser back. */
export function loginCookie(
  login: StoredLogin,
  { isSecure, maxAgeMs }: { readonly isSecure: boolean; readonly maxAgeMs: number },
): string {
  const value = Buffer.from(JSON.stringify(login)).toString('base64url');
  return `${nameOf(isSecure)}=${value}; Max-Age=${maxAgeMs / 1000}; ${attributes(isSecure)}`;
}

/** Returns the `Set-Cookie` that removes it from the browser. */
export function clearedLoginCookie(isSecure: boolean): string {
  return `${nameOf(isSecure)}=; Max-Age=0; ${attributes(isSecure)}`;
}

function attributes(isSecure: boolean): string {
  return `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
}

/** Returns the sign-ins in a `Cookie` header; what is not one is left out. */
export function loginsOf(header: string | undefined, isSecure: boolean): StoredLogin[] {
  return cookieValues(header ?? '', nameOf(isSecure)).flatMap((value) => loginFrom(value) ?? []);
}

function loginFrom(text: string): StoredLogin | undefined {
  const { tenant, state, nonce, codeVerifier, to, begunAt, former } = fieldsOf(text);
  if (typeof tenant !== 'number' || typeof begunAt !== 'number') return undefined;
  if (!isRandom(state) || !isRandom(nonce) || !isRandom(codeVerifier)) return undefined;
  const replaced = isRandom(former) ? { former } : {};
  return { tenant, state, nonce, codeVerifier, to: consolePath(to), begunAt, ...replaced };
}

function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))) as object &
      Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

/** 32 bytes in base64url. */
function isRandom(value: unknown): value is string {
  return typeof value === 'string' && /^[A-Za-z0-9_-]{43}$/.test(value);
}

const pathCharactersMax = 1024;
/** Any origin: only whether a path stays on it matters. */
const anyOrigin = 'https://leat.invalid';

/**
 * Returns a path and query within the console, normalized as browsers do; {@link consoleRoot} for anything
 * else. What browsers would read as another host or another path, with backslashes, tabs or dots, is seen
 * after the same parsing.
 */
export function consolePath(sent: unknown): string {
  if (typeof sent !== 'string' || !sent.startsWith(consoleRoot)) return consoleRoot;
  if (sent.length > pathCharactersMax) return consoleRoot;
  const url = URL.parse(sent, anyOrigin);
  if (url?.origin !== anyOrigin || !url.pathname.startsWith(consoleRoot)) return consoleRoot;
  const path = `${url.pathname}${url.search}`;
  // Encoding makes it longer; browsers drop a cookie of more than 4096 bytes.
  return path.length > pathCharactersMax ? consoleRoot : path;
}
