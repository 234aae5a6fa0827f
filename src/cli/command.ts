import { type Command, Option } from 'commander';
import { type Api, createApi } from './http/client.ts';
import { printable } from '../core/setting.ts';
import { CommandFailed, exitCodes } from './http/errors.ts';
import { terminalSafe } from './json.ts';
import { openSession, type SessionDeps } from './http/session.ts';
import { createTerminal, type Streams, type Terminal } from './terminal/terminal.ts';

/** What the commands that work over HTTP need of the program. */
export interface CliDeps extends Omit<SessionDeps, 'note'> {
  readonly streams: Streams;
  /** Aborts at Ctrl-C; listened for from the call on. */
  readonly interruption: () => AbortSignal;
}

/** What one run of a command works with. */
export interface Run extends Omit<SessionDeps, 'note'> {
  readonly terminal: Terminal;
  /** Whether the answer is for a program. */
  readonly json: boolean;
  /** Aborts at Ctrl-C; the run then ends with code 130 by itself. */
  readonly signal: AbortSignal;
}

/** A run that is logged in. */
export interface ApiRun extends Run {
  readonly api: Api;
}

/** What every command can be told. */
export interface CommonOptions {
  readonly profile?: string;
  readonly ca?: string;
  readonly json?: boolean;
  readonly color: boolean;
}

/** Gives a command the options that every one has. */
export function withCommonOptions(command: Command): Command {
  return command
    .option('--json', 'print JSON for programs')
    .option('--profile <name>', 'another login than the default one')
    .option('--ca <file>', 'PEM file of an authority to trust (or LEAT_CA)')
    .addOption(new Option('--no-color', 'no colours (or NO_COLOR)'));
}

/** What stands below the help of a command. */
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
  const terminal = createTerminal(deps.streams, { colour });
  const signal = deps.interruption();
  const interrupted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new CommandFailed(exitCodes.interrupted, '')));
  });
  try {
    await Promise.race([
      work({ ...deps, terminal, json: options.json === true, signal }),
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
    const noting = { ...deps, note: local.terminal.note };
    const session = await openSession(noting, options);
    const api = createApi(session, noting);
    await work({ ...local, api }).catch((error: unknown) => {
      throw error instanceof TypeError ? notUnderstood(api.url, error) : error;
    });
  });
}

/** JSON without the members that this API has: another program, or a proxy, has answered. */
function notUnderstood(url: string, error: TypeError): CommandFailed {
  const message = `${url} answered something else than expected: is it the address of a Leat server?`;
  const detail = printable(error.message);
  return new CommandFailed(exitCodes.failed, `${message} (${detail})`, { cause: error });
}

/** Prints a result: the server's own JSON for programs, else the lines for people. */
export function show(
  { terminal, json }: Pick<Run, 'terminal' | 'json'>,
  text: string,
  lines: () => readonly string[],
): void {
  if (json) terminal.print(terminalSafe(text));
  else for (const line of lines()) terminal.print(line);
}
