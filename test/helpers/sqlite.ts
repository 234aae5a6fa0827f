import { writeFileSync } from 'node:fs';
import { migrate, migrationsOf } from '../../src/store/migrate.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createSeal } from '../../src/store/seal.ts';
import { openConnection } from '../../src/store/engine/sqlite/connection.ts';
import { migrationDriver, prepareSchema } from '../../src/store/engine/sqlite/schema.ts';
import { createSqliteStore, type SqliteStoreDeps } from '../../src/store/engine/sqlite/store.ts';

/**
 * Stores on copies of tables that each test process migrates once: the migrations take fifty times as
 * long as a copy, and most tests open a store of their own. The tests of migrations create theirs.
 */

const memory = { path: ':memory:', file: undefined };

type Deps = Omit<SqliteStoreDeps, 'defer' | 'report'> &
  Partial<Pick<SqliteStoreDeps, 'defer' | 'report'>>;

/** Opens a store in memory as `openStore` does, with the same defaults. */
export async function openMemoryCopy({
  defer = (action) => setImmediate(action),
  report = warn,
  ...rest
}: Deps): Promise<Store> {
  const deps = { ...rest, defer, report };
  const connection = openConnection(memory);
  try {
    connection.deserialize(await emptyTables());
    await prepareSchema(connection, memory, createSeal(deps.secretKeys, deps.random));
    return createSqliteStore(connection, deps);
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** Creates the file of a store without a key check, which the first start then writes. */
export async function createFileCopy(path: string): Promise<void> {
  writeFileSync(path, await emptyTables(), { flag: 'wx', mode: 0o600 });
}

let migrated: Promise<Uint8Array> | undefined;

function emptyTables(): Promise<Uint8Array> {
  migrated ??= createTables();
  return migrated;
}

async function createTables(): Promise<Uint8Array> {
  const connection = openConnection(memory);
  try {
    const migrations = migrationsOf('sqlite');
    await migrate(migrationDriver(connection, memory.path), migrations);
    return connection.serialize();
  } finally {
    connection.close();
  }
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}
