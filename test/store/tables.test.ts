import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { migrationsOf } from '../../src/store/migrate.ts';
import { defineTestKey } from '../../src/store/engine/sqlite/attempts.ts';
import type { Column, Table } from '../../src/store/table.ts';
import { tables } from '../../src/store/tables.ts';
import { query } from '../helpers/postgres.ts';
import { newDatabase } from './engines.ts';

// The list of tables is compared with the schema that the migrations of each engine make.

/** A column as an engine has it. */
interface Found {
  readonly table: string;
  readonly name: string;
  readonly type: string;
  readonly isNullable: boolean;
  /** A row can be inserted without it. */
  readonly isOptional: boolean;
}

/** Of one engine, or of both and about processes: no command reads them by the list. */
const otherTables = new Set([
  'attempts_kept',
  'failure_groups',
  'leat_migrations',
  'leat_schema',
  'leaving_runs',
  'leaving_tenants',
  'log_days',
  'node_steps',
  'nodes',
  'sqlite_sequence',
  'store',
  'test_time',
  'upkeep',
]);

/** Of PostgreSQL alone, and nothing that a migration to another store could carry. */
const otherColumns = new Set([
  'deliveries.attempts_from',
  'deliveries.attempts_to',
  'tenants.oldest_at',
]);

const sqliteTypes: Record<Column['kind'], readonly string[]> = {
  integer: ['INTEGER'],
  boolean: ['INTEGER'],
  real: ['REAL'],
  text: ['TEXT'],
  bytes: ['BLOB'],
};

const postgresTypes: Record<Column['kind'], readonly string[]> = {
  integer: ['smallint', 'integer', 'bigint'],
  boolean: ['boolean'],
  real: ['double precision'],
  text: ['text'],
  bytes: ['bytea'],
};

test('SQLite: the list of tables has every column of the schema, with its kind', () => {
  const found = columnsOfSqlite();
  assertListed(found, sqliteTypes, ({ source }) => source === undefined);
});

test('PostgreSQL: the list of tables has every column of the schema, with its kind', async () => {
  const found = await columnsOfPostgres();
  assertListed(found, postgresTypes, () => true);
});

/** SQLite lets the key of contents be null, which PostgreSQL makes itself. */
test('the list of tables says what may be null, and what a new row may be without', async () => {
  const both = [columnsOfSqlite(), await columnsOfPostgres()];
  for (const { name, column } of listed()) {
    const found = both.flatMap((columns) => columns.filter((each) => fullName(each) === name));
    assert.equal(
      column.isNullable,
      found.some(({ isNullable }) => isNullable),
      name,
    );
    assert.equal(
      column.isOptional,
      found.every(({ isOptional }) => isOptional),
      name,
    );
  }
});

function assertListed(
  found: readonly Found[],
  types: Record<Column['kind'], readonly string[]>,
  isIn: (column: Column) => boolean,
): void {
  const present = found.filter((column) => !otherColumns.has(fullName(column)));
  const expected = listed().filter(({ column }) => isIn(column));
  assert.deepEqual(present.map(fullName).toSorted(), expected.map(({ name }) => name).toSorted());
  const typeOf = new Map(present.map((column) => [fullName(column), column.type]));
  for (const { name, column } of expected) {
    const type = typeOf.get(name) ?? '';
    assert.ok(
      types[column.kind].includes(type),
      `${name} is ${column.kind}, and in the schema ${type}`,
    );
  }
}

function listed(): { readonly name: string; readonly column: Column }[] {
  return Object.entries<Table>(tables).flatMap(([table, { columns }]) =>
    Object.entries(columns).map(([name, column]) => ({ name: fullName({ table, name }), column })),
  );
}

function fullName({ table, name }: Pick<Found, 'table' | 'name'>): string {
  return `${table}.${name}`;
}

function columnsOfSqlite(): Found[] {
  const db = new DatabaseSync(':memory:');
  defineTestKey(db);
  for (const { sql } of migrationsOf('sqlite')) db.exec(sql);
  // Columns that are computed are not in table_info. An integer key is numbered automatically.
  const rows = db
    .prepare(
      `select t.name as "table", c.name, c.type, c."notnull" = 0 and c.pk = 0 as is_nullable,
        ("notnull" = 0 and c.pk = 0) or c.dflt_value is not null
          or (c.pk = 1 and t.sql like '%autoincrement%') as is_optional
       from sqlite_schema t join pragma_table_info(t.name) c where t.type = 'table'`,
    )
    .all();
  db.close();
  return rows
    .map((row) => ({
      table: String(row['table']),
      name: String(row['name']),
      type: String(row['type']),
      isNullable: row['is_nullable'] === 1,
      isOptional: row['is_optional'] === 1,
    }))
    .filter(({ table }) => !otherTables.has(table));
}

async function columnsOfPostgres(): Promise<Found[]> {
  const rows = await query<Found>(
    await newDatabase(),
    // The partitions have the columns of their tables.
    `select c.table_name as "table", c.column_name as name, c.data_type as type,
       c.is_nullable = 'YES' as "isNullable",
       c.is_nullable = 'YES' or c.is_identity = 'YES' or c.column_default is not null as "isOptional"
     from information_schema.columns c
     join pg_class on oid = format('%I.%I', c.table_schema, c.table_name)::regclass
     where c.table_schema = 'public' and c.is_generated = 'NEVER' and not relispartition`,
  );
  return rows.filter(({ table }) => !otherTables.has(table));
}
