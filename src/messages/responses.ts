import { hugeExtensions, hugeHeader as hugeHeaderText } from '../api/http/last-response.ts';

/**
 * A response of the message API (docs/message-api.md#order-of-checks). There are few, so each is built
 * once, at the start.
 */
export interface MessageResponse {
  readonly status: number;
  /** Names and values alternating, as `writeHead` accepts them; without `Date`. */
  readonly headers: readonly string[];
  /** Empty for a response without a body. */
  readonly body: string;
}

/** All responses, by meaning. */
export interface MessageResponses {
  readonly public: MessageResponse;
  readonly protected: MessageResponse;
  readonly admin: MessageResponse;
  readonly preflight: MessageResponse;
  readonly unknownPath: MessageResponse;
  readonly otherMethod: MessageResponse;
  readonly noCredentials: MessageResponse;
  readonly malformedCredentials: MessageResponse;
  readonly otherScheme: MessageResponse;
  readonly badToken: MessageResponse;
  readonly longToken: MessageResponse;
  readonly unverifiable: MessageResponse;
  readonly denied: MessageResponse;
  readonly failure: MessageResponse;
  readonly tunnel: MessageResponse;
  /** For invalid HTTP: status 400, 408, 413, 431, 501 or 505. */
  readonly malformedRequest: MessageResponse;
  readonly lateRequest: MessageResponse;
  readonly hugeRequest: MessageResponse;
  readonly hugeHeader: MessageResponse;
  readonly otherCoding: MessageResponse;
  readonly otherVersion: MessageResponse;
}

/** Methods of the three endpoints, as `Allow` lists them. */
export const allowedMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];
/** Required permissions of the admin message. */
export const adminPermissions: readonly string[] = ['read:admin-messages'];

/** Builds the responses for pages of one origin. */
export function createMessageResponses(origin: string): MessageResponses {
  const always = { ...hardening, 'Access-Control-Allow-Origin': origin, Vary: 'Origin' };
  const empty = (status: number, headers: Headers): MessageResponse => {
    return { status, headers: Object.entries({ ...always, ...headers }).flat(), body: '' };
  };
  const json = (status: number, content: object, headers: Headers = {}): MessageResponse => {
    const body = JSON.stringify(content);
    const length = String(Buffer.byteLength(body));
    const typed = { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': length };
    return { ...empty(status, { ...typed, ...headers }), body };
  };
  const challenge = (content: object, parameters: string): MessageResponse =>
    json(401, content, { 'WWW-Authenticate': `Bearer${parameters}` });

  return {
    public: json(200, { text: 'This is a public message.' }),
    protected: json(200, { text: 'This is a protected message.' }),
    admin: json(200, { text: 'This is an admin message.' }),
    preflight: empty(204, preflight),
    unknownPath: json(404, { message: 'Not Found' }),
    otherMethod: json(405, otherMethod, allow),
    tunnel: json(405, otherMethod, { ...allow, ...closed }),
    noCredentials: challenge({ message: 'Requires authentication' }, ''),
    malformedCredentials: challenge(malformed, ' error="invalid_request"'),
    otherScheme: challenge(badCredentials, ' error="invalid_request"'),
    badToken: challenge(badCredentials, ' error="invalid_token"'),
    longToken: challenge(
      badCredentials,
      ' error="invalid_token", error_description="The token is too long"',
    ),
    unverifiable: json(500, { message: 'Unable to verify credentials' }),
    denied: json(
      403,
      { message: 'Permission denied' },
      {
        'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${adminPermissions.join(' ')}"`,
      },
    ),
    failure: json(500, { message: 'Internal Server Error' }),
    malformedRequest: json(400, { message: 'Bad Request' }, closed),
    lateRequest: json(408, { message: 'Request Timeout' }, closed),
    hugeRequest: json(413, { message: hugeExtensions }, closed),
    hugeHeader: json(431, { message: hugeHeaderText }, closed),
    otherCoding: json(501, { message: 'Not Implemented' }, closed),
    otherVersion: json(505, { message: 'HTTP Version Not Supported' }, closed),
  };
}

type Headers = Readonly<Record<string, string>>;

const otherMethod = { message: 'Not Allowed Http Method' };
const allow = { Allow: allowedMethods.join(', ') };
const badCredentials = { message: 'Bad credentials' };
const malformed = {
  error: 'invalid_request',
  error_description: 'Authorization header value must follow this format: Bearer access-token',
  message: 'Bad credentials',
};

/** After invalid HTTP the start of the next request is unknown. */
const closed = { Connection: 'close' };

const preflight = {
  'Access-Control-Allow-Methods': 'GET',
  'Access-Control-Allow-Headers': 'Authorization,Content-Type',
  'Access-Control-Max-Age': '86400',
};

/** Responses are data for scripts of one origin: not a page, not framed, not cached, HTTPS only. */
const hardening = {
  'Strict-Transport-Security': 'max-age=31536000; includeSubDomains',
  'Content-Security-Policy': "default-src 'none';frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'X-XSS-Protection': '0',
  'Referrer-Policy': 'no-referrer',
  'Origin-Agent-Cluster': '?1',
  'X-DNS-Prefetch-Control': 'off',
  'X-Download-Options': 'noopen',
  'X-Permitted-Cross-Domain-Policies': 'none',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store, no-cache, must-revalidate, proxy-revalidate',
  Pragma: 'no-cache',
  Expires: '0',
  'Surrogate-Control': 'no-store',
};
