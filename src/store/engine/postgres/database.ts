import pg from 'pg';
import { StoreUnavailable } from '../../../core/errors.ts';
import type { Clock } from '../../../core/clock.ts';
import { type Bounds, type CommandTime, createCommandTime } from './bounds.ts';
import { copyIn, type CopyRow } from './copy-in.ts';
import {
  afterFailure,
  causeOf,
  deadlocks,
  namesNothing,
  ofAlteredSessions,
  refuse,
  refuseCommit,
  stateOf,
} from './errors.ts';
import type { Hosts } from './hosts.ts';
import type { SchemaGuard } from './schema-guard.ts';

/**
 * Statements written as tagged templates next to their one use: `db.get<Row>`select name from
 * tenants where id = ${id}``. Values are bound, never pasted. No statement has a name and no
 * session state is used, so that any pooler works; what other clients of a pooler leave in its
 * sessions is undone, see {@link Sessions}.
 *
 * Rejects with `StoreUnavailable` when PostgreSQL cannot be reached or cannot write now, with
 * `StoreContentRefused` when it refuses a value.
 */
export interface Queries {
  all<Row>(strings: TemplateStringsArray, ...values: Bindable[]): Promise<Row[]>;
  get<Row>(strings: TemplateStringsArray, ...values: Bindable[]): Promise<Row | undefined>;
  /** Returns the number of rows changed. */
  run(strings: TemplateStringsArray, ...values: Bindable[]): Promise<number>;
  /**
   * Adds rows to a table and its columns: `copy`attempts (day, at)`(rows)`. The server writes many rows by
   * one record of its log, and plans nothing.
   */
  copy(strings: TemplateStringsArray): (rows: readonly CopyRow[]) => Promise<void>;
}

/** Each call of its `Queries` is a transaction of its own. */
export interface Database extends Queries {
  /**
   * Runs `work` in one READ COMMITTED transaction: each statement sees what was committed before it
   * started. Statements sent at the same time are pipelined, in order; the error of the first that
   * fails is that of the transaction. When PostgreSQL ends the transaction to resolve a deadlock,
   * `work` runs again, so it must change nothing else. `relaxed` commits may be lost when the server
   * crashes, which is enough for what can be derived. `confirmed` commits are durable, and so is
   * everything that `work` has read: a command that may be repeated returns the effect of an earlier
   * commit, which no standby may have had then. The commit is sent once `work` resolves: statements
   * passed to {@link withCommit} need not have ended by then.
   */
  transact<T>(durability: Durability, work: (tx: Queries) => Promise<T>): Promise<T>;
  /**
   * Runs a command of statements that only read, which share the bounds of this database: together they
   * end within `waitMs` and `statementMs`. A statement outside of it has the bounds for itself.
   */
  bounded<T>(command: () => Promise<T>): Promise<T>;
  /** Returns commands that only read, on the same connections and within bounds of their own. */
  within(bounds: Bounds): Database;
  /** Runs statements without parameters, for the schema, without a time limit. */
  script(sql: string): Promise<void>;
  close(): Promise<void>;
}

/** `undefined` is stored as null. An array is bound as one value. */
export type Bindable =
  | string
  | number
  | boolean
  | Uint8Array
  | null
  | undefined
  | readonly (string | number | boolean | null | undefined)[];

export type Durability = 'durable' | 'confirmed' | 'relaxed';

export interface DatabaseOptions {
  readonly hosts: Hosts;
  /** Maximum connections. */
  readonly connectionsMax: number;
  /**
   * Bounds of commands that only read; without it a statement may take as long as a command may.
   */
  readonly bounds?: Bounds | undefined;
  /**
   * Bounds a statement or a transaction of any kind together with its wait for a connection; each of its
   * statements has a second at least. The server gives them up, too: a session of which only this process
   * has given up would wait on for a lock, and each try would leave one more behind.
   */
  readonly total?: { readonly ms: number; readonly clock: Pick<Clock, 'elapsedMs'> } | undefined;
  /** Checked before each statement, and after one that names a missing object. */
  readonly guard?: SchemaGuard | undefined;
  /**
   * Repairs the cause of a failed statement; returns true when the statement is worth another try.
   */
  readonly repair?: ((error: unknown) => Promise<boolean>) | undefined;
}

/** Time limit of waiting for a connection; a request that could not be served gets its 503. */
const connectionMs = 5000;
/** Longer than any statement of a command takes; after it the network is considered gone. */
const answerMs = 10_000;

/**
 * A process that is frozen, or cut off from the server, in the middle of a transaction holds its
 * locks no longer than this: less than half a lease. Set in each transaction, because a pooler may
 * use another connection for each transaction.
 */
const commandBounds =
  'set local idle_in_transaction_session_timeout = 4000; set local lock_timeout = 4000; ' +
  'set local statement_timeout = 9000';
const begin: Record<Durability, string> = {
  durable: `begin isolation level read committed; ${commandBounds}`,
  confirmed: `begin isolation level read committed; ${commandBounds}`,
  relaxed: `begin isolation level read committed; ${commandBounds}; set local synchronous_commit = off`,
};
/**
 * The commit of a transaction that wrote nothing does not wait for the standby: this one writes a
 * message.
 */
const confirm = `select pg_logical_emit_message(true, 'leat', '')
  where pg_current_xact_id_if_assigned() is null`;

export function createDatabase(options: DatabaseOptions): Database {
  const { hosts } = options;
  const pool: Pool = {
    hosts,
    waitingMax: options.bounds?.waitingMax ?? Infinity,
    connections: new pg.Pool({
      Client: hosts.Client,
      max: options.connectionsMax,
      pipeline: true,
      query_timeout: answerMs,
      connectionTimeoutMillis: options.bounds?.waitMs ?? connectionMs,
      idleTimeoutMillis: 30_000,
    }),
  };
  // The loss of an idle connection affects nothing: the next statement takes another one.
  pool.connections.on('error', () => undefined);
  pool.connections.on('connect', noteUnconfirmed);
  return databaseOn(pool, options);
}

function databaseOn(pool: Pool, options: DatabaseOptions): Database {
  const { hosts } = options;
  const time = options.bounds && createCommandTime(options.bounds);
  const repair = async (error: unknown, tries: number): Promise<boolean> => {
    if (tries >= triesMax) return false;
    return deadlocks.has(stateOf(error)) || ((await options.repair?.(error)) ?? false);
  };
  const { sessions } = hosts;
  const again = async <T>(work: Work<T>): Promise<T> => {
    let isSuspect = false;
    const leftMs = countDown(options.total);
    for (let tries = 1; ; tries += 1) {
      options.guard?.refuse();
      const isShared: boolean = isSuspect || sessions.areShared();
      const beginning = isShared ? sessions.cleaned : unchanged;
      const attempt = (): Promise<T> =>
        withClient({ ...pool, leftMs }, (client) => work({ client, isShared, beginning }), time);
      try {
        const result = await (time === undefined ? attempt() : time.run(attempt));
        if (isSuspect) sessions.distrust();
        return result;
      } catch (error) {
        isSuspect = !isShared && ofAlteredSessions.has(stateOf(error));
        if (isSuspect) continue;
        if (stateOf(error).startsWith(namesNothing)) await options.guard?.check();
        if (!(await repair(error, tries))) throw error;
      }
    }
  };
  const single = (send: Send): Promise<pg.QueryResult> =>
    again(({ client, isShared, beginning }) => {
      if (time !== undefined) return inOne(client, beginning(beginBounded(time)), send, refuse);
      if (isShared || options.total !== undefined)
        return inOne(client, beginning(begin.durable), send, refuseCommit);
      return send(client, refuseCommit);
    });

  return {
    ...queriesOf(single),
    transact: (durability, work) => {
      if (time !== undefined) throw new Error('These connections only read, within bounds.');
      return again(({ client, beginning }) =>
        inTransaction(client, beginning(begin[durability]), { durability, work }),
      );
    },
    within: (bounds) =>
      databaseOn(
        { ...pool, waitingMax: bounds.waitingMax },
        { ...options, bounds, total: undefined },
      ),
    bounded: (command) => (time === undefined ? command() : time.run(command)),
    script: (sql) =>
      again(async ({ client, beginning }) => {
        try {
          await client.query(endless(sql.replace(/^\s*begin(?=;)/, beginning)));
        } catch (error) {
          // It may have begun a transaction.
          await client.query('rollback').catch(() => undefined);
          refuse(error);
        }
      }),
    close: () => close(pool),
  };
}

async function close({ connections }: Pool): Promise<void> {
  if (!connections.ended && !connections.ending) await connections.end();
}

/** A statement that may take long; the type definitions lack the field. */
function endless(text: string): pg.QueryConfig & { query_timeout: number } {
  return { text, query_timeout: 0x7fffffff };
}

type Work<T> = (given: {
  readonly client: pg.PoolClient;
  /** Other clients may have altered the session. */
  readonly isShared: boolean;
  /** Returns the text that begins a transaction, made from one for a session of our own. */
  readonly beginning: (text: string) => string;
}) => Promise<T>;

const unchanged = (text: string): string => text;

const triesMax = 5;
/** Sends one statement; `refused` throws what its error is for the caller. */
type Send = (client: pg.PoolClient, refused: typeof refuse) => Promise<pg.QueryResult>;

function queriesOf(run: (send: Send) => Promise<pg.QueryResult>): Queries {
  const send = (strings: TemplateStringsArray, values: Bindable[]): Promise<pg.QueryResult> =>
    run((client, refused) => query(client, strings, values, refused));
  return {
    copy: (strings) => async (rows) => {
      await run((client, refused) => copy(client, strings, rows, refused));
    },
    all: async <Row>(strings: TemplateStringsArray, ...values: Bindable[]) =>
      (await send(strings, values)).rows as Row[],
    get: async <Row>(strings: TemplateStringsArray, ...values: Bindable[]) =>
      (await send(strings, values)).rows[0] as Row | undefined,
    run: async (strings, ...values) => (await send(strings, values)).rowCount ?? 0,
  };
}

interface Pool {
  /** What is left of the time of a command, in milliseconds, where that is bounded as a whole. */
  readonly leftMs?: LeftMs | undefined;
  readonly hosts: Hosts;
  readonly waitingMax: number;
  readonly connections: pg.Pool;
}

/** Closes a connection after an error that may be its own fault. */
async function withClient<T>(
  { hosts, connections, waitingMax, leftMs }: Pool,
  work: (client: pg.PoolClient) => Promise<T>,
  time?: CommandTime,
): Promise<T> {
  if (connections.waitingCount >= waitingMax) {
    throw new StoreUnavailable(`${waitingMax} statements wait for a connection already`);
  }
  const connecting = hosts.tryEach(() => freshClient(hosts, connections)).catch(refuse);
  const client = await (time?.wait(connecting, (late) => late.release()) ?? connecting);
  let isSound = true;
  if (leftMs !== undefined) bounded.set(client, leftMs);
  try {
    const result = await work(client);
    if (unconfirmed.has(client)) throw new StoreUnavailable(unconfirmedText, { mayBeStored: true });
    return result;
  } catch (error) {
    isSound = !(error instanceof StoreUnavailable) && !ofAlteredSessions.has(stateOf(error));
    hosts.note(client, causeOf(error));
    throw error;
  } finally {
    bounded.delete(client);
    client.release(!isSound || hosts.isStale(client));
  }
}

type LeftMs = () => number;
/** Connections in use for a command that is bounded as a whole. */
const bounded = new WeakMap<pg.ClientBase, LeftMs>();
const leastMs = 1000;

function countDown(total: DatabaseOptions['total']): LeftMs | undefined {
  if (total === undefined) return undefined;
  const endMs = total.clock.elapsedMs() + total.ms;
  return () => Math.max(leastMs, Math.floor(endMs - total.clock.elapsedMs()));
}

/** Returns a statement for a connection, with what is left of the time of its command. */
function timed(client: pg.PoolClient, text: string, values: Bindable[] = []): pg.QueryConfig {
  const statement: pg.QueryConfig & { query_timeout?: number } = { text };
  if (values.length > 0) statement.values = values;
  const leftMs = bounded.get(client)?.();
  if (leftMs !== undefined) statement.query_timeout = leftMs;
  return statement;
}

/** The server gives a statement up before this process does, so that what is answered is what happened. */
function timedBegin(client: pg.PoolClient, beginning: string): pg.QueryConfig {
  const leftMs = bounded.get(client)?.();
  const limit = leftMs === undefined ? '' : `; set local statement_timeout = ${leftMs - 250}`;
  return timed(client, `${beginning}${limit}`);
}

/** Connections with a commit that was acknowledged before a synchronous standby had it. */
const unconfirmed = new WeakSet<pg.ClientBase>();
const unconfirmedText =
  'PostgreSQL: a commit was not confirmed by a synchronous standby; a fail-over would lose it';

/**
 * When the wait for the standby is cut short, by a limit on statements or by a shutdown, the commit
 * succeeds with a warning (PostgreSQL manual, 26.2.8). The text is in the language of the server;
 * the name of the function that warns is not.
 */
function noteUnconfirmed(client: pg.ClientBase): void {
  client.on('notice', ({ routine }) => {
    if (routine === 'SyncRepWaitForLSN') unconfirmed.add(client);
  });
}

/** Closes the stale connections that the pool returns first. */
async function freshClient(hosts: Hosts, connections: pg.Pool): Promise<pg.PoolClient> {
  for (;;) {
    const client = await connections.connect();
    if (!hosts.isStale(client)) return client;
    client.release(true);
  }
}

/**
 * Leaves the last statements of a transaction to its commit, which is sent right behind them and fails
 * when one of them does: `work` need not wait for their results.
 */
export function withCommit(sent: Promise<unknown>): void {
  sent.catch(() => undefined);
}

async function inTransaction<T>(
  client: pg.PoolClient,
  beginning: string,
  {
    durability,
    work,
  }: { readonly durability: Durability; readonly work: (tx: Queries) => Promise<T> },
): Promise<T> {
  let isOver = false;
  let isLate = false;
  let firstError: unknown;
  const noted = (sent: Promise<pg.QueryResult>): Promise<pg.QueryResult> =>
    sent.catch((error: unknown) => {
      // Results that arrive together reject in any order.
      if (stateOf(error) !== afterFailure) firstError ??= error;
      throw error;
    });
  gather(client);
  // Not awaited: the statements after it are pipelined, and fail when it does.
  const begun = noted(client.query(timedBegin(client, beginning)).catch(refuse));
  begun.catch(() => undefined);
  try {
    const open = async (send: () => Promise<pg.QueryResult>): Promise<pg.QueryResult> => {
      // Work that continues after a failure: another command may use the connection by now.
      isLate = isOver;
      if (isOver) throw new Error('The transaction is over.');
      return noted(send());
    };
    const queries = queriesOf((send) => open(() => send(client, refuse)));
    const result = await work(queries);
    await begun;
    const word = durability === 'confirmed' ? client.query(timed(client, confirm)) : undefined;
    word?.catch(() => undefined);
    isOver = true;
    gather(client);
    const { command } = await client.query(timed(client, 'commit')).catch(refuseCommit);
    // A failed statement that nothing awaited shows here.
    if (command !== 'COMMIT') {
      throw firstError instanceof Error ? firstError : new Error(`A commit returned ${command}.`);
    }
    if (isLate) throw new Error('A statement came after the commit.');
    return result;
  } catch (error) {
    isOver = true;
    await client.query('rollback').catch(() => undefined);
    // Of statements sent at the same time, `work` may reject with the error of a later one.
    throw stateOf(error) === afterFailure ? firstError : error;
  }
}

function query(
  client: pg.PoolClient,
  strings: TemplateStringsArray,
  values: Bindable[],
  refused: typeof refuse,
): Promise<pg.QueryResult> {
  gather(client);
  return client.query(timed(client, textOf(strings), values)).catch(refused);
}

function copy(
  client: pg.PoolClient,
  strings: TemplateStringsArray,
  rows: readonly CopyRow[],
  refused: typeof refuse,
): Promise<pg.QueryResult> {
  gather(client);
  return copyIn(client, `copy ${strings[0]} from stdin`, rows).catch(refused);
}

/**
 * Lets the connection send everything that is written before the event loop goes on by one system call.
 * Each statement alone would also wake the server once.
 */
function gather(client: pg.PoolClient): void {
  const { stream } = client.connection;
  if (stream.writableCorked > 0) return;
  stream.cork();
  process.nextTick(() => stream.uncork());
}

function beginBounded({ statementMs }: CommandTime): string {
  return `begin read only; set local statement_timeout = ${statementMs()}`;
}

/** Runs one statement in a transaction of its own, pipelined. */
async function inOne(
  client: pg.PoolClient,
  beginning: string,
  send: Send,
  refused: typeof refuse,
): Promise<pg.QueryResult> {
  gather(client);
  // The commit is sent along, so a lost connection leaves it open whether it was executed.
  const parts = [
    client.query(timedBegin(client, beginning)).catch(refused),
    send(client, refused),
    client.query(timed(client, 'commit')).catch(refused),
  ] as const;
  const [begun, result, ended] = await Promise.allSettled(parts);
  // The first failure is the reason for the others.
  for (const part of [begun, result, ended]) if (part.status === 'rejected') throw part.reason;
  return (result as PromiseFulfilledResult<pg.QueryResult>).value;
}

const texts = new WeakMap<TemplateStringsArray, string>();

/** Keyed by the literal itself: a tag receives the same array at each evaluation. */
function textOf(strings: TemplateStringsArray): string {
  let text = texts.get(strings);
  if (text === undefined) {
    text = strings.reduce((before, part, index) => `${before}$${index}${part}`);
    texts.set(strings, text);
  }
  return text;
}

/** Returns whole numbers as one array value, at a tenth of the cost of binding them one by one. */
export function numbers(values: readonly (number | null | undefined)[]): string {
  return `{${values.map((value) => value ?? 'null').join(',')}}`;
}

/**
 * Waits until no other transaction holds the lock of this `topic`, and holds it until the
 * transaction ends. For rules about rows that do not exist yet, which cannot be locked.
 */
export async function advisoryLock(tx: Queries, topic: string): Promise<void> {
  await tx.get`select pg_advisory_xact_lock(hashtextextended(${`leat ${topic}`}, 0))`;
}
