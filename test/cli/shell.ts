import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import type { TestContext } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { outcomeOf, wantsJson } from '../../src/cli/outcome.ts';
import { addHttpCommands, createProgram } from '../../src/cli/program.ts';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { readCliEnv } from '../../src/config.ts';
import type { StreamBody } from '../helpers/api-client.ts';
import { endWithProcess } from '../helpers/children.ts';
import {
  bootstrapClient,
  compileCache,
  end,
  leatProgram,
  createTempStore,
  startLeat,
  type Running,
} from '../helpers/leat.ts';

/** Runs commands with a home folder of their own. */
export interface Shell {
  readonly home: string;
  /** File with the credentials of a login. */
  readonly credentials: string;
  /**
   * Runs a command that works over HTTP until it ends, in this process: starting another one takes
   * far longer than most commands. Its variables are those of the command line, and files that it
   * names must be absolute. What belongs to a process is tested with `run`.
   */
  leat(words: readonly string[], options?: ShellOptions): Promise<Ended>;
  /** Runs the program with these arguments in the home folder until it exits. */
  run(words: readonly string[], options?: ShellOptions): Promise<Ended>;
  /** Runs a line of `sh`, in which `leat` is this program, until it exits. */
  sh(line: string, options?: ShellOptions): Promise<Ended>;
  /** Starts the program; the end of the test kills it. */
  start(words: readonly string[], options?: ShellOptions): Started;
}

export interface ShellOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** Leaves the standard input of a started program open. */
  readonly isOpen?: boolean;
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Started {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  ended(): Promise<Ended>;
}

/** Creates a shell in a new folder, which the end of the test removes. */
export async function openShell(t: Pick<TestContext, 'after'>): Promise<Shell> {
  const home = await mkdtemp(join(tmpdir(), 'leat-cli-'));
  t.after(() => rm(home, { recursive: true, force: true }));
  await writeFile(
    join(home, 'leat'),
    `#!/bin/sh\nexec "${process.execPath}" "${leatProgram}" "$@"\n`,
    {
      mode: 0o755,
    },
  );
  const startProgram = (
    program: string,
    words: readonly string[],
    { env, input = '', isOpen }: ShellOptions = {},
  ): Started => {
    const child = spawn(program, words, {
      cwd: home,
      stdio: ['pipe', 'pipe', 'pipe'],
      env: {
        PATH: `${home}:${process.env['PATH'] ?? ''}`,
        HOME: home,
        XDG_CONFIG_HOME: join(home, 'x'),
        ...compileCache,
        ...env,
      },
    });
    t.after(() => end(child, 'SIGKILL'));
    endWithProcess(child);
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    // A program that exits without reading its input closes the pipe.
    child.stdin.on('error', () => undefined);
    if (isOpen === true) child.stdin.write(input);
    else child.stdin.end(input);
    const closed = once(child, 'close');
    return {
      child,
      stdout: () => stdout,
      stderr: () => stderr,
      ended: async () => {
        await closed;
        return { code: child.exitCode, stdout, stderr };
      },
    };
  };
  const start: Shell['start'] = (words, options) =>
    startProgram(process.execPath, [leatProgram, ...words], options);
  return {
    home,
    credentials: join(home, 'x', 'leat', 'credentials.json'),
    start,
    sh: (line, options) => startProgram('sh', ['-c', line], options).ended(),
    run: (words, options) => start(words, options).ended(),
    leat: (words, { env, input = '' } = {}) =>
      runClient(words, { XDG_CONFIG_HOME: join(home, 'x'), ...env }, input),
  };
}

/** Does in this process what `src/main.ts` does in its own. */
async function runClient(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  input: string,
): Promise<Ended> {
  const json = wantsJson(words);
  const streams = {
    stdin: new PassThrough(),
    stdout: new PassThrough({ encoding: 'utf8' }),
    stderr: new PassThrough({ encoding: 'utf8' }),
  };
  streams.stdin.end(input);
  const [stdout, stderr] = [textOf(streams.stdout), textOf(streams.stderr)];
  const deps = {
    clock: systemClock,
    random: systemRandom,
    version: packageJson.version,
    env: readCliEnv(env),
    streams,
    interruption: () => new AbortController().signal,
  };
  const program = createProgram(deps, json);
  addHttpCommands(program, deps);
  let code = 0;
  try {
    await program.parseAsync(words, { from: 'user' });
  } catch (error) {
    const { exitCode, text } = outcomeOf(error, json);
    if (text !== '') streams.stderr.write(`${text}\n`);
    code = exitCode;
  }
  streams.stdout.end();
  streams.stderr.end();
  return { code, stdout: await stdout, stderr: await stderr };
}

async function textOf(stream: Readable): Promise<string> {
  let text = '';
  for await (const chunk of stream as AsyncIterable<string>) text += chunk;
  return text;
}

/** Starts a server on a new store. */
export async function openServer(
  settings: Readonly<Record<string, string>> = {},
): Promise<Running & { close(): Promise<void> }> {
  const tempStore = await createTempStore();
  const leat = await startLeat(tempStore, settings);
  const close = async (): Promise<void> => {
    await leat.kill();
    await tempStore.remove();
  };
  return { ...leat, close };
}

/** Logs in as the client with every scope. */
export function logIn(shell: Shell, { url }: Pick<Running, 'url'>): Promise<Ended> {
  const words = ['login', url, '--client-id', bootstrapClient.id];
  return shell.leat(words, { input: `${bootstrapClient.secret}\n` });
}

/** Opens a shell and logs in; neither stream shows the secret. */
export async function openLoggedInShell(
  t: Pick<TestContext, 'after'>,
  server: Pick<Running, 'url'>,
): Promise<Shell> {
  const shell = await openShell(t);
  const { code, stdout, stderr } = await logIn(shell, server);
  assert.equal(code, 0, stderr);
  assert.ok(!`${stdout}${stderr}`.includes(bootstrapClient.secret));
  return shell;
}

/** Creates an enabled stream with the command line and returns its id. */
export async function createStreamNamed(shell: Shell, name: string): Promise<string> {
  const words = ['--name', name, '--endpoint', 'https://example.com/', '--events', `${name}.event`];
  const options = { input: 'a-token' };
  const all = ['streams', 'create', ...words, '--bearer-file', '-', '--json'];
  const { code, stdout, stderr } = await shell.leat(all, options);
  assert.equal(code, 0, stderr);
  return (JSON.parse(stdout) as StreamBody).id;
}
