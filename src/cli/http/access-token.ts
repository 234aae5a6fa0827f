import type { Millis } from '../../core/clock.ts';
import { printable } from '../../core/setting.ts';
import { CommandFailed, exitCodes } from '../errors.ts';
import type { LeatCommand } from '../leat-command.ts';
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

/** Dependencies of the requests for tokens. */
export interface TokenDeps extends RetryDeps {
  readonly leat: LeatCommand;
  /** The command that logs in to the server. */
  readonly login: string;
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
  deps: TokenDeps,
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
  if (response.status === 404 && (await isMessageApi(http))) throw messageApiFailure(http.url);
  if (response.status === 401) {
    const message = `${http.url} refuses client ${printable(clientId)}: check its id and secret, then run \`${deps.login}\`.`;
    throw new CommandFailed(exitCodes.authentication, message, { statusCode: 401 });
  }
  if (response.status !== 200) {
    const { leat, login } = deps;
    throw apiError(response, { url: http.url, clientId, secrets: [clientSecret], leat, login });
  }
  const token = tokenIn(response.text);
  if (token === undefined) {
    const message = `${http.url} answered without a token: is it the address of a Leat server?`;
    throw new CommandFailed(exitCodes.failed, message);
  }
  return { value: token.value, endsAt: requestedAt + token.lifetimeMs - reserveMs };
}

/**
 * Requests a token for the audience, then for the relative one (docs/http-api.md#audiences) where the
 * host of the address is not a domain of the server: a local trial that is reached as 127.0.0.1.
 */
export async function requestFirstToken(
  http: HttpClient,
  request: TokenRequest,
  deps: TokenDeps,
): Promise<{ readonly audience: string; readonly token: AccessToken }> {
  const { audience } = request;
  try {
    return { audience, token: await requestToken(http, request, deps) };
  } catch (error) {
    const isUnknown =
      error instanceof CommandFailed && error.message.startsWith('Service not found');
    if (!isUnknown) throw error;
    const relative = { ...request, audience: '/api/v2/' };
    return { audience: relative.audience, token: await requestToken(http, relative, deps) };
  }
}

/** Returns whether a server answers as the message API does (docs/message-api.md). */
async function isMessageApi(http: HttpClient): Promise<boolean> {
  const request = { method: 'GET', path: '/api/messages/public' } as const;
  const found = await http.send(request).catch(() => undefined);
  return found?.status === 200 && found.text.includes('"This is a public message."');
}

function messageApiFailure(url: string): CommandFailed {
  const { protocol, hostname } = new URL(url);
  const example = `${protocol}//${hostname}:8080`;
  const message = `${url} is the message API, which has no management API.`;
  return new CommandFailed(exitCodes.notFound, message, {
    statusCode: 404,
    nextStep: `Use the address of the management API; without LEAT_PORT that is ${example}`,
  });
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
