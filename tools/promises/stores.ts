import { readFileSync } from 'node:fs';
import { migrate, migrationsOf } from '../../src/store/migrate.ts';
import { openConnection } from '../../src/store/engine/sqlite/connection.ts';
import { migrationDriver } from '../../src/store/engine/sqlite/schema.ts';

/**
 * Returns an entry for each column of both stores. Those of PostgreSQL are read from a list, which
 * `test/store/postgres/columns.test.ts` compares with a real server.
 */
export async function storeEntries(): Promise<string[]> {
  const listed = readFileSync('test/promises/postgres-columns.txt', 'utf8').trimEnd().split('\n');
  const columns = await sqliteColumns();
  return [
    ...columns.map((column) => `SQLite column: ${column}`),
    ...listed.map((column) => `PostgreSQL column: ${column}`),
  ];
}

async function sqliteColumns(): Promise<string[]> {
  const connection = openConnection({ path: ':memory:', file: undefined });
  try {
    const migrations = migrationsOf('sqlite');
    await migrate(migrationDriver(connection, ':memory:'), migrations);
    const rows = connection
      .prepare(
        `select t.name || '.' || c.name as name
         from sqlite_schema t join pragma_table_info(t.name) c
         where t.type = 'table' and t.name not like 'sqlite%'`,
      )
      .all();
    return rows.map(({ name }) => String(name));
  } finally {
    connection.close();
  }
}
