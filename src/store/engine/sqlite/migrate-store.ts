import { existsSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { DatabaseSync, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import { StartRefused } from '../../../core/errors.ts';
import { isComplete, migrationsOf, schemaRefusal } from '../../migrate.ts';
import {
  type Cell,
  keyOf,
  type TableColumn,
  type RowKey,
  type TableRow,
  type Table,
  nameOfRow,
} from '../../migrate-store/table.ts';
import { refusalOf } from './refusal.ts';
import { formerMigration } from './schema.ts';

/** A database that is read as a whole and not changed; no server can open it at the same time. */
export interface MigrationSource {
  /** The text that the first start sealed: checks the key, and identifies the store. */
  readonly keyCheck: Uint8Array;
  count(table: Table): number;
  /** Returns the rows after a key, in its order: none after the last, else at least one. */
  read(table: Table, after: RowKey | undefined, page: PageSize): TableRow[];
  /** Returns the highest number that an identity column ever assigned, 0 when it assigned none. */
  numbered(table: Table): number;
  close(): void;
}

export interface PageSize {
  readonly rows: number;
  /** Characters and bytes together; a page ends with the row that reaches it. */
  readonly characters: number;
}

/**
 * Opens the file for {@link MigrationSource}. Throws `StartRefused` with one line for the operator.
 */
export function openMigrationSource(file: string): MigrationSource {
  if (!existsSync(file)) throw refusal(file, 'does not exist');
  const connection = locked(file);
  try {
    refuseOtherSchema(connection, file);
    refuseLeaving(connection, file);
    return sourceOn(connection, file, keyCheckOf(connection, file));
  } catch (error) {
    connection.close();
    throw asFrom(file, error);
  }
}

/**
 * Holds the connection with its lock and one view of the data, until it is closed.
 *
 * Closing a connection that may write moves the WAL into the file. After a clean end there is none,
 * and the empty one that is created here is removed again. A WAL that a crash left belongs to the
 * data: opened read-only it is read and stays, and the shared lock keeps servers away, because they
 * need the file for themselves. SQLite leaves its `-shm` next to it then, which servers do not
 * read.
 */
function locked(file: string): DatabaseSync {
  let connection: DatabaseSync | undefined;
  try {
    const readOnly = (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
    // SQLite would read a path that begins with `file:` as a URI.
    connection = new DatabaseSync(resolve(file), { readOnly });
    connection.exec(`pragma busy_timeout = ${lockWaitMs}; pragma query_only = on`);
    if (!readOnly) connection.exec('pragma locking_mode = exclusive');
    connection.exec('pragma cell_size_check = on; pragma trusted_schema = off; begin');
    // The lock is taken with the first page that is read.
    connection.exec('select count(*) from sqlite_schema');
    return connection;
  } catch (error) {
    connection?.close();
    throw asFrom(file, error);
  }
}

/** Another process may be about to end. */
const lockWaitMs = 1000;

/** The file is not written, so it cannot be migrated to a newer schema either. */
function refuseOtherSchema(connection: DatabaseSync, file: string): void {
  const known = connection.prepare(
    `select count(*) as known from sqlite_schema where name = 'leat_migrations'`,
  );
  if (known.get()?.['known'] === 0) throw refusal(file, 'is not a store of Leat');
  const applied = connection
    .prepare('select name, checksum from leat_migrations order by name')
    .all()
    .map(({ name, checksum }) => ({ name: String(name), checksum: String(checksum) }));
  const own = migrationsOf('sqlite');
  const isFormer = isComplete({ last: formerMigration }, applied);
  const reason = isFormer ? undefined : schemaRefusal(applied, own);
  if (reason !== undefined) throw refusal(file, reason);
  if (!isFormer && applied.length === own.length) return;
  throw refusal(
    file,
    'was last used by an older version of Leat: start this one on it once, stop it and run the command again',
  );
}

/** The rest of such a tenant is not copied to another store. */
function refuseLeaving(connection: DatabaseSync, file: string): void {
  const leaving = connection.prepare('select name from leaving_tenants limit 1').get();
  if (leaving === undefined) return;
  const name = String(leaving['name']);
  throw refusal(
    file,
    `has a tenant that is being deleted, end it with leat tenants delete ${name}`,
  );
}

function keyCheckOf(connection: DatabaseSync, file: string): Uint8Array {
  const sealed = connection.prepare('select sealed from key_check').get()?.['sealed'];
  if (sealed instanceof Uint8Array) return sealed;
  throw refusal(file, 'was never started to the end: there is nothing to move');
}

function sourceOn(connection: DatabaseSync, file: string, keyCheck: Uint8Array): MigrationSource {
  const readers = new Map<string, StatementSync>();
  const prepared = (sql: string): StatementSync => {
    const statement = readers.get(sql) ?? connection.prepare(sql);
    statement.setReturnArrays(true);
    readers.set(sql, statement);
    return statement;
  };
  const valueOf = (sql: string, ...values: string[]): number => {
    const row: unknown = prepared(sql).get(...values);
    return Array.isArray(row) ? Number(row[0]) : 0;
  };
  return {
    keyCheck,
    count: ({ name, from = name }) => valueOf(`select count(*) from ${from}`),
    read: (table, after, page) => {
      try {
        return pageOf(table, rowsOf(prepared(pageQuery(table, after)), page, after), page);
      } catch (error) {
        if (error instanceof StartRefused) throw error;
        const where = after === undefined ? table.name : `after ${nameOfRow(table, after)}`;
        throw refusal(file, `cannot be read, ${where}: ${messageOf(error)}`, error);
      }
    },
    numbered: ({ name }) => valueOf('select seq from sqlite_sequence where name = ?', name),
    close: () => connection.close(),
  };
}

/**
 * Row values compare in the order of the primary key, so that a page is one search in its index.
 */
function pageQuery(
  { name, from = name, columns, keyColumns }: Table,
  after: RowKey | undefined,
): string {
  const keys = columns.slice(0, keyColumns).map(expressionOf).join(', ');
  const marks = Array.from({ length: keyColumns }, () => '?').join(', ');
  const where = after === undefined ? '' : `where (${keys}) > (${marks})`;
  return `select ${columns.map(expressionOf).join(', ')} from ${from} ${where}
    order by ${keys} limit ?`;
}

function expressionOf({ name, source }: TableColumn): string {
  return source ?? `"${name}"`;
}

function* rowsOf(
  statement: StatementSync,
  page: PageSize,
  after: RowKey = [],
): Generator<SQLOutputValue[]> {
  const values = after.map((cell) => (typeof cell === 'boolean' ? Number(cell) : cell));
  for (const row of statement.iterate(...values, page.rows)) {
    // Statements here return arrays, whatever the type of `iterate` is.
    const cells: unknown = row;
    yield cells as SQLOutputValue[];
  }
}

function pageOf(
  table: Table,
  rows: Iterable<SQLOutputValue[]>,
  { characters: charactersMax }: PageSize,
): TableRow[] {
  const page: TableRow[] = [];
  let characters = 0;
  for (const values of rows) {
    const row = values.map((value, index) => cellOf(value, table.columns[index]?.kind));
    for (const [index, cell] of row.entries()) {
      if (typeof cell !== 'string') continue;
      if (cell.includes('\u0000')) throw nulRefusal(table, row, index);
      characters += cell.length;
    }
    page.push(row);
    if (characters >= charactersMax) break;
  }
  return page;
}

function cellOf(value: SQLOutputValue, kind: TableColumn['kind'] | undefined): Cell {
  if (kind === 'boolean') return value === 1;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  return typeof value === 'bigint' ? Number(value) : value;
}

function nulRefusal(table: Table, row: TableRow, index: number): StartRefused {
  const column = table.columns[index]?.name;
  return new StartRefused(
    `--from: ${nameOfRow(table, keyOf(table, row))} has U+0000 in ${column}, which PostgreSQL cannot hold: change or remove it in the source and run the command again`,
  );
}

/** Returns a reason for refusing to open a store, in terms of the option that names this one. */
function asFrom(file: string, error: unknown): StartRefused {
  const refused = refusalOf(file, error);
  const message = refused.message.replace(/^LEAT_STORE: /, '--from: ');
  return new StartRefused(
    message.replace('stop that one or choose another file', 'stop that one and run this again'),
    { cause: refused.cause },
  );
}

function refusal(file: string, reason: string, cause?: unknown): StartRefused {
  return new StartRefused(`--from: ${file} ${reason}`, { cause });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
