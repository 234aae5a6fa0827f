import { once } from 'node:events';
import { chmodSync, createReadStream, lstatSync } from 'node:fs';
import { mkdtemp, open, readdir, readFile, rm, rmdir, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused, StoreUnavailable } from '../core/errors.ts';
import { statusOfHead } from '../core/request-head.ts';
import { writeAtomically } from '../files/atomic-write.ts';
import type { Args, Call, ProgressPoint } from './command.ts';
import { accepts } from './running-server.ts';
import { type SocketLocation, socketName, socketParents } from './socket-location.ts';
import type { CommandRequest, Line } from './wire.ts';

export interface OperatorServerDeps {
  readonly location: SocketLocation;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly random: RandomBytes;
  /** Runs a command; returns `undefined` for an unknown name. */
  readonly run: (command: string, args: Args, call: Call) => Promise<string> | undefined;
  /** Receives the error of a command that failed by a bug or a broken store. */
  readonly report: (error: unknown, command: string) => void;
}

/** The operator's socket of a server on SQLite. */
export interface OperatorServer {
  /** Path of the socket. */
  readonly path: string;
  /** Aborts running commands, waits for them and removes the socket. */
  close(): Promise<void>;
}

/**
 * Listens on the operator's socket, mode 0600. Removes files of a killed server first: the caller
 * holds the store, so no other server uses them. Throws `StartRefused` when the socket cannot be
 * created; the service runs without it.
 */
export async function openOperatorServer(deps: OperatorServerDeps): Promise<OperatorServer> {
  const { location } = deps;
  await removeDrafts(location);
  await removeFormer(location);
  const path = location.isTooLong ? await shortPath(deps) : location.socket;
  await removeStale(path);
  const running = new Set<Promise<void>>();
  const ending = new AbortController();
  const server = createServer((request, response) => {
    const work = respond(deps, request, response, ending.signal).catch(() => {
      response.destroy();
    });
    running.add(work);
    void work.finally(() => running.delete(work));
  });
  // A request is small. A response may take as long as the copy of a large store.
  server.headersTimeout = 16_000;
  server.requestTimeout = 30_000;
  await listenAlone(server, path);
  return {
    path,
    close: async () => {
      ending.abort();
      server.close();
      await Promise.all(running);
      server.closeAllConnections();
      await removeFormer(location);
    },
  };
}

/** Creates the socket with its final mode: no other user can connect at any moment. */
async function listenAlone(server: Server, path: string): Promise<void> {
  const former = process.umask(0o177);
  try {
    // Creates the socket before it returns.
    server.listen(path);
  } finally {
    process.umask(former);
  }
  try {
    await once(server, 'listening');
    chmodSync(path, 0o600);
  } catch (error) {
    throw refusal(path, error);
  }
}

/** Returns a path in a new private folder and writes it to the pointer in the data folder. */
async function shortPath({ location, random }: OperatorServerDeps): Promise<string> {
  try {
    const [parent] = socketParents();
    if (parent === undefined) throw new Error('TMPDIR is too long for the path of a socket');
    const folder = await mkdtemp(join(parent, 'leat-'));
    const path = join(folder, socketName);
    await writeAtomically(location.pointer, `${path}\n`, { random, mode: 0o600 });
    return path;
  } catch (error) {
    throw refusal(location.pointer, error);
  }
}

/** Removes the private folder of a former server, which may have been killed. */
async function removeFormer(location: SocketLocation): Promise<void> {
  const path = await readFile(location.pointer, 'utf8').catch(() => undefined);
  if (path === undefined) return;
  const folder = dirname(path.trim());
  const isOurs = socketParents().includes(dirname(folder)) && basename(folder).startsWith('leat-');
  // A copy of a data folder has the pointer of the server that runs on the other one.
  if (isOurs && !(await accepts({ path: path.trim() }))) {
    await rm(join(folder, socketName), { force: true });
    await rmdir(folder).catch(() => undefined);
  }
  await rm(location.pointer, { force: true });
}

async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new StartRefused(`${path} is in the way of the operator's socket: move it.`);
  }
  if (await accepts({ path })) {
    throw new StartRefused(
      `${path} is the socket of another server: use one data folder per server.`,
    );
  }
  await rm(path, { force: true });
}

function refusal(path: string, error: unknown): StartRefused {
  const reason = error instanceof Error ? error.message : String(error);
  return new StartRefused(`${path} cannot be created: ${reason}`, { cause: error });
}

const requestBytesMax = 64 * 1024;

async function respond(
  deps: OperatorServerDeps,
  request: IncomingMessage,
  response: ServerResponse,
  ending: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const signal = AbortSignal.any([gone.signal, ending]);
  const line = (text: Line): void => void response.write(`${JSON.stringify(text)}\n`);
  const read = await commandOf(request);
  if ('refused' in read) {
    response.shouldKeepAlive = false;
    response.writeHead(read.status, contentType);
    line({ refused: read.refused });
    response.end();
    return;
  }
  response.writeHead(200, contentType);
  const { command, args } = read;
  const call: Call = {
    progress: throttled(deps.clock, (progress) => line({ progress })),
    file: (write) => sendFile(deps, response, write, signal),
    signal,
  };
  try {
    const running = deps.run(command, args, call);
    if (running === undefined) throw new StartRefused(unknownCommand);
    line({ text: await running });
  } catch (error) {
    line(failureLine(error));
    if (!isExpected(error) && !signal.aborted) deps.report(error, command);
  }
  // A response does not finish after its connection has ended.
  if (response.closed) return;
  await new Promise<void>((resolve) => {
    response.on('close', resolve);
    response.end(resolve);
  });
}

const contentType = { 'content-type': 'application/x-ndjson' };

const unknownCommand =
  'The running server is of another version and does not know this command: restart it with this version.';

/** A request that is no command. */
interface Refusal {
  readonly status: number;
  readonly refused: string;
}

async function commandOf(request: IncomingMessage): Promise<CommandRequest | Refusal> {
  const { method, url: target = '', httpVersion, rawHeaders } = request;
  const invalid = statusOfHead({ httpVersion, rawHeaders, target });
  if (invalid !== undefined) return { status: invalid, refused: notValid };
  if (method !== 'POST' || target !== '/command') return { status: 404, refused: notValid };
  let text = '';
  for await (const chunk of request.setEncoding('utf8') as AsyncIterable<string>) {
    text += chunk;
    if (text.length > requestBytesMax) return { status: 400, refused: 'The command is too long.' };
  }
  const { command, args } = fieldsOf(text);
  if (typeof command !== 'string') return { status: 400, refused: notValid };
  return { command, args: Object(args) as CommandRequest['args'] };
}

const notValid = 'This is no command: send POST /command with a command as JSON.';

function fieldsOf(text: string): Partial<CommandRequest> {
  try {
    return Object(JSON.parse(text)) as Partial<CommandRequest>;
  } catch {
    return {};
  }
}

function isExpected(error: unknown): error is Error {
  return error instanceof StartRefused || error instanceof StoreUnavailable;
}

function failureLine(error: unknown): Line {
  if (isExpected(error)) return { refused: error.message };
  return { failed: error instanceof Error ? error.message : String(error) };
}

const progressMs = 100;

/** Limits progress to a rate that a person can read. */
function throttled(
  clock: Pick<Clock, 'elapsedMs'>,
  show: (point: ProgressPoint) => void,
): (point: ProgressPoint) => void {
  let shown: { readonly step: string; readonly ms: number } | undefined;
  return (point) => {
    const ms = clock.elapsedMs();
    const isLast = point.done === point.total;
    if (shown?.step === point.step && !isLast && ms - shown.ms < progressMs) return;
    shown = { step: point.step, ms };
    show(point);
  };
}

/** No name that somebody gives to a backup of theirs. */
const draftInfix = '.unfinished-backup-';
const draftName = /^[0-9a-f]{16}(?:-journal)?$/;

/** Creates a file in the data folder, sends it and removes it, also after an error. */
async function sendFile(
  { location, random }: OperatorServerDeps,
  response: ServerResponse,
  write: (path: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const draft = `${location.file}${draftInfix}${Buffer.from(random(8)).toString('hex')}`;
  try {
    await (await open(draft, 'wx', 0o600)).close();
    await write(draft);
    const { size } = await stat(draft);
    response.write(`${JSON.stringify({ file: size } satisfies Line)}\n`);
    await pipeline(createReadStream(draft), response, { end: false, signal });
  } finally {
    await rm(draft, { force: true });
    await rm(`${draft}-journal`, { force: true });
  }
}

/** Removes unfinished copies of a killed server. */
async function removeDrafts({ file, folder }: SocketLocation): Promise<void> {
  const mark = `${basename(file)}${draftInfix}`;
  const names = await readdir(folder).catch(() => []);
  for (const name of names) {
    const isDraft = name.startsWith(mark) && draftName.test(name.slice(mark.length));
    if (isDraft) await rm(join(folder, name), { force: true });
  }
}
