import type { Millis } from '../../core/clock.ts';
import { printable } from '../../core/setting.ts';
import { CommandFailed, exitCodes } from '../errors.ts';
import { apiError } from './api-error.ts';
import type { HttpClient } from './http-client.ts';
import { type RetryDeps, sendWithRetry } from './retry.ts';

/** An access token of the management API. */
export interface AccessToken {
  readonly value: string;
  /** Not used from then on; a minute before it expires. */
  readonly endsAt: Millis;
}

/** A client's credentials and the API that tokens are requested for. */
export interface TokenRequest {
  readonly clientId: string;
  readonly clientSecret: string;
  readonly audience: string;
}

/** A token is not used in its last minute, because a long command would outlive it. */
const reserveMs = 60_000;

/**
 * Requests an access token (RFC 6749, section 4.4). Throws {@link CommandFailed} with the server's
 * message when it is refused.
 */
export async function requestToken(
  http: HttpClient,
  { clientId, clientSecret, audience }: TokenRequest,
  deps: RetryDeps,
): Promise<AccessToken> {
  const requestedAt = deps.clock.now();
  const body = JSON.stringify({
    grant_type: 'client_credentials',
    audience,
    client_id: clientId,
    client_secret: clientSecret,
  });
  const headers = { 'content-type': 'application/json' };
  const send = () => http.send({ method: 'POST', path: '/oauth/token', headers, body });
  const response = await sendWithRetry(send, deps);
  if (response.status === 401) {
    const message = `${http.url} refuses client ${printable(clientId)}: check its id and secret, then run \`leat login ${http.url}\`.`;
    throw new CommandFailed(exitCodes.authentication, message);
  }
  if (response.status !== 200) {
    throw apiError(response, { url: http.url, clientId, secrets: [clientSecret] });
  }
  const token = tokenIn(response.text);
  if (token === undefined) {
    const message = `${http.url} answered without a token: is it the address of a Leat server?`;
    throw new CommandFailed(exitCodes.failed, message);
  }
  return { value: token.value, endsAt: requestedAt + token.lifetimeMs - reserveMs };
}

function tokenIn(text: string): { value: string; lifetimeMs: number } | undefined {
  try {
    const fields = Object(JSON.parse(text)) as { access_token?: unknown; expires_in?: unknown };
    const { access_token: value, expires_in: seconds } = fields;
    // It is sent in a header.
    if (typeof value !== 'string' || !/^[\u0021-\u007E]+$/.test(value)) return undefined;
    return { value, lifetimeMs: typeof seconds === 'number' ? seconds * 1000 : 0 };
  } catch {
    return undefined;
  }
}
