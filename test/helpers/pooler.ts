import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * A connection pooler as PgBouncer is in transaction mode: a client has a connection to the server
 * for one transaction, and another one for the next. The state of server sessions is not reset,
 * so that a client that relies on it finds the state of others, or none.
 */
export interface Pooler {
  readonly port: number;
  /** How often a client was assigned a connection to the server: once a transaction. */
  readonly assignments: number;
  close(): Promise<void>;
}

export interface PoolerOptions {
  /** The port of PostgreSQL on loopback, which must trust every connection. */
  readonly port: number;
  /** Connections to the server, all with the user and the database of the first client. */
  readonly serverConnections: number;
  /** Refuses `LISTEN` with an error, as some poolers do; otherwise notifications are lost. */
  readonly refuseListen?: boolean;
  /**
   * Passes the keys of the server on, in which clients otherwise see that their sessions are not
   * their own.
   */
  readonly passesKeys?: boolean;
}

export async function startPooler(options: PoolerOptions): Promise<Pooler> {
  const clients = new Set<Socket>();
  const state = { assignments: 0 };
  let pool: Pool | undefined;
  const poolOf = (login: Login): Pool | undefined => {
    pool ??= createPool(options, login);
    const isSame = pool.login.user === login.user && pool.login.database === login.database;
    return isSame ? pool : undefined;
  };
  const server = createServer({ noDelay: true }, (socket) => {
    clients.add(socket);
    socket.once('close', () => clients.delete(socket));
    serve(socket, {
      poolOf,
      refuseListen: options.refuseListen ?? false,
      passesKeys: options.passesKeys ?? false,
      assigned: () => void (state.assignments += 1),
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    get assignments() {
      return state.assignments;
    },
    close: async () => {
      server.close();
      for (const socket of clients) socket.destroy();
      pool?.close();
      await once(server, 'close');
    },
  };
}

interface Login {
  readonly user: string;
  readonly database: string;
}

interface ClientDeps {
  /** Returns `undefined` for another user or database. */
  poolOf(login: Login): Pool | undefined;
  readonly refuseListen: boolean;
  readonly passesKeys: boolean;
  assigned(): void;
}

/** One connection of a client, from its first byte. */
function serve(socket: Socket, deps: ClientDeps): void {
  const frames = createFrames();
  let session: Session | undefined;
  let hasStarted = false;

  const startUp = async (message: Buffer): Promise<void> => {
    hasStarted = true;
    const parameters = parametersOf(message);
    const { user = '', database = user } = parameters;
    const foreign = Object.keys(parameters).find((name) => !knownParameters.has(name));
    if (foreign !== undefined) {
      socket.end(errorOf('FATAL', '08P01', `unsupported startup parameter: ${foreign}`));
      return;
    }
    const pool = deps.poolOf({ user, database });
    if (pool === undefined) {
      socket.end(errorOf('FATAL', '08P01', 'this pooler has another user or database'));
      return;
    }
    try {
      const { statuses, key: serverKey } = await pool.greeting();
      const key = deps.passesKeys ? serverKey : messageOf('K', randomBytes(8));
      socket.write(Buffer.concat([messageOf('R', Buffer.alloc(4)), ...statuses, key, ready('I')]));
      session = createSession(socket, pool, deps);
      read();
    } catch (error) {
      socket.end(lost(error));
    }
  };
  const first = (): Buffer | undefined => (hasStarted ? undefined : frames.next(0));
  const read = (): void => {
    for (let message = first(); message !== undefined; message = first()) {
      const code = message.readInt32BE(4);
      if (code === codes.ssl || code === codes.gss) socket.write('N');
      else if (code === codes.cancel) socket.end();
      else void startUp(message);
    }
    if (session === undefined) return;
    for (let message = frames.next(1); message !== undefined; message = frames.next(1)) {
      session.take(message);
    }
  };
  socket.on('data', (chunk: Buffer) => {
    frames.push(chunk);
    read();
  });
  socket.on('error', () => socket.destroy());
  socket.on('close', () => session?.close());
}

interface Session {
  /** A message of the client. */
  take(message: Buffer): void;
  /** The client is gone. */
  close(): void;
}

/** A client that has logged in. */
function createSession(socket: Socket, pool: Pool, deps: ClientDeps): Session {
  const inbox: Buffer[] = [];
  let held: Backend | undefined;
  let isAcquiring = false;
  let isClosed = false;
  /** Messages in progress that the server answers with one ReadyForQuery each. */
  let outstanding = 0;
  /** Whether the server has messages without a Sync after them. */
  let isOpenEnded = false;
  let status = 'I';

  const receive = (message: Buffer): void => {
    socket.write(message);
    if (typeOf(message) !== 'Z') return;
    outstanding -= 1;
    status = String.fromCharCode(message[5] ?? 0);
    if (outstanding === 0 && !isOpenEnded && status === 'I' && held !== undefined) {
      pool.release(held);
      held = undefined;
    }
    pump();
  };
  const acquire = async (): Promise<void> => {
    isAcquiring = true;
    try {
      const backend = await pool.acquire();
      if (isClosed) {
        pool.release(backend);
        return;
      }
      deps.assigned();
      backend.assign({ receive, lost: () => socket.end(lost(new Error('the server is gone'))) });
      held = backend;
    } catch (error) {
      socket.end(lost(error));
      return;
    } finally {
      isAcquiring = false;
    }
    pump();
  };
  const pump = (): void => {
    if (isAcquiring) return;
    for (let message = inbox[0]; message !== undefined; message = inbox[0]) {
      if (deps.refuseListen && isListen(message)) {
        // Its reply comes after the replies before it.
        if (outstanding > 0) return;
        socket.write(errorOf('ERROR', '0A000', 'LISTEN is not supported by this pooler'));
        socket.write(ready(status));
      } else if (held === undefined) {
        void acquire();
        return;
      } else {
        const isEnd = endings.has(typeOf(message));
        if (isEnd) outstanding += 1;
        isOpenEnded = !isEnd;
        held.send(message);
      }
      inbox.shift();
    }
  };
  return {
    take: (message) => {
      if (typeOf(message) === 'X') {
        socket.end();
        return;
      }
      inbox.push(message);
      pump();
    },
    close: () => {
      isClosed = true;
      inbox.length = 0;
      // In the middle of a transaction: no other client may continue it.
      if (held !== undefined) pool.discard(held);
      held = undefined;
    },
  };
}

/** A connection to the server that has logged in. */
interface Backend {
  readonly greeting: Greeting;
  send(message: Buffer): void;
  /** Sets the receiver of its messages; without one they are discarded. */
  assign(owner: Owner | undefined): void;
  destroy(): void;
}

/** What the server sends at login. */
interface Greeting {
  readonly statuses: readonly Buffer[];
  readonly key: Buffer;
}

interface Owner {
  receive(message: Buffer): void;
  lost(): void;
}

interface Pool {
  readonly login: Login;
  /** Resolves once the pool is full. */
  greeting(): Promise<Greeting>;
  /** Returns the connection that was idle for the longest time. */
  acquire(): Promise<Backend>;
  release(backend: Backend): void;
  /** Destroys it and opens another one. */
  discard(backend: Backend): void;
  close(): void;
}

function createPool({ port, serverConnections }: PoolerOptions, login: Login): Pool {
  const all = new Set<Backend>();
  const idle: Backend[] = [];
  const waiting: PromiseWithResolvers<Backend>[] = [];
  const openings = new Set<Promise<void>>();
  let failure: unknown;
  let known: Greeting | undefined;
  let isClosed = false;

  const offer = (backend: Backend): void => {
    const first = waiting.shift();
    if (first === undefined) idle.push(backend);
    else first.resolve(backend);
  };
  const forget = (backend: Backend): void => {
    all.delete(backend);
    const index = idle.indexOf(backend);
    if (index !== -1) idle.splice(index, 1);
  };
  const open = async (): Promise<void> => {
    try {
      const backend = await openBackend(port, login, forget);
      if (isClosed) {
        backend.destroy();
        return;
      }
      all.add(backend);
      offer(backend);
    } catch (error) {
      failure = error;
      for (const one of waiting.splice(0)) one.reject(error);
    }
  };
  const fill = (): void => {
    if (isClosed) return;
    while (all.size + openings.size < serverConnections) {
      const opening = open().finally(() => openings.delete(opening));
      openings.add(opening);
    }
  };
  const acquire: Pool['acquire'] = async () => {
    fill();
    const backend = idle.shift();
    if (backend !== undefined) return backend;
    const wait = Promise.withResolvers<Backend>();
    waiting.push(wait);
    return wait.promise;
  };
  const release: Pool['release'] = (backend) => {
    backend.assign(undefined);
    if (all.has(backend)) offer(backend);
  };
  return {
    login,
    acquire,
    release,
    greeting: async () => {
      fill();
      if (known === undefined) await Promise.all(openings);
      known ??= [...all][0]?.greeting;
      if (known === undefined) throw failure;
      return known;
    },
    discard: (backend) => {
      backend.assign(undefined);
      backend.destroy();
      forget(backend);
      fill();
    },
    close: () => {
      isClosed = true;
      for (const backend of all) backend.destroy();
      for (const one of waiting.splice(0)) one.reject(new Error('the pooler is closed'));
    },
  };
}

/** Opens a connection and logs in; calls `ended` when it is lost after that. */
function openBackend(
  port: number,
  { user, database }: Login,
  ended: (backend: Backend) => void,
): Promise<Backend> {
  const { promise, resolve, reject } = Promise.withResolvers<Backend>();
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const frames = createFrames();
  const statuses: Buffer[] = [];
  const greeting: { readonly statuses: Buffer[]; key: Buffer } = { statuses, key: Buffer.alloc(0) };
  let isReady = false;
  let owner: Owner | undefined;
  const backend: Backend = {
    greeting,
    send: (message) => void socket.write(message),
    assign: (next) => {
      owner = next;
    },
    destroy: () => void socket.destroy(),
  };
  const logIn = (message: Buffer): void => {
    const type = typeOf(message);
    if (type === 'S') statuses.push(message);
    if (type === 'K') greeting.key = message;
    if (type === 'R' && message.readInt32BE(5) !== 0)
      reject(new Error('the server requires a password'));
    if (type === 'E')
      reject(new Error(`the server refused the login: ${message.toString('latin1', 5)}`));
    if (type !== 'Z') return;
    isReady = true;
    resolve(backend);
  };
  socket.once('connect', () => socket.write(startupOf({ user, database })));
  socket.on('data', (chunk: Buffer) => {
    frames.push(chunk);
    for (let message = frames.next(1); message !== undefined; message = frames.next(1)) {
      if (isReady) owner?.receive(message);
      else logIn(message);
    }
  });
  socket.on('error', reject);
  socket.on('close', () => {
    reject(new Error('the server closed the connection'));
    ended(backend);
    owner?.lost();
  });
  return promise;
}

const codes = { protocol: 196_608, cancel: 80_877_102, ssl: 80_877_103, gss: 80_877_104 };
/** Query, FunctionCall and Sync: the server answers each with ReadyForQuery. */
const endings = new Set(['Q', 'F', 'S']);
/** PgBouncer refuses every other parameter: its server connections are shared. */
const knownParameters = new Set([
  'user',
  'database',
  'application_name',
  'client_encoding',
  'DateStyle',
  'TimeZone',
  'standard_conforming_strings',
]);

/** Splits a stream into messages; startup messages have no type before their length. */
function createFrames() {
  let rest = Buffer.alloc(0);
  return {
    push: (chunk: Buffer): void => {
      rest = Buffer.concat([rest, chunk]);
    },
    next: (typeLength: 0 | 1): Buffer | undefined => {
      if (rest.length < typeLength + 4) return undefined;
      const length = typeLength + rest.readInt32BE(typeLength);
      if (rest.length < length) return undefined;
      const message = rest.subarray(0, length);
      rest = rest.subarray(length);
      return message;
    },
  };
}

function typeOf(message: Buffer): string {
  return String.fromCharCode(message[0] ?? 0);
}

function isListen(message: Buffer): boolean {
  return typeOf(message) === 'Q' && /^\s*listen\b/i.test(message.toString('utf8', 5));
}

function messageOf(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5, type, 'latin1');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

function ready(status: string): Buffer {
  return messageOf('Z', Buffer.from(status));
}

function errorOf(severity: 'ERROR' | 'FATAL', state: string, text: string): Buffer {
  const fields = [`S${severity}`, `V${severity}`, `C${state}`, `M${text}`, ''];
  return messageOf('E', Buffer.from(fields.map((field) => `${field}\0`).join('')));
}

function lost(error: unknown): Buffer {
  return errorOf('FATAL', '08006', error instanceof Error ? error.message : String(error));
}

function startupOf(parameters: Readonly<Record<string, string>>): Buffer {
  const body = Buffer.from(`${Object.entries(parameters).flat().join('\0')}\0\0`);
  const head = Buffer.alloc(8);
  head.writeInt32BE(body.length + 8, 0);
  head.writeInt32BE(codes.protocol, 4);
  return Buffer.concat([head, body]);
}

function parametersOf(startup: Buffer): Record<string, string> {
  const words = startup.toString('utf8', 8).split('\0');
  const parameters: Record<string, string> = {};
  for (let at = 0; words[at]; at += 2) parameters[words[at] ?? ''] = words[at + 1] ?? '';
  return parameters;
}
