import { terminalSafe } from './json.ts';

/** Exit codes of the program; docs/cli.md#exit-codes describes them. */
export const exitCodes = {
  done: 0,
  /** The server refused the request or failed, or its response cannot be read. */
  failed: 1,
  usage: 2,
  /** Not logged in, a wrong secret, or a scope is missing. */
  authentication: 3,
  notFound: 4,
  conflict: 5,
  /** The server cannot be reached, or is still busy after retries: the command may work later. */
  unavailable: 6,
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** What is known of a failure beyond its message. */
export interface FailureDetails extends ErrorOptions {
  /** What to do next, in one line. */
  readonly nextStep?: string | undefined;
  /** Status of the response that the failure is about. */
  readonly statusCode?: number | undefined;
  /** `errorCode` of that response (docs/http-api.md#error-catalogue). */
  readonly errorCode?: string | undefined;
}

/**
 * Thrown by a command that fails. `message` says what is wrong, safe to print on a terminal; `main.ts`
 * prints it with the next step and exits with `exitCode`.
 */
export class CommandFailed extends Error {
  readonly code = 'command_failed';
  override readonly name = 'CommandFailed';
  readonly exitCode: ExitCode;
  readonly details: Omit<FailureDetails, 'cause'>;

  constructor(exitCode: ExitCode, message: string, { cause, ...details }: FailureDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.exitCode = exitCode;
    this.details = details;
  }
}

/** Returns a failure as text: the message, then the next step; empty without a message. */
export function failureText({ message, details }: CommandFailed): string {
  return [message, details.nextStep ?? ''].filter((line) => line !== '').join('\n');
}

/**
 * Returns a failure as one line of JSON (docs/cli.md#errors-as-json); empty for a failure without a
 * message, whose result says what is wrong.
 */
export function failureJson(
  exitCode: number,
  message: string,
  { statusCode, errorCode, nextStep }: CommandFailed['details'] = {},
): string {
  const error = kinds.get(exitCode) ?? 'failed';
  const shown = message === '' && exitCode === exitCodes.interrupted ? 'Interrupted.' : message;
  if (shown === '') return '';
  return terminalSafe(JSON.stringify({ error, message: shown, errorCode, statusCode, nextStep }));
}

/** Names of the exit codes. */
const kinds: ReadonlyMap<number, string> = new Map([
  [exitCodes.usage, 'usage'],
  [exitCodes.authentication, 'authentication'],
  [exitCodes.notFound, 'not_found'],
  [exitCodes.conflict, 'conflict'],
  [exitCodes.unavailable, 'unavailable'],
  [exitCodes.interrupted, 'interrupted'],
]);

/** Creates the failure for a wrong command line; `message` says how to correct it. */
export function usageError(message: string): CommandFailed {
  return new CommandFailed(exitCodes.usage, message);
}

/** Creates the failure of a command without a session; `login` is the command that logs in. */
export function notLoggedIn(login: string, reason = 'Not logged in'): CommandFailed {
  const message = `${reason}: run \`${login}\`.`;
  return new CommandFailed(exitCodes.authentication, message);
}
