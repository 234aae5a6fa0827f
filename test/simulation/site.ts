import type { DatabaseSync } from 'node:sqlite';
import { createSeal } from '../../src/store/seal.ts';
import type { Store } from '../../src/store/port.ts';
import { openConnection } from '../../src/store/sqlite/connection.ts';
import { createDatabase, type Database } from '../../src/store/sqlite/database.ts';
import { prepareSchema } from '../../src/store/sqlite/schema.ts';
import { createSqliteStore } from '../../src/store/sqlite/store.ts';

/** The store that all nodes share: the real one, in memory, empty but for one tenant. */
export interface Site {
  readonly store: Store;
  /** The same tables, for looking behind the store. */
  readonly db: Database;
  readonly tenant: number;
  /** Runs one command at a time: what is noted right after one sees no other. */
  inTurn<T>(command: () => Promise<T>): Promise<T>;
  close(): void;
}

const location = { path: ':memory:', file: undefined };
const secretKey = new Uint8Array(32);

/** Not random, as nothing here depends on it: a history has to be the same each time. */
const random = (count: number): Uint8Array => new Uint8Array(count).fill(7);

/** Empty tables, made once: they are copied for each history, which is quicker than making them. */
let emptyTables: Promise<Uint8Array> | undefined;

export async function createSite(clock: { now(): number; elapsedMs(): number }): Promise<Site> {
  emptyTables ??= makeTables();
  const connection = openConnection(location);
  connection.deserialize(await emptyTables);
  const store = createSqliteStore(connection, {
    secretKey,
    random,
    clock,
    defer: queueMicrotask,
    report: (error) => {
      throw error;
    },
  });
  const answer = await store.tenants.create({ name: 'main', domain: 'main.example.com' }, 0);
  if (!('created' in answer)) throw new Error('An empty store refused its first tenant.');
  let last: Promise<unknown> = Promise.resolve();
  return {
    store,
    db: createDatabase(connection),
    tenant: answer.created.id,
    inTurn: (command) => {
      const result = last.then(command);
      last = result.catch(() => undefined);
      return result;
    },
    close: () => connection.close(),
  };
}

async function makeTables(): Promise<Uint8Array> {
  const connection: DatabaseSync = openConnection(location);
  await prepareSchema(connection, location, createSeal(secretKey, random));
  const tables = connection.serialize();
  connection.close();
  return tables;
}
