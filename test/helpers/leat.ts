import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { constants, copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { endWithProcess } from './children.ts';
import { freePort } from './ports.ts';
import { waitFor } from './wait.ts';

export { freePort } from './ports.ts';
export { waitFor } from './wait.ts';

/** The real program as a process, on a store in a fresh folder. */

export const secretKey = Buffer.alloc(32, 7);
export const bootstrapClient = { id: 'operator', secret: 'secret-of-the-operator' };

/**
 * Programs that tests start use compiled sources from the second start on. Otherwise hundreds of starts
 * would take three times as long.
 */
export const compileCache = {
  NODE_COMPILE_CACHE: new URL('../../node_modules/.cache/compiled', import.meta.url).pathname,
};

/** A temporary folder with the path of a store file in it. */
export interface TempStore {
  readonly folder: string;
  readonly file: string;
  remove(): Promise<void>;
}

export interface Running {
  readonly url: string;
  readonly port: number;
  readonly child: ChildProcess;
  /** Returns the text of both outputs so far. */
  output(): string;
  /** A management token with every scope. */
  readonly token: string;
  /** Sends a management request as JSON, or an OAuth one; the path begins with a slash. */
  send(method: string, path: string, body?: unknown, headers?: object): Promise<Response>;
  /** Kills it as `kill -9` does. */
  kill(): Promise<void>;
  /** Ends it as Ctrl-C does; returns its exit code. */
  stop(): Promise<number | null>;
}

export async function createTempStore(): Promise<TempStore> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-'));
  return {
    folder,
    file: join(folder, 'leat.db'),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Returns the environment in which a program opens a store itself. */
export function storeEnvironment({ file }: Pick<TempStore, 'file'>): Record<string, string> {
  return { LEAT_STORE: `sqlite:${file}`, LEAT_SECRET_KEY: secretKey.toString('base64') };
}

/**
 * Starts `leat serve` on a store and waits until it is ready; throws with its output otherwise.
 * With `LEAT_TLS=local` this process then trusts the CA that the program names.
 *
 * @param program the `main.ts` of another version
 */
export async function startLeat(
  tempStore: TempStore,
  settings: Readonly<Record<string, string>> = {},
  program = leatProgram,
): Promise<Running> {
  const port =
    settings['LEAT_PORT'] === undefined ? await freePort() : Number(settings['LEAT_PORT']);
  const env = {
    ...storeEnvironment(tempStore),
    LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
    LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
    LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
    LEAT_EGRESS_ALLOW: '127.0.0.0/8',
    LEAT_RATE_LIMIT_BURST: '1000000',
    LEAT_RATE_LIMIT_PER_SECOND: '1000000',
    LEAT_TENANT_RATE_BURST: '1000000',
    LEAT_TENANT_RATE_PER_SECOND: '1000000',
    LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND: '1000000000',
    LEAT_LOG_LEVEL: 'warn',
    ...settings,
    LEAT_PORT: String(port),
  };
  // A new key is for a new store alone.
  const isKeyGenerated = settings['LEAT_SECRET_KEY'] === '';
  const isOwn = program === leatProgram && settings['LEAT_STORE'] === undefined && !isKeyGenerated;
  if (isOwn) await copyTables(tempStore.file);
  const started = spawnLeat(['serve'], env, { cwd: tempStore.folder, program });
  const { child, output } = started;
  const secure = settings['LEAT_TLS'] === 'local';
  const url = secure ? `https://localhost:${port}` : `http://127.0.0.1:${port}`;
  const kill = (): Promise<void> => end(child, 'SIGKILL').then(noop);
  const trusted = secure ? trustPrintedCa(child, output) : Promise.resolve();
  const token = await trusted
    .then(() => ready(child, url, output))
    .then(() => fetchToken(url, operatorOf(settings)))
    .catch(async (error: unknown) => {
      await kill();
      throw error;
    });
  return {
    url,
    port,
    child,
    output,
    token,
    kill,
    send: (method, path, body, headers) => send(url, token, method, path, body, headers),
    stop: () => end(child, 'SIGINT'),
  };
}

/** Starts `leat serve` on a new store, as {@link startLeat} does. Both end with the test. */
export async function startFreshLeat(
  t: { after(end: () => Promise<void>): void },
  settings: Readonly<Record<string, string>> = {},
): Promise<Running> {
  const tempStore = await createTempStore();
  const leat = await startLeat(tempStore, settings);
  t.after(async () => {
    await leat.kill();
    await tempStore.remove();
  });
  return leat;
}

/**
 * The program under test: the sources, or the bundle that a run of many tests builds first, as most of
 * a start is loading a thousand modules.
 */
export const leatProgram =
  process.env['LEAT_TEST_PROGRAM'] ?? new URL('../../src/main.ts', import.meta.url).pathname;

/**
 * Copies the empty tables of a run of many tests, unless the file exists: migrating a new one is a
 * tenth of a start. Nothing is in them yet, so the start is still the first one of its store.
 */
async function copyTables(file: string): Promise<void> {
  const tables = process.env['LEAT_TEST_TABLES'];
  if (tables === undefined) return;
  await copyFile(tables, file, constants.COPYFILE_EXCL).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

/** Starts the program with any arguments; its environment has `env`, PATH and XDG_DATA_HOME only. */
export function spawnLeat(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  { cwd = tmpdir(), program = leatProgram }: { cwd?: string; program?: string } = {},
): { child: ChildProcess; output: () => string } {
  // As `npm start` does.
  const flags = ['--max-semi-space-size=16', '--v8-pool-size=0'];
  const child = spawn(process.execPath, [...flags, program, ...words], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    // A data folder that no setting names is also in the folder of the test.
    env: { PATH: process.env['PATH'] ?? '', XDG_DATA_HOME: cwd, ...compileCache, ...env },
  });
  endWithProcess(child);
  let text = '';
  const keep = (chunk: Buffer): void => {
    text += chunk.toString();
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  return { child, output: () => text };
}

/** Runs the program until it ends. */
export async function runLeat(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  options: { cwd?: string } = {},
): Promise<{ code: number | null; output: string }> {
  const { child, output } = spawnLeat(words, env, options);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output: output() };
}

export async function fetchToken(
  url: string,
  client: { readonly id: string; readonly secret: string },
  audience = '/api/v2/',
): Promise<string> {
  const response = await fetch(`${url}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      grant_type: 'client_credentials',
      audience,
      client_id: client.id,
      client_secret: client.secret,
    }),
  });
  const body = (await response.json()) as { access_token?: string };
  if (body.access_token === undefined) {
    throw new Error(`no token: ${response.status} ${JSON.stringify(body)}`);
  }
  return body.access_token;
}

async function send(
  url: string,
  token: string,
  method: string,
  path: string,
  body: unknown,
  headers: object = {},
): Promise<Response> {
  return fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
}

function operatorOf(settings: Readonly<Record<string, string>>): typeof bootstrapClient {
  return {
    id: settings['LEAT_BOOTSTRAP_CLIENT_ID'] ?? bootstrapClient.id,
    secret: settings['LEAT_BOOTSTRAP_CLIENT_SECRET'] ?? bootstrapClient.secret,
  };
}

/** Returns the CA file that the program has printed, if it has. */
export function printedCaFile(output: string): string | undefined {
  return /^NODE_EXTRA_CA_CERTS=(?<file>.+)\n/m.exec(output)?.groups?.['file'];
}

async function trustPrintedCa(child: ChildProcess, output: () => string): Promise<void> {
  const named = (): string | undefined => {
    assertRunning(child, output);
    return printedCaFile(output());
  };
  const file = await waitFor('the CA file to be printed', named, { progress: output });
  // NODE_EXTRA_CA_CERTS does the same for a process that is started with it.
  setDefaultCACertificates([...getCACertificates('default'), await readFile(file, 'utf8')]);
}

function assertRunning({ exitCode, signalCode }: ChildProcess, output: () => string): void {
  if (exitCode === null && signalCode === null) return;
  throw new Error(`the server ended with ${exitCode ?? signalCode}:\n${output()}`);
}

async function ready(child: ChildProcess, url: string, output: () => string): Promise<void> {
  let status: number | undefined;
  const isReady = async (): Promise<boolean> => {
    assertRunning(child, output);
    const response = await fetch(`${url}/readyz`).catch(() => undefined);
    await response?.arrayBuffer();
    status = response?.status;
    return response?.ok ?? false;
  };
  const progress = (): unknown => ({ status, output: output() });
  // A start takes some hundred milliseconds, and a refused request two.
  await waitFor('the server to be ready', isReady, { progress, intervalMsFirst: 50 });
}

/** Ends a program that has not ended yet; returns its exit code, `null` after a signal. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, 'close');
    child.kill(signal);
    await ended;
  }
  return child.exitCode;
}

function noop(): void {}
