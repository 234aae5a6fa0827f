import pg from 'pg';
import { type PostgresServer, postgresServers } from '../../../core/postgres-url.ts';
import { createSessions, type Sessions, type SessionState } from './session.ts';

/** Connections to the server in use, one of those that the URL of the store names. */
export interface Hosts {
  /** The class of a pool's connections: each one connects to the server that is tried next. */
  readonly Client: typeof pg.Client;
  readonly sessions: Sessions;
  /** True where the URL names several servers. */
  readonly areSeveral: boolean;
  /**
   * Runs `connect`, which creates one `Client` or waits for one of a pool, until it succeeds or
   * each server was tried once. With several servers it rejects with `NoServer` then.
   */
  tryEach<T>(connect: () => Promise<T>): Promise<T>;
  /**
   * Records an error on a connection. If it shows that the server accepts no writes or is about to
   * stop, every connection to that server is stale and another server is tried next.
   */
  note(client: pg.ClientBase, error: unknown): void;
  /** Returns true for a connection to close instead of using it again. */
  isStale(client: pg.ClientBase): boolean;
}

/** No server of the URL can be used. */
export class NoServer extends Error {
  readonly problems: readonly ServerProblem[];

  constructor(problems: readonly ServerProblem[]) {
    const texts = problems.map(({ name, error }) => `${name}: ${messageOf(error)}`);
    super(`no server can be used (${texts.join('; ')})`, { cause: problems.at(-1)?.error });
    this.problems = problems;
  }

  /** Some server accepts the login but no writes. */
  get acceptsReads(): boolean {
    return this.problems.some(({ error }) => error instanceof ReadOnlyServer);
  }
}

export interface ServerProblem {
  /** Host and port as in the URL. */
  readonly name: string;
  readonly error: unknown;
}

/** A standby, or a server whose sessions start read-only. */
class ReadOnlyServer extends Error {
  /** read_only_sql_transaction (PostgreSQL manual, appendix A) */
  readonly code = '25006';
}

/** As the type definitions of pg have it. */
type Connected = ((error: Error) => void) | ((none: null, client: pg.Client) => void);

/**
 * Time to connect, sign in and check a server; with several servers the next one must be tried
 * soon.
 */
const connectMs = { one: 5000, ofSeveral: 2000 };

/**
 * read_only_sql_transaction, admin_shutdown, crash_shutdown, cannot_connect_now (PostgreSQL manual,
 * appendix A).
 */
const leaving = new Set(['25006', '57P01', '57P02', '57P03']);

/** @param url with one or more hosts, see `postgresServers` */
export function createHosts(url: string, applicationName: string): Hosts {
  const { servers, session } = serversOf(url);
  const areSeveral = servers.length > 1;
  const connectionMs = areSeveral ? connectMs.ofSeveral : connectMs.one;
  const choice = createChoice(servers);
  const sessions = createSessions();
  const connected = new Map<pg.ClientBase, number>();
  const stale = new WeakSet<pg.ClientBase>();

  const note: Hosts['note'] = (client, error) => {
    const server = connected.get(client);
    if (server === undefined || !leaving.has(codeOf(error))) return;
    for (const [other, target] of connected) if (target === server) stale.add(other);
    choice.leave(server);
  };
  const accept = (client: pg.Client, server: number): void => {
    connected.set(client, server);
    client.once('end', () => connected.delete(client));
    if (!choice.accept(server) || session === 'any') return;
    // A server that lost its role, or its machine, may never respond.
    for (const [other, target] of connected) {
      if (target !== server) (other as pg.Client).connection.stream.destroy();
    }
  };
  const Client = clientClass({
    next: choice.next,
    settings: {
      application_name: applicationName,
      connectionTimeoutMillis: connectionMs,
      keepAlive: true,
      types: { getTypeParser },
    },
    check: async (client) => {
      const state = await sessions.prepare(client, connectionMs);
      if (session !== 'any') requireWritable(state, session);
    },
    accepted: accept,
    refused: choice.leave,
    failed: note,
  });

  return {
    Client,
    sessions,
    areSeveral,
    tryEach: (connect) => (areSeveral ? choice.tryEach(connect) : connect()),
    note,
    isStale: (client) => stale.has(client),
  };
}

/** The server to try next: the last one that accepted a connection, until it fails. */
function createChoice(servers: readonly PostgresServer[]) {
  /** `moves` counts the changes of `next`. */
  const state = { next: 0, moves: 0, inUse: 0 };
  const errors = new Map<number, unknown>();
  const problems = (): ServerProblem[] =>
    servers.flatMap(({ name }, index) =>
      errors.has(index) ? [{ name, error: errors.get(index) }] : [],
    );
  return {
    next: () => ({ index: state.next, url: (servers[state.next] as PostgresServer).url }),
    leave: (server: number, error?: unknown): void => {
      if (error !== undefined) errors.set(server, error);
      if (server !== state.next) return;
      state.next = (server + 1) % servers.length;
      state.moves += 1;
    },
    /** Returns true when another server was in use before. */
    accept: (server: number): boolean => {
      errors.delete(server);
      state.next = server;
      const isOther = server !== state.inUse;
      state.inUse = server;
      return isOther;
    },
    tryEach: async <T>(connect: () => Promise<T>): Promise<T> => {
      for (let tries = 1; ; tries += 1) {
        const { moves } = state;
        try {
          return await connect();
        } catch (error) {
          // A full pool is no fault of the server.
          if (moves === state.moves) throw error;
          if (tries === servers.length) throw new NoServer(problems());
        }
      }
    },
  };
}

interface ClientDeps {
  next(): { readonly index: number; readonly url: string };
  readonly settings: pg.ClientConfig;
  /** Rejects when a server accepts the login but cannot be used. */
  check(client: pg.Client): Promise<void>;
  accepted(client: pg.Client, server: number): void;
  refused(server: number, error: unknown): void;
  /** Called with an error on a connection that nothing awaits. */
  failed(client: pg.Client, error: unknown): void;
}

function clientClass(deps: ClientDeps): typeof pg.Client {
  return class extends pg.Client {
    readonly #server: number;

    constructor(config: pg.ClientConfig = {}) {
      const { index, url } = deps.next();
      super({ ...config, ...deps.settings, connectionString: url });
      this.#server = index;
      // Without a listener the loss of an idle connection would end the process.
      this.on('error', (error) => deps.failed(this, error));
    }

    override connect(): Promise<pg.Client>;
    override connect(done: Connected): void;
    override connect(done?: Connected): Promise<pg.Client> | void {
      const checked = this.#connectChecked();
      if (done === undefined) return checked;
      const report = done as (error: Error | null, client: pg.Client) => void;
      checked.then(
        () => report(null, this),
        (error: Error) => report(error, this),
      );
    }

    async #connectChecked(): Promise<pg.Client> {
      try {
        await super.connect();
        await deps.check(this);
      } catch (error) {
        deps.refused(this.#server, error);
        this.end().catch(() => undefined);
        throw error;
      }
      deps.accepted(this, this.#server);
      return this;
    }
  };
}

function serversOf(url: string) {
  const parsed = postgresServers(url);
  if ('problem' in parsed) throw new Error(`The URL of the store ${parsed.problem}.`);
  return parsed;
}

/** Throws `ReadOnlyServer` unless the server may be used for writes. */
function requireWritable(
  { follows, isReadOnly }: SessionState,
  session: 'read-write' | 'primary',
): void {
  if (follows) throw new ReadOnlyServer('it follows another server');
  if (session === 'read-write' && isReadOnly) {
    throw new ReadOnlyServer('its transactions are read-only');
  }
}

/** Offsets, instants and counts are whole numbers below 2^53. */
function getTypeParser(...args: Parameters<typeof pg.types.getTypeParser>): unknown {
  if (args[0] === pg.types.builtins.INT8 && args[1] !== 'binary') return Number;
  return pg.types.getTypeParser(...args);
}

/** SQLSTATE of an error of the driver. */
function codeOf(error: unknown): string {
  return error instanceof pg.DatabaseError ? (error.code ?? '') : '';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
