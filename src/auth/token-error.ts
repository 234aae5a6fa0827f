/**
 * Why the token endpoint issues no token (RFC 6749 section 5.2,
 * docs/http-api.md#token-endpoint-errors). Returned, not thrown: it is an expected outcome.
 */
export class TokenError {
  readonly status: number;
  readonly error: string;
  readonly description: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    error: string,
    description: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    this.status = status;
    this.error = error;
    this.description = description;
    this.headers = headers;
  }
}

/** 400: the request is malformed. */
export function invalidRequest(description: string): TokenError {
  return new TokenError(400, 'invalid_request', description);
}

/** 400: a required parameter is missing. */
export function missingParameter(name: string): TokenError {
  return invalidRequest(`Missing required parameter: ${name}`);
}

/**
 * 401: one text for all causes, which must not reveal which clients exist. Each has a challenge
 * (RFC 9110 section 15.5.2), whichever method the client used.
 */
export function invalidClient(domain: string): TokenError {
  const challenge = { 'www-authenticate': `Basic realm="${domain}"` };
  return new TokenError(401, 'invalid_client', 'Client authentication failed', challenge);
}

/** 400: scopes that the client does not hold, or too many of them. */
export function invalidScope(description: string): TokenError {
  return new TokenError(400, 'invalid_scope', description);
}

/** 403: the client is authenticated, but not authorized. */
export function accessDenied(description: string): TokenError {
  return new TokenError(403, 'access_denied', description);
}
