import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createSeal } from '../../src/store/seal.ts';
import { prepareSchema } from '../../src/store/engine/sqlite/schema.ts';
import { loadPostgres, setPostgresClock, unpack } from '../helpers/earlier-store.ts';
import { secretKey } from '../helpers/leat.ts';
import { query, sharedPostgres } from '../helpers/postgres.ts';

const memory = { path: ':memory:', file: undefined };

describe('the schema of a store from before the baseline', () => {
  test('SQLite: it is adopted and equals that of a new store', async (t) => {
    const earlier = await openSqlite(t, unpack('sqlite.db'));
    const fresh = await openSqlite(t);
    const { objects, ...state } = sqliteSchemaOf(fresh);
    assert.deepEqual(sqliteSchemaOf(earlier), { objects, ...state });
    assert.ok(objects.length > 90, `${objects.length} objects`);
  });

  test('PostgreSQL: nodes that start at once adopt it, and it equals that of a new store', async (t) => {
    const [earlier, fresh] = [await createDatabase(t), await createDatabase(t)];
    await loadPostgres(earlier);
    for (const url of [earlier, fresh]) {
      const stores = await Promise.all([1, 2, 3, 4].map(() => openUrl(url)));
      await Promise.all(stores.map((store) => store.close()));
    }
    const { objects, ...state } = await postgresSchemaOf(fresh);
    assert.deepEqual(await postgresSchemaOf(earlier), { objects, ...state });
    assert.ok(objects.length > 500, `${objects.length} objects`);
  });

  test('SQLite: every value of every row is kept', async (t) => {
    const raw = new DatabaseSync(memory.path);
    t.after(() => raw.close());
    raw.deserialize(unpack('sqlite.db'));
    const reading = { tables: sqliteTables, columns: {} };
    const before = await contentOf((sql) => raw.prepare(sql).all(), reading);
    const earlier = await openSqlite(t, unpack('sqlite.db'));
    assertKept(before, await contentOf((sql) => earlier.prepare(sql).all(), reading));
  });

  test('PostgreSQL: every value of every row is kept', async (t) => {
    const url = await createDatabase(t);
    await loadPostgres(url);
    const { known } = JSON.parse(unpack('postgres.json').toString()) as { known: { now: number } };
    // Before the end of its lease, which a start on another server prolongs.
    await setPostgresClock(url, known.now - 60_000 - Date.now());
    const reading = { tables: postgresTables, columns: {} };
    const before = await contentOf((sql) => query(url, sql), reading);
    await (await openUrl(url)).close();
    assertKept(before, await contentOf((sql) => query(url, sql), reading));
  });

  test('PostgreSQL: without its last migration it is refused, with the commit that migrates it', async (t) => {
    const url = await createDatabase(t);
    await loadPostgres(url);
    await query(url, "delete from leat_migrations where name like '0049%'");
    const { migrations } = await postgresSchemaOf(url);
    await assert.rejects(openUrl(url), {
      name: 'StartRefused',
      message:
        /^LEAT_STORE: \S+ was last used by an older version of Leat: start it once with commit a060e904/,
    });
    assert.deepEqual((await postgresSchemaOf(url)).migrations, migrations);
  });
});

async function openSqlite(t: TestContext, file?: Uint8Array): Promise<DatabaseSync> {
  const connection = new DatabaseSync(memory.path);
  t.after(() => connection.close());
  if (file !== undefined) connection.deserialize(file);
  await prepareSchema(connection, memory, createSeal([secretKey], systemRandom));
  return connection;
}

const sqliteTables = `select name from sqlite_schema
  where type = 'table' and name not like 'sqlite\\_%' escape '\\'`;
/** Without the identity of the store, which is another in a database of its own. */
const postgresTables = `select c.relname as name from pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname <> 'store'`;

/** Rows as JSON, by table. */
type Content = Readonly<Record<string, readonly string[]>>;
type RowsOf = (sql: string) => unknown;

interface Reading {
  /** Selects names. */
  readonly tables: string;
  /** Columns by table; those of tables that are read for the first time are added. */
  readonly columns: Record<string, readonly string[]>;
}

/** Reads all rows of all tables but those that say which migrations have run. */
async function contentOf(rowsOf: RowsOf, { tables, columns }: Reading): Promise<Content> {
  const names = ((await rowsOf(tables)) as { name: string }[]).map(({ name }) => name);
  const found: Record<string, readonly string[]> = {};
  for (const name of names.filter((each) => !each.startsWith('leat_'))) {
    const rows = (await rowsOf(`select * from ${name}`)) as Readonly<Record<string, unknown>>[];
    columns[name] ??= Object.keys(rows[0] ?? {});
    found[name] = rows.map((row) => JSON.stringify(columns[name]?.map((column) => row[column])));
  }
  return found;
}

function assertKept(before: Content, after: Content): void {
  const filled = Object.entries(before).filter(([, rows]) => rows.length > 0);
  assert.ok(filled.length > 20, `${filled.length} tables with rows`);
  for (const [table, rows] of filled) {
    const kept = new Set(after[table]);
    const [lost] = rows.filter((row) => !kept.has(row));
    assert.equal(lost, undefined, `a row of ${table}`);
    assert.equal(after[table]?.length, rows.length, table);
  }
}

function sqliteSchemaOf(connection: DatabaseSync) {
  const all = (sql: string): Record<string, unknown>[] =>
    connection
      .prepare(sql)
      .all()
      .map((row) => ({ ...row }));
  return {
    objects: all(`select type, name, sql from sqlite_schema
      where name not like 'sqlite\\_%' escape '\\' order by name`).map(({ sql, ...rest }) => ({
      ...rest,
      sql: withoutLayout(String(sql)),
    })),
    migrations: all('select name, checksum from leat_migrations'),
    state: all('select version, oldest_that_may_run from leat_schema'),
  };
}

/** A table that was renamed has its name in quotes. */
function withoutLayout(sql: string): string {
  return withoutComments(sql)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/(?<=\() | (?=[,)])/g, '')
    .replace(/^CREATE TABLE "(\w+)"/, 'CREATE TABLE $1');
}

function withoutComments(sql: string): string {
  return sql.replaceAll(/--.*$/gm, '').replaceAll(/\s*\n/g, '\n');
}

async function createDatabase(t: TestContext): Promise<string> {
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  t.after(() => server.dropDatabase(url));
  return url;
}

function openUrl(url: string): Promise<Store> {
  const report = (): void => undefined;
  const deps = { secretKeys: [secretKey], random: systemRandom, clock: systemClock, report };
  return openStore({ location: { engine: 'postgres', url }, ...deps });
}

async function postgresSchemaOf(url: string) {
  const objects = await query<{ name: string; text: string }>(url, catalog);
  return {
    objects: objects.map(({ name, text }) => ({ name, text: withoutComments(text) })),
    migrations: await query(url, 'select name, checksum from leat_migrations order by name'),
    state: await query(url, 'select version, oldest_that_may_run from leat_schema'),
  };
}

/**
 * Everything but the partitions of days, which each store has of its own, and names of constraints that are
 * not null, which PostgreSQL has from 18 on.
 */
const catalog = `
  with tables as (
    select oid, relname from pg_class where relnamespace = 'public'::regnamespace
      and relkind in ('r', 'p', 'i', 'I', 'S') and relname !~ '_d\\d+(_|$)')
  select 'column ' || t.relname || ' ' || row_number() over (partition by t.oid order by a.attnum)
      as name,
    concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), o.collname,
      case when a.attnotnull then 'not null' end, 'identity ' || nullif(a.attidentity::text, ''),
      'generated ' || nullif(a.attgenerated::text, ''), pg_get_expr(d.adbin, d.adrelid)) as text
  from tables t join pg_attribute a on a.attrelid = t.oid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    left join pg_collation o on o.oid = a.attcollation
  where a.attnum > 0 and not a.attisdropped
  union all
  select 'constraint ' || t.relname || ' ' || c.conname, pg_get_constraintdef(c.oid)
  from tables t join pg_constraint c on c.conrelid = t.oid where c.contype <> 'n'
  union all
  select 'relation ' || t.relname, concat_ws(' ', c.relkind, c.relpersistence, c.reloptions::text,
    pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid),
    case when c.relkind in ('i', 'I') then pg_get_indexdef(c.oid) end)
  from tables t join pg_class c on c.oid = t.oid
  union all
  select 'trigger ' || t.relname || ' ' || g.tgname, pg_get_triggerdef(g.oid)
  from tables t join pg_trigger g on g.tgrelid = t.oid where not g.tgisinternal
  union all
  select 'sequence ' || t.relname, concat_ws(' ', format_type(s.seqtypid, null), s.seqstart, s.seqincrement)
  from tables t join pg_sequence s on s.seqrelid = t.oid
  union all
  select 'function ' || p.oid::regprocedure, pg_get_functiondef(p.oid)
  from pg_proc p where p.pronamespace = 'public'::regnamespace and p.proname like 'leat\\_%'
  order by 1`;
