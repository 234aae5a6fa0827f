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

/**
 * Thrown by a command that fails. `message` says what is wrong and what to do next, safe to print on
 * a terminal; `main.ts` prints it and exits with `exitCode`.
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

/** Creates the failure for a wrong command line; `message` says how to correct it. */
export function usageError(message: string): CommandFailed {
  return new CommandFailed(exitCodes.usage, message);
}

/** Creates the failure of a command without a session; `url` is the server to log in to. */
export function notLoggedIn(
  url = 'http://localhost:8080',
  reason = 'Not logged in',
): CommandFailed {
  return new CommandFailed(exitCodes.authentication, `${reason}: run \`leat login ${url}\`.`);
}
