import type { Shortage } from '../../core/retry.ts';

/** What became of a request for an access token. */
export type TokenResponse =
  | {
      readonly kind: 'token';
      readonly token: string;
      /** How long it is used. */
      readonly lifetimeMs: number;
    }
  | TokenFailure;

export interface TokenFailure {
  readonly kind: 'failed';
  /** Follows `authorization: ` in an error message: a text of ours. */
  readonly detail: string;
  /** The endpoint has no part in it. */
  readonly shortage?: Shortage;
}

/** Reads the response of a token endpoint (RFC 6749 section 5). */
export function readTokenResponse(status: number, text: string): TokenResponse {
  const body = objectOf(text);
  if (status < 200 || status > 299) return failed(`token endpoint: ${status}${codeOf(body)}`);
  if (body === undefined) return failed('token response: not a JSON object');
  const { access_token: token, token_type: type = 'Bearer', expires_in: expiresIn } = body;
  if (typeof token !== 'string' || token === '') return failed('token response: no access_token');
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer') {
    return failed('token response: token_type is not Bearer');
  }
  if (token.length > tokenLengthMax) return failed('token response: access_token is too long');
  if (!headerValue.test(token)) {
    return failed('token response: access_token has characters that no header can have');
  }
  return { kind: 'token', token, lifetimeMs: lifetimeOf(expiresIn) };
}

/** Characters; receivers accept 8 to 16 KiB of headers. */
const tokenLengthMax = 8192;

/** VSCHAR without the space (RFC 6749 appendix A.12). */
const headerValue = /^[\x21-\x7e]+$/;

function failed(detail: string): TokenResponse {
  return { kind: 'failed', detail };
}

function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the error code of the response; other texts are not shown, as they may hold anything. */
function codeOf(body: Readonly<Record<string, unknown>> | undefined): string {
  const code = body?.['error'];
  return typeof code === 'string' && errorCodes.has(code) ? ` ${code}` : '';
}

/** RFC 6749 section 5.2, and RFC 8707 section 2. */
const errorCodes = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'invalid_target',
]);

/** Of a response without `expires_in`, or with one that is no number. */
const unknownLifetimeMs = 300_000;
/** A token is used for at least this long: otherwise each attempt would fetch one. */
const lifetimeMsMin = 10_000;
/** …and for at most this long: a client that was deleted must not keep its access for years. */
const lifetimeMsMax = 86_400_000;

/** Some servers send the number as a text. */
function lifetimeOf(expiresIn: unknown): number {
  const isText = typeof expiresIn === 'string' && /^-?\d{1,15}(\.\d{1,9})?$/.test(expiresIn);
  const seconds = isText ? Number(expiresIn) : expiresIn;
  if (typeof seconds !== 'number') return unknownLifetimeMs;
  return Math.min(Math.max(seconds * 1000, lifetimeMsMin), lifetimeMsMax);
}
