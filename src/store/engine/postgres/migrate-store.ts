import { createHash } from 'node:crypto';
import { StartRefused, StoreContentRefused } from '../../../core/errors.ts';
import { dayOf } from '../../../core/units.ts';
import {
  type Cell,
  keyOf,
  migratedTables,
  type TableColumn,
  type RowKey,
  type TableRow,
  type Table,
  nameOfRow,
} from '../../migrate-store/table.ts';
import type { Seal } from '../../seal.ts';
import { type Bindable, createDatabase, type Database, numbers, type Queries } from './database.ts';
import { makeDays, schemaLock } from './partitions.ts';
import { createHosts } from './hosts.ts';
import { nameOf, refusalOf } from './refusal.ts';
import { prepareSchema } from './schema.ts';

/** A database that receives the rows of another store, and records the progress. */
export interface MigrationTarget {
  /** The name of the database in messages; no password. */
  readonly name: string;
  /** Whether the whole store was migrated to it before. */
  readonly isComplete: boolean;
  /** Returns the progress of a table. */
  progressOf(table: Table): MigrationProgress;
  /** Writes rows with their progress, both or neither; a batch takes at most a second. */
  write(table: Table, rows: readonly TableRow[]): Promise<void>;
  /** Returns rows after a key, in its order, in the same form as the source. */
  read(table: Table, after: RowKey | undefined, take: number): Promise<TableRow[]>;
  /**
   * Raises the sequences above the numbers in use, records the days of the logs, and updates
   * statistics.
   */
  complete(numbered: ReadonlyMap<Table, number>): Promise<void>;
  /** Completes the migration: a server may start on the database. */
  release(): Promise<void>;
  close(): Promise<void>;
}

export interface MigrationProgress {
  readonly last: RowKey | undefined;
  readonly rows: number;
}

/**
 * Opens the database for {@link MigrationTarget}: an empty one, whose schema is migrated, or one
 * with a part of the same source. Throws `StartRefused` with one line for the operator.
 */
export async function openMigrationTarget(
  url: string,
  { seal, keyProof }: { seal: Seal; keyProof: Uint8Array },
): Promise<MigrationTarget> {
  const name = nameOf(url);
  const hosts = createHosts(url, 'leat migrate-store');
  const db = createDatabase({ hosts, connectionsMax: 2 });
  const source = createHash('sha256').update(keyProof).digest('hex');
  try {
    const isComplete = (await goesOn(db, name, source)) ? false : await begin();
    return targetOn(db, { name, isComplete, progress: await progressIn(db, isComplete) });
  } catch (error) {
    await db.close();
    throw asTo(name, error);
  }

  /** Returns whether there is nothing to begin. */
  async function begin(): Promise<boolean> {
    await prepareSchema(db, name, seal);
    const row = await db.get<{ sealed: Uint8Array }>`select sealed from key_check`;
    if (row !== undefined && Buffer.compare(row.sealed, keyProof) === 0) return true;
    await refuseUsed(db, name);
    await db.script(beginScript(source));
    return false;
  }
}

/**
 * Refuses a database with a partly migrated store. Call it before its schema is prepared, which
 * would seal a key check of its own before that of the source arrives.
 *
 * @param name of the database in messages; no password
 */
export async function refuseHalfMigrated(db: Queries, name: string): Promise<void> {
  const isHalf = await isHalfMigrated(db).catch((error: unknown) => {
    throw refusalOf(name, error);
  });
  if (!isHalf) return;
  throw new StartRefused(
    `LEAT_STORE: ${name} holds a store that has not come as a whole, run leat migrate-store again to its end`,
  );
}

async function isHalfMigrated(db: Queries): Promise<boolean> {
  const row = await db.get<{ half: boolean }>`
    select to_regclass('leat_store_migration') is not null as half`;
  return row?.half === true;
}

/** Returns whether the migration of this source began here before. */
async function goesOn(db: Queries, name: string, source: string): Promise<boolean> {
  if (!(await isHalfMigrated(db))) return false;
  const row = await db.get<{ source: string }>`select source from leat_store_migration limit 1`;
  if (row?.source === source) return true;
  throw new StartRefused(
    `--to: ${name} holds a part of another store: end that move, or name an empty database`,
  );
}

async function refuseUsed(db: Queries, name: string): Promise<void> {
  const row = await db.get<{ used: boolean }>`select exists (select 1 from tenants) as used`;
  if (row?.used !== true) return;
  throw new StartRefused(`--to: ${name} is the store of others already: name an empty database`);
}

/**
 * One transaction, so that a server finds the database either empty or partly migrated. The key
 * check of the empty store is replaced by that of the source. Attempts have no index in the order
 * in which they are read back, so they get one until the end.
 */
function beginScript(source: string): string {
  const rows = migratedTables.map(({ name }) => `('${source}', '${name}', null, 0)`);
  return `
    begin;
    select pg_advisory_xact_lock(${schemaLock});
    create table leat_store_migration (
      source text not null,                     -- SHA-256 of its proof of the key
      table_name text collate "C" primary key,
      last text,                                -- JSON: the key of the row that came last
      rows bigint not null
    );
    insert into leat_store_migration (source, table_name, last, rows) values ${rows.join(', ')};
    create index leat_store_migration_attempts on attempts (number);
    delete from key_check;
    commit`;
}

async function progressIn(
  db: Queries,
  isComplete: boolean,
): Promise<Map<string, MigrationProgress>> {
  if (isComplete) return new Map();
  const rows = await db.all<{ table_name: string; last: string | null; rows: number }>`
    select table_name, last, rows from leat_store_migration`;
  return new Map(
    rows.map(({ table_name: table, last, rows: count }) => [
      table,
      { last: last === null ? undefined : (JSON.parse(last) as RowKey), rows: count },
    ]),
  );
}

function targetOn(
  db: Database,
  state: Pick<MigrationTarget, 'name' | 'isComplete'> & {
    progress: Map<string, MigrationProgress>;
  },
): MigrationTarget {
  const { name, isComplete, progress } = state;
  const progressOf = (table: Table): MigrationProgress =>
    progress.get(table.name) ?? { last: undefined, rows: 0 };
  const days = new Set<string>();

  const copy = async (table: Table, rows: readonly TableRow[]): Promise<void> => {
    const former = progressOf(table);
    const last = rows.at(-1);
    if (last === undefined) return;
    const next = { last: keyOf(table, last), rows: former.rows + rows.length };
    const values = table.columns.map((column, index) => arrayOf(column, index, rows));
    const cells = [JSON.stringify(next.last), next.rows, table.name, former.rows];
    const written = await db.transact('relaxed', (tx) =>
      tx.run(insertOf(table), ...cells, ...values),
    );
    if (written !== rows.length) {
      throw new StartRefused(`--to: another move to ${name} is under way`);
    }
    progress.set(table.name, next);
  };

  /** Finds the row that PostgreSQL refuses by halving the batch, and names it. */
  const write = async (table: Table, rows: readonly TableRow[]): Promise<void> => {
    try {
      await copy(table, rows);
    } catch (error) {
      if (!(error instanceof StoreContentRefused)) throw error;
      if (rows.length === 1) throw rowRefusal(table, rows[0] ?? [], error);
      const half = Math.ceil(rows.length / 2);
      await write(table, rows.slice(0, half));
      await write(table, rows.slice(half));
    }
  };

  return {
    name,
    isComplete,
    progressOf,
    write: async (table, rows) => {
      await makeDaysOf(db, table, rows, days);
      await write(table, rows);
    },
    read: async (table, after, take) => {
      const rows = await readInOrder<Record<string, Cell>>(db, selectOf(table, after, take));
      return rows.map((row) => table.columns.map((column) => row[column.name] ?? null));
    },
    complete: async (numbered) => {
      await continueNumbers(db, numbered);
      await db.script('select leat_fill_log_days()');
      await db.script(`analyze ${migratedTables.map((table) => table.name).join(', ')}`);
    },
    release: () =>
      db.script(
        'begin; drop index leat_store_migration_attempts; drop table leat_store_migration; commit',
      ),
    close: () => db.close(),
  };
}

/**
 * By the index of the key. PostgreSQL estimates the number of rows after a key by its first column
 * alone, expects few at the last tenant, and would read and sort them all for each page.
 */
function readInOrder<Row>(db: Database, select: Select): Promise<Row[]> {
  return db.transact('relaxed', async (tx) => {
    const [, rows] = await Promise.all([
      tx.get`
        select set_config('enable_sort', 'off', true),
          set_config('enable_incremental_sort', 'off', true)`,
      tx.all<Row>(...select),
    ]);
    return rows;
  });
}

/** Creates partitions that the rows need and that this process has not created yet. */
async function makeDaysOf(
  db: Database,
  table: Table,
  rows: readonly TableRow[],
  made: Set<string>,
): Promise<void> {
  const { name } = table;
  if (name !== 'events' && name !== 'attempts') return;
  const index = table.columns.findIndex(
    (column) => column.name === (name === 'events' ? 'published_at' : 'day'),
  );
  const needed = new Set<number>();
  for (const row of rows) {
    const value = Number(row[index]);
    const day = name === 'events' ? dayOf(value) : value;
    // Day 0 of attempts always exists.
    if (!made.has(`${name} ${day}`) && (name === 'events' || day !== 0)) needed.add(day);
  }
  if (needed.size === 0) return;
  await makeDays(db, name, [...needed]);
  for (const day of needed) made.add(`${name} ${day}`);
}

function rowRefusal(table: Table, row: TableRow, error: Error): StartRefused {
  return new StartRefused(
    `--from: ${nameOfRow(table, keyOf(table, row))} is refused by PostgreSQL: ${error.message}`,
    { cause: error },
  );
}

/** The identities of SQLite are numbers that it never reuses, so they are kept. */
async function continueNumbers(db: Queries, numbered: ReadonlyMap<Table, number>): Promise<void> {
  for (const [{ name, columns }, highest] of numbered) {
    const identity = columns.find(({ isNumbered = false }) => isNumbered)?.name;
    if (identity === undefined || highest === 0) continue;
    await db.get`select setval(pg_get_serial_sequence(${name}, ${identity}), ${highest}::bigint)`;
  }
  await db.get`
    select setval('attempts_number',
      greatest((select max(number) from attempts), 0) + 1, false)`;
}

// Statements made from the list of tables. Names are from this program, values are bound.

const arrayTypes: Record<TableColumn['kind'], string> = {
  integer: 'bigint[]',
  real: 'double precision[]',
  text: 'text[]',
  bytes: 'text[]',
  boolean: 'boolean[]',
};

/**
 * Writes a batch with its progress in one statement: an array for each column. Of two migrations
 * the later one waits for the row with the progress, finds it advanced, and writes nothing; it does
 * not reach the keys that exist already.
 */
function insertOf({ name, columns }: Table): TemplateStringsArray {
  const names = columns.map((column) => `"${column.name}"`).join(', ');
  const cells = columns.map(({ name: column, kind }) =>
    kind === 'bytes' ? `decode(u."${column}", 'hex')` : `u."${column}"`,
  );
  const types = columns.map(({ kind }) => arrayTypes[kind]);
  return template([
    `with taken as (
        update leat_store_migration set last = `,
    ', rows = ',
    ' where table_name = ',
    ' and rows = ',
    ` returning rows)
      insert into ${name} (${names}) overriding system value
      select ${cells.join(', ')} from unnest(`,
    ...types.slice(0, -1).map((type) => `::${type}, `),
    `::${types.at(-1)}) as u(${names}) where exists (select from taken)`,
  ]);
}

function arrayOf(column: TableColumn, index: number, rows: readonly TableRow[]): Bindable {
  const cells = rows.map((row) => row[index] ?? null);
  if (column.kind !== 'integer') return cells;
  return numbers(cells.map((cell) => (cell === null ? null : Number(cell))));
}

type Select = [strings: TemplateStringsArray, ...values: Bindable[]];

function selectOf(
  { name, columns, keyColumns }: Table,
  after: RowKey | undefined,
  take: number,
): Select {
  const cells = columns.map(({ name: column, kind }) =>
    kind === 'bytes' ? `encode("${column}", 'hex') as "${column}"` : `"${column}"`,
  );
  const keys = columns.slice(0, keyColumns).map((column) => `"${column.name}"`);
  const select = `select ${cells.join(', ')} from ${name}`;
  const order = ` order by ${keys.join(', ')} limit `;
  if (after === undefined) return [template([`${select}${order}`, '']), take];
  const commas = after.slice(1).map(() => ', ');
  const where = `${select} where (${keys.join(', ')}) > (`;
  return [template([where, ...commas, `)${order}`, '']), ...after, take];
}

/** Returns what a tagged template would be, for a text that is put together. */
function template(parts: readonly string[]): TemplateStringsArray {
  return Object.assign([...parts], { raw: parts });
}

/** Returns a reason for refusing to open a store, in terms of the option that names this one. */
function asTo(name: string, error: unknown): StartRefused {
  const refused = refusalOf(name, error);
  return new StartRefused(refused.message.replace(/^LEAT_STORE: /, '--to: '), {
    cause: refused.cause,
  });
}
