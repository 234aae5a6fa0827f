import { STATUS_CODES } from 'node:http';
import type { Clock, RandomBytes } from '../../core/clock.ts';
import {
  StoreTenantGone,
  StoreTextRefused,
  StoreUnavailable,
  type UnavailableReason,
} from '../../core/errors.ts';
import { makeId } from '../../core/ids.ts';
import type { Log } from '../../core/log.ts';

/** An error response of the management API (docs/http-api.md#errors); the error handler of the app sends it. */
export class Problem extends Error {
  readonly code = 'problem';
  override readonly name = 'Problem';
  readonly status: number;
  readonly errorCode: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** What the request changes may be stored. */
  readonly isUnknown: boolean;

  constructor(
    status: number,
    message: string,
    errorCode?: string,
    headers: Readonly<Record<string, string>> = {},
    isUnknown = false,
  ) {
    super(message);
    this.status = status;
    this.errorCode = errorCode;
    this.headers = headers;
    this.isUnknown = isUnknown;
  }
}

/** The body of an error response. */
export interface ProblemBody {
  readonly statusCode: number;
  /** The reason phrase of the status. */
  readonly error: string;
  readonly message: string;
  readonly errorCode?: string;
  readonly unknown?: true;
}

/** Returns the response body of a problem. */
export function problemBody({ status, message, errorCode, isUnknown }: Problem): ProblemBody {
  const body = { statusCode: status, error: STATUS_CODES[status] ?? 'Error', message };
  return {
    ...body,
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(isUnknown ? { unknown: true } : {}),
  };
}

/**
 * Converts any thrown error to a problem. An unknown error becomes 500 without details; the caller
 * logs the cause.
 */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof StoreUnavailable) {
    const texts: { readonly [reason in UnavailableReason]?: string } = storeTexts;
    return unavailable(texts[error.reason], error.mayBeStored);
  }
  if (error instanceof StoreTextRefused) return new Problem(400, unstorableText, 'invalid_body');
  if (error instanceof StoreTenantGone) return tenantGone();
  return new Problem(500, 'Internal Server Error');
}

/**
 * Returns the problem of a thrown error. An unknown error gets an id in the headers, which the log has too,
 * so that somebody who sees one finds the cause.
 */
export type ErrorReader = (error: unknown) => {
  readonly problem: Problem;
  readonly headers: Readonly<Record<string, string>>;
};

/** Creates the {@link ErrorReader}. */
export function createErrorReader({ log, clock, random }: ErrorReaderDeps): ErrorReader {
  return (error) => {
    const problem = problemOf(error);
    if (problem.status !== 500) return { problem, headers: {} };
    const id = makeId('req_', clock.now(), random);
    log.error({ err: error, requestId: id }, 'a request failed');
    return { problem, headers: { 'x-request-id': id } };
  };
}

export interface ErrorReaderDeps {
  readonly log: Pick<Log, 'error'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly random: RandomBytes;
}

/** Why a parameter of a path or a query is not valid: no store searches for such a text. */
export const nulReason = 'Has the character U+0000';

/** Why a text cannot be stored and returned unchanged. */
export const loneReason = 'Not well-formed Unicode: a lone surrogate';

const unstorableText = 'A text has the character U+0000, which cannot be stored; leave it out.';

/** Returns 400 for a path parameter; `reason` as in {@link badBody}. */
export function badPath(reason: string, property: string, description: string): Problem {
  return invalid('Path', reason, property, description, 'invalid_uri');
}

/** Returns 400 for a query parameter; `reason` as in {@link badBody}. */
export function badQuery(reason: string, property: string, description: string): Problem {
  return invalid('Query', reason, property, description, 'invalid_query_string');
}

/**
 * Returns 400 for a field of the body. `property` is its path, names joined by dots (`3.type` in an
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

/** Shortens a value for an error message. */
export function quoted(value: string): string {
  return value.length <= quotedCharactersMax ? value : value.slice(0, quotedCharactersMax);
}

/** Returns 403 for one pull too many. */
export function tooManyConnections(): Problem {
  return new Problem(
    403,
    'Maximum concurrent event stream connections reached. Please close existing connections.',
    'too_many_connections',
  );
}

/** Returns 410: the events after a cursor were deleted. */
export function cursorExpired(): Problem {
  return new Problem(
    410,
    'Cursor points to data no longer available in the stream.',
    'cursor_expired',
  );
}

/** Returns 404; the message names what does not exist. */
export function notFound(message: string, errorCode?: string): Problem {
  return new Problem(404, message, errorCode);
}

/** Returns the 404 of a tenant that was removed while a request of it was handled. */
export function tenantGone(): Problem {
  return notFound('Not Found: the tenant was removed');
}

/** Returns 409. */
export function conflict(message: string, errorCode: string): Problem {
  return new Problem(409, message, errorCode);
}

/** Returns 401; `message` is one of docs/http-api.md#error-catalogue. Without credentials the challenge has no error code. */
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

/** 403 for a token without any of `scopes`, or without all scopes that it would grant. */
export class ForbiddenScope extends Problem {
  readonly scopes: readonly string[];

  constructor(
    scopes: readonly string[],
    message = `Insufficient scope; expected any of: ${scopes.join(',')}`,
  ) {
    // RFC 6750 section 3: scope lists at least one.
    const scope = scopes.length === 0 ? '' : `, scope="${scopes.join(' ')}"`;
    const challenge = `Bearer error="insufficient_scope"${scope}`;
    super(403, message, 'insufficient_scope', { 'www-authenticate': challenge });
    this.scopes = scopes;
  }
}

/** Returns 403 for a caller that is not an operator; `missing` are the scopes that it lacks. */
export function operatorsOnly(missing: readonly string[]): ForbiddenScope {
  const who = 'a client of the first tenant that has all scopes of the management API';
  return new ForbiddenScope(missing, `Only an operator may do this: ${who}.`);
}

/** Returns 405; `methods` are those that the path has. */
export function methodNotAllowed(methods: readonly string[]): Problem {
  const allow = methods.join(', ');
  return new Problem(405, `Method Not Allowed: accepted is ${allow}`, undefined, { allow });
}

/** Returns the 404 of a path that no route has, without its query. */
export function noPath(url: string): Problem {
  const [path = ''] = url.split('?');
  return notFound(`Not Found: no resource has the path ${quoted(path)}`);
}

/** Returns 413; `what` has the limit. */
export function tooLarge(what: 'the body' | 'an event', bytesMax: number): Problem {
  const message = `Payload Too Large: the limit of ${what} is ${bytesMax} bytes`;
  return new Problem(413, message, 'payload_too_large');
}

/** Returns 415; `sent` says what the body is, `accepted` what it has to be. */
export function unsupportedMediaType(sent: string, accepted: string): Problem {
  const message = `Unsupported Media Type: the body has ${sent}, accepted is ${accepted}`;
  return new Problem(415, message, 'unsupported_media_type');
}

/** Returns 429; `retryAfterSeconds` is at least 1. */
export function tooManyRequests(retryAfterSeconds: number): Problem {
  return new Problem(
    429,
    'Too many requests. Check the X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset headers.',
    'too_many_requests',
    { 'retry-after': String(retryAfterSeconds) },
  );
}

/** Returns 429 for a body while too many bytes of its tenant's bodies are held. */
export function tooManyBodies(): Problem {
  const message = 'Too many bodies of this tenant are under way.';
  return new Problem(429, message, 'too_many_requests', { 'retry-after': '1' });
}

/** Returns 429 for a search of a tenant while another one of it runs on this node. */
export function tooManySearches(): Problem {
  const message = 'Another search of this tenant is running. Repeat the request when it has ended.';
  return new Problem(429, message, 'too_many_requests', { 'retry-after': '1' });
}

/** Returns 429 for a test alert while another one is being sent by this node. */
export function tooManyAlertTests(): Problem {
  const message = 'Another test alert is being sent. Repeat the request when it has ended.';
  return new Problem(429, message, 'too_many_requests', { 'retry-after': '1' });
}

/** What publishers can tell their operator. */
export const storeTexts = {
  away: 'The store is not available.',
  full: 'The disk of the store is full.',
  read_only: 'The store can only be read.',
  blocked: 'The store takes no appends: something in it holds them up.',
  gone: 'The file of the store was deleted or replaced.',
};

/** Returns 503: the store is unreachable, or the process is shutting down. */
export function unavailable(message = 'Service Unavailable', isUnknown = false): Problem {
  return new Problem(503, message, 'service_unavailable', { 'retry-after': '1' }, isUnknown);
}

/** Returns the characters that RFC 6750 section 3 allows in an `error_description`, at most 200. */
function errorDescription(message: string): string {
  return message.replaceAll(/[^\x20-\x21\x23-\x5B\x5D-\x7E]/g, '?').slice(0, 200);
}
