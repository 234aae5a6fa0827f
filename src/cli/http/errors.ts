import { printable } from '../../core/setting.ts';

/** What the program ends with; `docs/cli.md` shows the same table. */
export const exitCodes = {
  done: 0,
  /** The server refused the request or failed, or its answer cannot be understood. */
  failed: 1,
  usage: 2,
  /** Not logged in, a wrong secret, or a scope is missing. */
  authentication: 3,
  notFound: 4,
  conflict: 5,
  /** Cannot be reached, or still busy after the repeats: the same command may work later. */
  unavailable: 6,
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/**
 * A command did not do what was asked. `message` says what is wrong and what to do next, in lines
 * fit for a terminal; `main.ts` shows it and ends with `exitCode`.
 */
export class CommandFailed extends Error {
  readonly code = 'command_failed';
  override readonly name = 'CommandFailed';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** Wrong words on the command line: what is wrong and how it is said right. */
export function usageError(message: string): CommandFailed {
  return new CommandFailed(exitCodes.usage, message);
}

/** There is no session for a server; `url` is what a login would name. */
export function notLoggedIn(url = 'http://localhost:8080', why = 'Not logged in'): CommandFailed {
  return new CommandFailed(exitCodes.authentication, `${why}: run \`leat login ${url}\`.`);
}

/** What an answer other than 2xx consists of, as far as an error tells of it. */
export interface RefusedResponse {
  readonly status: number;
  readonly text: string;
  readonly headers?: { readonly location?: string | undefined };
}

/** What a person reads of a message; a proxy may send a whole page as one. */
const saidCharactersMax = 2000;

/**
 * The failure that an answer of the management API means (docs/http-api.md#error-body): the server's own
 * message, and the way out where there is one.
 */
export function failureOf(
  { status, text, headers }: RefusedResponse,
  { url, clientId }: { readonly url: string; readonly clientId: string },
): CommandFailed {
  const { message, errorCode, error_description: description } = problemOf(text);
  const words = message ?? description ?? `${url} answered ${status}.`;
  const said = printable(words.slice(0, saidCharactersMax));
  const way =
    wayOutOfRedirect(status, headers?.location, url) ??
    wayOut(status, errorCode, { said, url, clientId });
  return new CommandFailed(exitCodeOf(status), way === undefined ? said : `${said}\n${way}`);
}

/** The exit code of a status other than 2xx. */
export function exitCodeOf(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCodes.authentication;
  if (status === 404 || status === 410) return exitCodes.notFound;
  if (status === 409) return exitCodes.conflict;
  // 502 and 504 are words of a proxy that does not reach the server behind it.
  if ([429, 502, 503, 504].includes(status)) return exitCodes.unavailable;
  return exitCodes.failed;
}

interface Problem {
  readonly message?: string;
  readonly errorCode?: string;
  readonly error_description?: string;
}

/** The members that are texts; whatever else a proxy on the way may have answered is dropped. */
function problemOf(text: string): Problem {
  try {
    const members = Object.entries(Object(JSON.parse(text)));
    return Object.fromEntries(members.filter(([, value]) => typeof value === 'string'));
  } catch {
    return {};
  }
}

/** Redirects are not followed: they would carry the token to a server that nobody named. */
function wayOutOfRedirect(
  status: number,
  location: string | undefined,
  url: string,
): string | undefined {
  const to = status < 300 || status > 399 ? null : URL.parse(location ?? '', url);
  if (to === null || to.origin === url || to.origin === 'null') return undefined;
  return `It points to ${to.origin}. If that is right: leat login ${to.origin}`;
}

function wayOut(
  status: number,
  errorCode: string | undefined,
  { said, url, clientId }: { said: string; url: string; clientId: string },
): string | undefined {
  const client = printable(clientId);
  if (said === 'Client is not global.') {
    return `Let a client that may set it: leat clients update ${client} --global`;
  }
  if (status === 401) return `Log in again: leat login ${url}`;
  if (errorCode === 'insufficient_scope') return scopeAdvice(said, client);
  return advice[errorCode ?? ''] ?? adviceOfStatus[status];
}

function scopeAdvice(said: string, client: string): string {
  const scopes = /expected any of: (?<scopes>\S+)/.exec(said)?.groups?.['scopes'];
  const first = scopes?.split(',')[0] ?? '<scope>';
  return `Let a client that has the scope grant it: leat clients grant ${client} --scope ${first}`;
}

const advice: Readonly<Record<string, string>> = {
  stream_name_in_use: 'Choose another --name; leat streams list shows those in use.',
  stream_disabled: 'Enable it first: leat streams enable <stream>',
  too_many_failures: 'Redeliver them: leat redeliver <stream>',
  too_many_streams: 'Delete one that is not needed: leat streams delete <stream>',
  replay_running: 'See how far it is: leat replay show <stream>',
  cursor_expired: 'Begin at the oldest retained event: leat events tail --since 1970-01-01',
  too_many_connections: 'End another pull first, or raise LEAT_SSE_MAX_CONNECTIONS.',
};

const adviceOfStatus: Readonly<Record<number, string>> = {
  429: 'Try again in a moment.',
  502: 'Try again in a moment.',
  503: 'Try again in a moment.',
  504: 'Try again in a moment.',
};
