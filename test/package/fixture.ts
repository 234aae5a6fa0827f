import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { defaultDataFolder } from '../../src/files/default-data-folder.ts';
import { npmProgram } from '../../tools/npm.ts';
import { endWithProcess } from '../helpers/children.ts';
import { bootstrapClient, end, fetchToken, freePort, type Running } from '../helpers/leat.ts';
import { waitFor } from '../helpers/wait.ts';

/** An empty home folder with a prefix of npm, as a machine that never had Leat. */
export interface Home {
  readonly folder: string;
  /** Where npm installs: its commands are in `bin`. */
  readonly prefix: string;
  /** The data folder, at the place of the platform. */
  readonly data: string;
  /** The whole environment of its programs. */
  readonly env: Readonly<Record<string, string>>;
  remove(): Promise<void>;
}

/** @param changes of the environment of its programs */
export async function createHome(changes: Readonly<Record<string, string>> = {}): Promise<Home> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-home-'));
  const prefix = join(folder, 'prefix');
  await mkdir(join(folder, 'work'));
  const env = {
    PATH: [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter),
    HOME: folder,
    XDG_DATA_HOME: join(folder, '.local/share'),
    XDG_CONFIG_HOME: join(folder, '.config'),
    npm_config_prefix: prefix,
    npm_config_cache: join(folder, 'npm-cache'),
    npm_config_update_notifier: 'false',
    ...changes,
  };
  const { platform } = process;
  const data = defaultDataFolder({ platform, env, home: folder, hasLocalFolder: false });
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  return { folder, prefix, data, env, remove };
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command in a home until it ends. */
export async function run(
  home: Home,
  command: string,
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const child = spawn(command, words, {
    cwd: join(home.folder, 'work'),
    env: { ...home.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  endWithProcess(child);
  const texts = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (texts.stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (texts.stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...texts };
}

/** Runs npm on the Node of the tests, without a network. Fails unless it succeeds. */
export async function npm(home: Home, words: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(home, process.execPath, [
    npmProgram(),
    ...words,
    '--offline',
  ]);
  assert.equal(code, 0, stdout + stderr);
  assert.doesNotMatch(stderr, /warn/i);
  return stdout;
}

/** `leat start` of a program in a home. */
export interface RunningProgram extends Pick<
  Running,
  'url' | 'port' | 'child' | 'output' | 'send'
> {
  /** Base URL of the message API. */
  readonly messages: string;
  stop(): Promise<number | null>;
}

/** Starts `leat start` and waits until it is ready. */
export async function startProgram(
  home: Home,
  command: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<RunningProgram> {
  const [port, messagesPort] = [await freePort(), await freePort()];
  const child = spawn(command, ['start'], {
    cwd: join(home.folder, 'work'),
    env: {
      ...home.env,
      LEAT_PORT: String(port),
      PORT: String(messagesPort),
      LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
      LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
      LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
      LEAT_EGRESS_ALLOW: '127.0.0.0/8',
      LEAT_SENDER_THREADS: '1',
      LEAT_RETRY_DELAYS_MS: Array.from({ length: 20 }, () => '1000').join(','),
      LEAT_LOG_LEVEL: 'warn',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  endWithProcess(child);
  const output = outputOf(child);
  const url = `http://127.0.0.1:${port}`;
  const isReady = async (): Promise<boolean> => {
    assert.equal(child.exitCode, null, output());
    const response = await fetch(`${url}/readyz`).catch(() => undefined);
    await response?.arrayBuffer();
    return response?.ok ?? false;
  };
  await waitFor('the program to be ready', isReady, { progress: output, intervalMsFirst: 50 });
  const token = await fetchToken(url, bootstrapClient);
  return {
    url,
    port,
    messages: `http://127.0.0.1:${messagesPort}`,
    child,
    output,
    send: (method, path, body, headers = {}) =>
      fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    stop: () => end(child, 'SIGTERM'),
  };
}

function outputOf(child: ChildProcess): () => string {
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  }
  return () => text;
}
