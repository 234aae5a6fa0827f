import type { Clock } from '../../src/core/clock.ts';
import type { DatabaseSync } from 'node:sqlite';
import { createSeal } from '../../src/store/seal.ts';
import { createHints } from '../../src/store/hints.ts';
import type { LogEvent } from '../../src/core/types.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Store } from '../../src/store/port/store.ts';
import { openConnection } from '../../src/store/engine/sqlite/connection.ts';
import { createDatabase, type Database } from '../../src/store/engine/sqlite/database.ts';
import { prepareSchema } from '../../src/store/engine/sqlite/schema.ts';
import type { WalSync } from '../../src/store/engine/sqlite/wal-sync.ts';
import { createSqliteStore } from '../../src/store/engine/sqlite/store.ts';

/** The store that all nodes share: the real one, in memory, empty but for its tenants. */
export interface SharedStore {
  readonly store: Store;
  /** The same tables, for reading past the store. */
  readonly db: Database;
  /** Their ids. */
  readonly tenants: readonly number[];
  /** Rises with each restore. */
  readonly generation: number;
  /** Runs one command at a time, so that notes right after a command see no other. */
  exclusive<T>(command: () => Promise<T>): Promise<T>;
  /** The tables as they are now. */
  snapshot(): Uint8Array;
  /**
   * Restores earlier tables, as a fail-over to a replica that was behind does: running commands
   * fail. The leases of all nodes last for `leaseMs` from now.
   */
  restore(tables: Uint8Array, leaseMs: number): void;
  /** Restores the tables of the disk, and opens them as a starting process does. */
  reopen(tables: Uint8Array): void;
  /** Sends a hint to every process. */
  emit(hint: Hint): void;
  /** Calls `listener` with the events of each commit, before they are synced and visible. */
  watchLog(listener: LogListener): void;
  close(): void;
}

type LogListener = (tenant: number, events: readonly LogEvent[]) => void;

/** The start of every history by the clock of the store. */
export const epochMillis = 1_772_357_400_000;

const location = { path: ':memory:', file: undefined };
const secretKeys = [new Uint8Array(32)];

/** Not random, as nothing here depends on it: a history has to be the same each time. */
const random = (count: number): Uint8Array => new Uint8Array(count).fill(7);

/** Empty tables, copied for each history: quicker than creating them. */
let emptyTables: Promise<Uint8Array> | undefined;

export async function createSharedStore(
  clock: Clock,
  attach: (connection: DatabaseSync) => WalSync,
  tenantCount: number,
): Promise<SharedStore> {
  emptyTables ??= makeTables();
  const hints = createHints({ report: raise });
  const logListeners: LogListener[] = [];
  const emitLog: LogListener = (tenant, events) => {
    for (const listener of logListeners) listener(tenant, events);
  };
  const deps = { clock, attach, emit: hints.emit, emitLog };
  let opened = open(await emptyTables, deps);
  const replace = (tables: Uint8Array): void => {
    void opened.walSync.close();
    close(opened.connection);
    opened = open(tables, deps);
    generation += 1;
  };
  let generation = 1;
  const store: Store = { ...forwarding(() => opened.store), watch: hints.watch };
  const tenants: number[] = [];
  while (tenants.length < tenantCount) {
    const name = `tenant-${tenants.length + 1}`;
    const result = await store.tenants.create({ name, domain: `${name}.example.com` }, 0);
    if (!('created' in result)) throw new Error('An empty store refused a tenant.');
    tenants.push(result.created.id);
  }
  let last: Promise<unknown> = Promise.resolve();
  return {
    store,
    get db() {
      return opened.db;
    },
    tenants,
    get generation() {
      return generation;
    },
    exclusive: (command) => {
      const result = last.then(command);
      last = result.catch(() => undefined);
      return result;
    },
    snapshot: () => opened.connection.serialize(),
    restore: (tables, leaseMs) => {
      replace(tables);
      keepOwners(opened.db, tables, clock.elapsedMs() + leaseMs);
    },
    reopen: replace,
    emit: hints.emit,
    watchLog: (listener) => {
      logListeners.push(listener);
    },
    close: () => close(opened.connection),
  };
}

interface Opened {
  readonly connection: DatabaseSync;
  readonly db: Database;
  readonly walSync: WalSync;
  readonly store: Store;
}

function open(
  tables: Uint8Array,
  deps: {
    readonly clock: Clock;
    readonly attach: (connection: DatabaseSync) => WalSync;
    readonly emit: (hint: Hint) => void;
    readonly emitLog: LogListener;
  },
): Opened {
  const { clock, attach, emit, emitLog } = deps;
  const connection = openConnection(location);
  connection.deserialize(tables);
  const walSync = attach(connection);
  const options = { secretKeys, random, clock, defer: queueMicrotask, report: raise };
  const store = createSqliteStore(connection, options, walSync);
  store.watch(emit);
  const db = createDatabase(connection);
  watchCommits(connection, db, emitLog);
  return { connection, db, walSync, store };
}

/**
 * Without its own `exec`, through which the connection leads to its statements: Node keeps a connection as
 * long as one of its statements, so that neither would ever be freed.
 */
function close(connection: DatabaseSync): void {
  connection.close();
  Reflect.deleteProperty(connection, 'exec');
}

/** Emits the events of each commit. */
function watchCommits(connection: DatabaseSync, db: Database, emitLog: LogListener): void {
  const headsOf = (): Map<number, number> =>
    new Map(
      db.all<{ id: number; head: number }>`select id, head from tenants`.map(({ id, head }) => [
        id,
        head,
      ]),
    );
  let before = headsOf();
  const exec = connection.exec.bind(connection);
  connection.exec = (sql) => {
    exec(sql);
    if (sql !== 'commit') return;
    const heads = headsOf();
    for (const [tenant, head] of heads) {
      const after = before.get(tenant) ?? 0;
      if (head > after) emitLog(tenant, eventsOf(db, tenant, after));
    }
    before = heads;
  };
}

function eventsOf(db: Database, tenant: number, after: number): LogEvent[] {
  return db.all<LogEvent>`
    select offset, id, type, time, published_at as "publishedAt", body from events
    where tenant = ${tenant} and offset > ${after} order by offset`;
}

/** Restores the leases that opening a store ends: an SQLite file belongs to one process, here there are several. */
function keepOwners(db: Database, tables: Uint8Array, leaseUntil: number): void {
  const connection = openConnection(location);
  connection.deserialize(tables);
  const former = createDatabase(connection);
  for (const { key, owner } of former.all<{ key: number; owner: string | null }>`
    select key, owner from runs`) {
    db.run`update runs set owner = ${owner} where key = ${key}`;
  }
  for (const { id } of former.all<{ id: string }>`select id from nodes where lease_until > 0`) {
    db.run`update nodes set lease_until = ${leaseUntil} where id = ${id}`;
  }
  connection.close();
}

function raise(error: unknown): never {
  throw error;
}

/** Returns a store that forwards every call to the current one. */
function forwarding(present: () => Store): Store {
  const sections = Object.keys(present()).map((name) => {
    const part = (): unknown => present()[name as keyof Store];
    return [name, forwardingPart(part)];
  });
  return Object.fromEntries(sections) as Store;
}

type Method = (...args: unknown[]) => unknown;

function forwardingPart(part: () => unknown): unknown {
  if (typeof part() === 'function') return (...args: unknown[]) => (part() as Method)(...args);
  const methods = Object.keys(part() as object).map((name) => [
    name,
    (...args: unknown[]) => (part() as Record<string, Method>)[name]?.(...args),
  ]);
  return Object.fromEntries(methods);
}

async function makeTables(): Promise<Uint8Array> {
  const connection: DatabaseSync = openConnection(location);
  await prepareSchema(connection, location, createSeal(secretKeys, random));
  const tables = connection.serialize();
  connection.close();
  return tables;
}
