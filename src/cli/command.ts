import { type Command, Option } from 'commander';
import { printable } from '../core/setting.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { type ApiClient, createApiClient } from './http/api-client.ts';
import { unreachable } from './http/connection-error.ts';
import { openSession, type Session, type SessionDeps } from './http/session.ts';
import { terminalSafe } from './json.ts';
import { leatCommand } from './leat-command.ts';
import { createTerminal, type Streams, type Terminal } from './terminal/terminal.ts';

/** Dependencies of the commands that work over HTTP. */
export interface CliDeps extends Omit<SessionDeps, 'note' | 'signal' | 'leat'> {
  readonly streams: Streams;
  /** Catches Ctrl-C from the call on; the signal aborts at the first one. */
  readonly interruption: () => AbortSignal;
}

/** One run of a command. */
export interface Run extends Omit<SessionDeps, 'note'> {
  readonly terminal: Terminal;
  /** Whether to print JSON instead of text. */
  readonly json: boolean;
  /** Aborts at Ctrl-C; {@link run} then ends the command with code 130. */
  readonly signal: AbortSignal;
}

/** A run that is logged in. */
export interface ApiRun extends Run {
  readonly api: ApiClient;
}

/** The options of every command. */
export interface CommonOptions {
  readonly profile?: string;
  readonly ca?: string;
  readonly json?: boolean;
  readonly color: boolean;
}

/** Adds the options of every command. */
export function withCommonOptions(command: Command): Command {
  return command
    .option('--json', 'print JSON for programs')
    .option('--profile <name>', 'name of the login (default: "default")')
    .option('--ca <file>', 'PEM file of an authority to trust (or LEAT_CA)')
    .addOption(new Option('--no-color', 'no colours (or NO_COLOR)'));
}

/** Returns the examples at the end of a command's help. */
export function examples(...commands: readonly string[]): string {
  return `\nExamples:\n${commands.map((command) => `  ${command}`).join('\n')}`;
}

/** Runs a command without a session. */
export async function run(
  deps: CliDeps,
  options: CommonOptions,
  work: (run: Run) => Promise<void>,
): Promise<void> {
  const colour = options.color && !deps.env.noColor;
  const json = options.json === true;
  const terminal = createTerminal(deps.streams, { colour, json });
  const signal = deps.interruption();
  const interrupted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new CommandFailed(exitCodes.interrupted, '')));
  });
  try {
    await Promise.race([
      work({ ...deps, terminal, json, signal, leat: leatCommand(options) }),
      interrupted,
    ]);
  } finally {
    terminal.progress(undefined);
  }
}

/** Runs a command that needs a session. */
export async function runWithApi(
  deps: CliDeps,
  options: CommonOptions,
  work: (run: ApiRun) => Promise<void>,
): Promise<void> {
  await run(deps, options, async (local) => {
    const sessionDeps = { ...local, note: local.terminal.note };
    const session = await openSession(sessionDeps, options);
    const api = createApiClient(session, sessionDeps);
    await work({ ...local, api }).catch((error: unknown) => {
      throw error instanceof TypeError
        ? unexpectedResponse(api.url, error)
        : withAddressSource(error, session);
    });
  });
}

/** Adds where the address is from to the error of a server that cannot be reached there. */
function withAddressSource(error: unknown, { addressSource }: Session): unknown {
  const isUnreachable =
    error instanceof CommandFailed &&
    error.exitCode === exitCodes.unavailable &&
    error.message.includes(unreachable) &&
    error.details.nextStep === undefined;
  if (!isUnreachable) return error;
  const { exitCode, message, details, cause } = error;
  return new CommandFailed(exitCode, message, { ...details, cause, nextStep: addressSource });
}

/** The JSON lacks the fields of this API: another program, or a proxy, has answered. */
function unexpectedResponse(url: string, error: TypeError): CommandFailed {
  const message = `${url} answered something else than expected: is it the address of a Leat server?`;
  const detail = printable(error.message);
  return new CommandFailed(exitCodes.failed, `${message} (${detail})`, { cause: error });
}

/**
 * Returns the body of a response that must have these numbers. Throws `TypeError` otherwise, which
 * {@link runWithApi} reports.
 */
export function withNumbers<Body extends object>(
  body: unknown,
  ...names: readonly (keyof Body & string)[]
): Body {
  const fields = Object(body) as Body;
  const missing = names.find((name) => typeof fields[name] !== 'number');
  if (missing === undefined) return fields;
  throw new TypeError(`no number "${missing}"`);
}

/** Prints a result: the server's JSON with `--json`, else lines of text. */
export function show(
  { terminal, json }: Pick<Run, 'terminal' | 'json'>,
  text: string,
  lines: () => readonly string[],
): void {
  if (json) terminal.print(terminalSafe(text));
  else for (const line of lines()) terminal.print(line);
}
