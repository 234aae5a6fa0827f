import { redact } from '../../core/redact.ts';
import { printable } from '../../core/setting.ts';
import { CommandFailed, type ExitCode, exitCodes } from '../errors.ts';
import type { LeatCommand } from '../leat-command.ts';
import type { HttpResponse } from './http-client.ts';

/** A response other than 2xx. */
export type RefusedResponse = Pick<HttpResponse, 'status' | 'text'> &
  Partial<Pick<HttpResponse, 'headers'>>;

/** Servers generate longer ones; the letters of a shorter one are those of any message. */
const secretCharactersMin = 8;

/** A proxy may send a whole page as its message. */
const messageCharactersMax = 2000;

export interface RequestContext {
  /** Origin of the server. */
  readonly url: string;
  readonly clientId: string;
  /** Sent with the request; a proxy may repeat them in its message, which ends up in logs. */
  readonly secrets: readonly string[];
  readonly leat: LeatCommand;
  /** The command that logs in to the server again. */
  readonly login: string;
}

/**
 * Creates the failure that a response other than 2xx means (docs/http-api.md#error-body): the
 * server's message unless it repeats a secret, and the next step where that is known.
 */
export function apiError(
  { status, text, headers }: RefusedResponse,
  { url, clientId, secrets, leat, login }: RequestContext,
): CommandFailed {
  const { message, errorCode, error_description: description } = problemOf(text);
  const reported = message ?? description ?? `${url} answered ${status}.`;
  const cut = reported.length > messageCharactersMax;
  const searched = secrets.filter(({ length }) => length >= secretCharactersMin);
  const redacted = redact(reported.slice(0, messageCharactersMax), searched, cut, () => false);
  const shown = printable(
    'text' in redacted
      ? redacted.text
      : `${url} answered ${status}. Its message is not shown: it repeats a secret that was sent.`,
  );
  const nextStep =
    redirectHint(status, headers?.['location'], { url, leat }) ??
    hintOf(status, errorCode, { message: shown, clientId, leat, login });
  const code = errorCode === undefined ? undefined : printable(errorCode.slice(0, 100));
  return new CommandFailed(exitCodeOf(status), shown, {
    statusCode: status,
    errorCode: code,
    nextStep,
  });
}

/** Returns the exit code for a status other than 2xx. */
export function exitCodeOf(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCodes.authentication;
  if (status === 404 || status === 410) return exitCodes.notFound;
  if (status === 409) return exitCodes.conflict;
  // 502 and 504 come from a proxy that cannot reach the server.
  if ([429, 502, 503, 504].includes(status)) return exitCodes.unavailable;
  return exitCodes.failed;
}

interface Problem {
  readonly message?: string;
  readonly errorCode?: string;
  readonly error_description?: string;
}

/** Returns the fields that are strings; a proxy may have sent anything else. */
function problemOf(text: string): Problem {
  try {
    const fields = Object.entries(Object(JSON.parse(text)));
    return Object.fromEntries(fields.filter(([, value]) => typeof value === 'string'));
  } catch {
    return {};
  }
}

/** Redirects are not followed: they would send the token to a server that the user did not name. */
function redirectHint(
  status: number,
  location: string | undefined,
  { url, leat }: Pick<RequestContext, 'url' | 'leat'>,
): string | undefined {
  const to = status < 300 || status > 399 ? null : URL.parse(location ?? '', url);
  if (to === null || to.origin === url || to.origin === 'null') return undefined;
  return `It points to ${to.origin}. If that is right: ${leat`login ${to.origin}`}`;
}

function hintOf(
  status: number,
  errorCode: string | undefined,
  {
    message,
    clientId,
    leat,
    login,
  }: Pick<RequestContext, 'clientId' | 'leat' | 'login'> & { readonly message: string },
): string | undefined {
  if (message === 'Client is not global.') {
    return `Let a client that may set it: ${leat`clients update ${clientId} --global`}`;
  }
  if (message.startsWith('Client is not authorized to access ')) {
    return `It has no scope there. Let a client that has them grant some: ${leat`clients grant ${clientId} --scope <scopes>`}`;
  }
  // Also of the token endpoint, whose errors have other codes.
  if (message.startsWith('Not Found: no tenant has the host ')) {
    return `Use the domain of a tenant, which ${leat`tenants list`} shows where Leat runs: ${leat`login https://<domain>`}`;
  }
  // Of a dismissal that would open too many failures again.
  const full = /^The event stream (?<stream>\S+) would have /.exec(message)?.groups?.['stream'];
  if (full !== undefined) return `Disable it: ${leat`streams disable ${full}`}`;
  if (status === 401) return `Log in again: ${login}`;
  if (errorCode === 'insufficient_scope') return scopeHint(message, clientId, leat);
  const format = /validation for format (?<name>[a-z-]+)/.exec(message)?.groups?.['name'];
  return (
    hintsByCode(leat)[errorCode ?? ''] ??
    hintsByMessage(leat)[subjectOf(message)] ??
    hintsByFormat(leat)[format ?? ''] ??
    hintsByStatus[status]
  );
}

function scopeHint(message: string, client: string, leat: LeatCommand): string {
  const scopes = /expected any of: (?<scopes>\S+)/.exec(message)?.groups?.['scopes'];
  const first = scopes?.split(',')[0];
  const command =
    first === undefined
      ? leat`clients grant ${client} --scope <scope>`
      : leat`clients grant ${client} --scope ${first}`;
  return `Let a client that has the scope grant it: ${command}`;
}

const hintsByCode = (leat: LeatCommand): Readonly<Record<string, string>> => ({
  stream_name_in_use: `Choose another --name; ${leat`streams list`} shows those in use.`,
  stream_disabled: `Enable it first: ${leat`streams enable <stream>`}`,
  too_many_failures: `Redeliver them: ${leat`redeliver <stream>`}`,
  too_many_streams: `Delete one that is not needed: ${leat`streams delete <stream>`}`,
  rotation_pending: `Wait until then, or end the previous secret now: ${leat`streams secret <stream> --rotate --force`}`,
  received_elsewhere: 'Run it again until it gets to that node, or log in to that node.',
  owner_unconfirmed: 'Run it again: it waits until that node has read the change.',
  replay_running: `See how far it is: ${leat`replay show <stream>`}`,
  cursor_expired: `Begin at the oldest retained event: ${leat`events tail --since 1970-01-01`}`,
  too_many_connections: 'End another pull first, or raise LEAT_SSE_MAX_CONNECTIONS.',
});

/** Returns what is absent, without its id or path. Older servers end it with a full stop. */
function subjectOf(message: string): string {
  return message.split(/: |\.$/, 1)[0] ?? '';
}

const hintsByMessage = (leat: LeatCommand): Readonly<Record<string, string>> => ({
  // Of a path that no operation has.
  'Not Found': 'The server may be an older Leat without this operation: compare the versions.',
  'The requested stream does not exist': `These exist: ${leat`streams list`}`,
  'The event does not exist': `It is found by its id or its idempotency key; these exist: ${leat`events tail --since 1h --no-follow`}`,
});

const hintsByFormat = (leat: LeatCommand): Readonly<Record<string, string>> => ({
  'event-id': `Ids of failures, evt_… by default: ${leat`deliveries list <stream>`}`,
  'error-code':
    'Codes: http_503, http_5xx, timeout, dns, refused, reset, tls, protocol, blocked_address, authorization, stream_disabled',
});

const hintsByStatus: Readonly<Record<number, string>> = {
  429: 'Try again in a moment.',
  502: 'Try again in a moment.',
  503: 'Try again in a moment.',
  504: 'Try again in a moment.',
};
