import { STATUS_CODES } from 'node:http';
import { StoreTenantGone, StoreTextRefused, StoreUnavailable } from '../../core/errors.ts';

/**
 * A refusal as the management API words it (docs/http-api.md#errors). Thrown by whatever finds the
 * reason; the one place that answers it is `serve.ts`.
 */
export class Problem extends Error {
  readonly code = 'problem';
  override readonly name = 'Problem';
  readonly status: number;
  readonly errorCode: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    errorCode?: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
    this.status = status;
    this.errorCode = errorCode;
    this.headers = headers;
  }
}

/** The body of a refusal. */
export interface ProblemBody {
  readonly statusCode: number;
  /** The reason phrase of the status. */
  readonly error: string;
  readonly message: string;
  readonly errorCode?: string;
}

/** What a client is told of a problem. */
export function problemBody({ status, message, errorCode }: Problem): ProblemBody {
  const body = { statusCode: status, error: STATUS_CODES[status] ?? 'Error', message };
  return errorCode === undefined ? body : { ...body, errorCode };
}

/**
 * The problem that any thrown thing is to a client. What is none of ours is 500 and nothing more is
 * said; the caller logs the cause.
 */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof StoreUnavailable) return unavailable();
  if (error instanceof StoreTextRefused) return new Problem(400, unstorableText, 'invalid_body');
  if (error instanceof StoreTenantGone) return notFound('Not Found');
  return new Problem(500, 'Internal Server Error');
}

const unstorableText = 'A text has the character U+0000, which cannot be stored; leave it out.';

/** 400 for a path parameter; `reason` as in {@link badBody}. */
export function badPath(reason: string, property: string, description: string): Problem {
  return invalid('Path', reason, property, description, 'invalid_uri');
}

/** 400 for a query parameter; `reason` as in {@link badBody}. */
export function badQuery(reason: string, property: string, description: string): Problem {
  return invalid('Query', reason, property, description, 'invalid_query_string');
}

/**
 * 400 for a member of the body. `property` is its path, members joined by dots (`3.type` in an
 * array); `description` is that of its schema. Quote values in `reason` through {@link quoted}.
 */
export function badBody(reason: string, property: string, description: string): Problem {
  return invalid('Payload', reason, property, description, 'invalid_body');
}

function invalid(
  part: 'Path' | 'Query' | 'Payload',
  reason: string,
  property: string,
  description: string,
  errorCode: string,
): Problem {
  const message = `${part} validation error: '${reason}' on property ${quoted(property)} (${description}).`;
  return new Problem(400, message, errorCode);
}

const quotedCharactersMax = 100;

/** A value as messages show it: cut, so that a message cannot be blown up. */
export function quoted(value: string): string {
  return value.length <= quotedCharactersMax ? value : value.slice(0, quotedCharactersMax);
}

/** 403 for one pull too many. */
export function tooManyConnections(): Problem {
  return new Problem(
    403,
    'Maximum concurrent event stream connections reached. Please close existing connections.',
    'too_many_connections',
  );
}

/** 410: what a client would go on from is not there any more. */
export function cursorExpired(): Problem {
  return new Problem(
    410,
    'Cursor points to data no longer available in the stream.',
    'cursor_expired',
  );
}

/** 404; the message names what there is not. */
export function notFound(message: string, errorCode?: string): Problem {
  return new Problem(404, message, errorCode);
}

/** 409. */
export function conflict(message: string, errorCode: string): Problem {
  return new Problem(409, message, errorCode);
}

/** 401; `message` is one of docs/http-api.md#error-catalogue. Without credentials there is no error to name. */
export function unauthorized(domain: string, message: string): Problem {
  const realm = `Bearer realm="${domain}"`;
  const challenge =
    message === missingAuthentication
      ? realm
      : `${realm}, error="invalid_token", error_description="${errorDescription(message)}"`;
  return new Problem(401, message, undefined, { 'www-authenticate': challenge });
}

/** The message of a request without bearer credentials. */
export const missingAuthentication = 'Missing authentication';

/** 403 for a token that carries none of `scopes`, or not all that a grant would give away. */
export function forbiddenScope(scopes: readonly string[]): Problem {
  return new Problem(
    403,
    `Insufficient scope; expected any of: ${scopes.join(',')}`,
    'insufficient_scope',
    { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scopes.join(' ')}"` },
  );
}

/** 405; `methods` are those that the path has. */
export function methodNotAllowed(methods: readonly string[]): Problem {
  return new Problem(405, 'Method Not Allowed', undefined, { allow: methods.join(', ') });
}

/** 413. */
export function tooLarge(): Problem {
  return new Problem(413, 'Payload Too Large', 'payload_too_large');
}

/** 415. */
export function unsupportedMediaType(): Problem {
  return new Problem(415, 'Unsupported Media Type', 'unsupported_media_type');
}

/** 429; `retryAfterSeconds` is at least 1. */
export function tooManyRequests(retryAfterSeconds: number): Problem {
  return new Problem(
    429,
    'Too many requests. Check the X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset headers.',
    'too_many_requests',
    { 'retry-after': String(retryAfterSeconds) },
  );
}

/** 429 for a body that comes while too many others of its tenant do, or wait. */
export function tooManyBodies(): Problem {
  const message = 'Too many bodies of this tenant are under way.';
  return new Problem(429, message, 'too_many_requests', { 'retry-after': '1' });
}

/** 503: the store is unreachable, or the process is about to end. */
export function unavailable(message = 'Service Unavailable'): Problem {
  return new Problem(503, message, 'service_unavailable', { 'retry-after': '1' });
}

/** What RFC 6750 section 3 allows in an `error_description`, at most 200 characters. */
function errorDescription(message: string): string {
  return message.replaceAll(/[^\x20-\x21\x23-\x5B\x5D-\x7E]/g, '?').slice(0, 200);
}
