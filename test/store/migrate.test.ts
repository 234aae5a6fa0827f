import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { assetFolder, folderAt } from '../../src/core/asset.ts';
import { StartRefused } from '../../src/core/errors.ts';
import { migrate, readMigrations, type Migration } from '../../src/store/migrate.ts';
import { testKeyOf } from '../../src/store/rows/attempts.ts';
import { migrationDriver } from '../../src/store/sqlite/schema.ts';

const first = 'create table a (x integer) strict';
const second = 'create table b (x integer) strict; insert into b values (1), (2)';

describe('migrate', () => {
  test('migrate: applies missing migrations in order, once', async (t) => {
    const { driver, connection } = openDatabase(t);
    const two = migrationsOf(t, { '0001_a.sql': first, '0002_b.sql': second });
    assert.deepEqual(await migrate(driver, two.slice(0, 1)), ['0001_a']);
    assert.deepEqual(await migrate(driver, two), ['0002_b']);
    assert.deepEqual(await migrate(driver, two), []);
    assert.deepEqual(tables(connection), ['a', 'b', 'leat_migrations', 'leat_schema']);
    assert.equal(rows(connection, 'b'), 2);
  });

  test('migrate: records each migration with the SHA-256 of its text', async (t) => {
    const { driver, connection } = openDatabase(t);
    await migrate(driver, migrationsOf(t, { '0001_a.sql': 'select 1' }));
    const row = connection.prepare('select name, checksum from leat_migrations').get();
    // echo -n 'select 1' | sha256sum
    const checksum = '822ae07d4783158bc1912bb623e5107cc9002d519e1143a9c200ed6ee18b6d0f';
    assert.deepEqual({ ...row }, { name: '0001_a', checksum });
  });

  test('migrate: a failed migration changes nothing; those before it stay', async (t) => {
    const { driver, connection } = openDatabase(t);
    const broken = `${second}; insert into nowhere values (1)`;
    const set = migrationsOf(t, { '0001_a.sql': first, '0002_b.sql': broken });
    await assert.rejects(migrate(driver, set), {
      name: 'StartRefused',
      message: 'LEAT_STORE: a.db cannot be migrated (0002_b): no such table: nowhere',
    });
    assert.deepEqual(tables(connection), ['a', 'leat_migrations', 'leat_schema']);
    const repaired = migrationsOf(t, { '0001_a.sql': first, '0002_b.sql': second });
    assert.deepEqual(await migrate(driver, repaired), ['0002_b']);
  });

  test('migrate: does not touch a database of a newer version', async (t) => {
    const { driver, connection } = openDatabase(t);
    const two = migrationsOf(t, { '0001_a.sql': first, '0002_b.sql': second });
    await migrate(driver, two);
    await assert.rejects(migrate(driver, two.slice(0, 1)), {
      name: 'StartRefused',
      message:
        'LEAT_STORE: a.db was changed by a newer version of Leat (0002_b): run that version, or restore a backup from before it',
    });
    assert.equal(rows(connection, 'b'), 2);
  });

  test('migrate: uses a database of a newer version where that version allows it', async (t) => {
    const { driver, connection } = openDatabase(t);
    const three = migrationsOf(t, {
      '0001_a.sql': first,
      '0002_b.sql': second,
      '0003_c.sql': '-- oldest that may run: 0002\ncreate table c (x integer) strict',
    });
    await migrate(driver, three);
    assert.deepEqual(stateOf(connection), { version: 3, oldest_that_may_run: 2 });
    assert.deepEqual(await migrate(driver, three.slice(0, 2)), []);
    assert.deepEqual(stateOf(connection), { version: 3, oldest_that_may_run: 2 });
    await assert.rejects(migrate(driver, three.slice(0, 1)), {
      message:
        'LEAT_STORE: a.db was changed by a newer version of Leat (0002_b): run that version, or restore a backup from before it',
    });
  });

  test('migrate: a later migration does not allow programs that an earlier one excludes', async (t) => {
    const { driver, connection } = openDatabase(t);
    const three = migrationsOf(t, {
      '0001_a.sql': first,
      '0002_b.sql': second,
      '0003_c.sql': '-- oldest that may run: 0001\nselect 1',
    });
    await migrate(driver, three);
    assert.deepEqual(stateOf(connection), { version: 3, oldest_that_may_run: 2 });
  });

  test('migrate: writes the state to a database from before it existed', async (t) => {
    const { driver, connection } = openDatabase(t);
    const two = migrationsOf(t, { '0001_a.sql': first, '0002_b.sql': second });
    await migrate(driver, two);
    connection.exec('drop table leat_schema');
    assert.deepEqual(await migrate(driver, two), []);
    assert.deepEqual(stateOf(connection), { version: 2, oldest_that_may_run: 2 });
  });

  test('migrate: a state that does not know the last migration allows no program', async (t) => {
    const { driver, connection } = openDatabase(t);
    const one = migrationsOf(t, { '0001_a.sql': first });
    await migrate(driver, one);
    connection.exec("insert into leat_migrations values ('0002_b', 'unknown')");
    await assert.rejects(migrate(driver, one), StartRefused);
  });

  test('migrate: a migration that was changed after it was applied refuses the start', async (t) => {
    const { driver, connection } = openDatabase(t);
    await migrate(driver, migrationsOf(t, { '0001_a.sql': first }));
    const changed = migrationsOf(t, { '0001_a.sql': `${first} `, '0002_b.sql': second });
    await assert.rejects(migrate(driver, changed), StartRefused);
    const renamed = migrationsOf(t, { '0001_c.sql': first, '0002_b.sql': second });
    await assert.rejects(migrate(driver, renamed), {
      message:
        "LEAT_STORE: a.db was made by another edition of Leat (its 0001_a is not this one's 0001_c): run the edition that made it",
    });
    assert.deepEqual(
      tables(connection),
      ['a', 'leat_migrations', 'leat_schema'],
      'nothing was applied',
    );
  });
});

describe('readMigrations', () => {
  test('readMigrations: reads a folder in the order of the numbers', (t) => {
    const files: Record<string, string> = {};
    for (let number = 12; number >= 1; number--) {
      files[`${String(number).padStart(4, '0')}_m.sql`] = `select ${number}`;
    }
    const names = migrationsOf(t, files).map(({ name, sql }) => `${name}: ${sql}`);
    assert.equal(names.length, 12);
    assert.equal(names[0], '0001_m: select 1');
    assert.equal(names[11], '0012_m: select 12');
  });

  const wrong: Record<string, string[]> = {
    'a gap': ['0001_a.sql', '0003_c.sql'],
    'a start above 1': ['0002_b.sql'],
    'a number used twice': ['0001_a.sql', '0001_b.sql'],
    'another kind of file': ['0001_a.sql', '0002_b.sql.orig'],
    'a name without a number': ['0001_a.sql', 'b.sql'],
  };
  for (const [what, names] of Object.entries(wrong)) {
    test(`readMigrations: refuses ${what}`, (t) => {
      const files = Object.fromEntries(names.map((name) => [name, 'select 1']));
      assert.throws(() => migrationsOf(t, files), StartRefused);
    });
  }

  for (const oldest of ['0002', '0000']) {
    test(`readMigrations: refuses ${oldest} as the oldest that may run on the first`, (t) => {
      const sql = `-- oldest that may run: ${oldest}\nselect 1`;
      assert.throws(() => migrationsOf(t, { '0001_a.sql': sql }), StartRefused);
    });
  }

  for (const engine of ['sqlite', 'postgres']) {
    test(`readMigrations: the migrations for ${engine} have every number once`, () => {
      const own = readMigrations(assetFolder(`store/${engine}/migrations/`));
      const names = own.map((migration) => migration.name);
      assert.equal(names[0], '0001_log');
      assert.ok(names.length >= 3);
    });
  }

  test('migrations: deliveries of every kind survive the migration that creates their table again', async (t) => {
    const { driver, connection } = openDatabase(t);
    const own = readMigrations(assetFolder('store/sqlite/migrations/'));
    const before = own.filter(({ name }) => name < '0007');
    await migrate(driver, before);
    const add = (kind: string, state: string, values: string): void =>
      connection.exec(`
        insert into deliveries (tenant, stream, event_id, type, time, kind, state, attempt, offset,
          due_at, failed_at, body, trace)
        values (1, 'est_a', 'evt_' || '${kind}${state}', 'a.b', 5, '${kind}', '${state}', 2, ${values})`);
    add('first', 'retrying', '7, 9, null, null, null');
    add('first', 'parked', '8, 9, null, null, null');
    add('first', 'failed', "9, null, 4, 'pruned', 'trace'");
    add('redelivery', 'retrying', '10, 9, 4, null, null');
    add('test', 'failed', "null, null, 4, 'test', null");
    const read = () => connection.prepare('select * from deliveries order by event_id').all();
    const indexes = () =>
      connection.prepare("select name from sqlite_schema where tbl_name = 'deliveries'").all();
    const kept = read();
    const indexesBefore = indexes();
    assert.equal(kept.length, 5);
    await migrate(
      driver,
      own.filter(({ name }) => name < '0008'),
    );
    assert.deepEqual(read(), kept);
    const names = indexes().map(({ name }) => name);
    assert.ok(indexesBefore.every(({ name }) => names.includes(name)));
    add('replay', 'retrying', '11, 9, null, null, null');
    assert.throws(() => add('replay', 'parked', '11, null, null, null, null'), /CHECK constraint/);
    assert.throws(() => add('replays', 'parked', '11, 9, null, null, null'), /CHECK constraint/);
  });

  test('migrations: bodies of pruned events and the history move to their new tables', async (t) => {
    const { driver, connection } = openDatabase(t);
    const own = readMigrations(assetFolder('store/sqlite/migrations/'));
    await migrate(
      driver,
      own.filter(({ name }) => name < '0009'),
    );
    for (const stream of ['est_a', 'est_b']) {
      connection.exec(`
        insert into deliveries (tenant, stream, event_id, type, time, kind, state, attempt, offset,
          failed_at, body, trace)
        values (1, '${stream}', 'evt_pruned', 'a.b', 5, 'first', 'failed', 2, 9, 4, 'pruned', 'trace'),
          (1, '${stream}', 'evt_test', 'a.b', 5, 'test', 'failed', 2, null, 4, 'test', null)`);
    }
    connection.exec(`
      insert into attempts (stream_key, offset, event_id, at, duration_ms, outcome)
      values (1, 9, null, 3, 1.5, 2), (1, null, 'evt_test', 4, 1.5, 2)`);
    await migrate(driver, own);
    const all = (sql: string) =>
      connection
        .prepare(sql)
        .all()
        .map((row) => ({ ...row }));
    assert.deepEqual(all('select * from kept_events'), [
      { tenant: 1, offset: 9, id: 'evt_pruned', body: 'pruned', trace: 'trace' },
    ]);
    assert.deepEqual(all('select distinct event_id, body from deliveries order by 1'), [
      { event_id: 'evt_pruned', body: null },
      { event_id: 'evt_test', body: 'test' },
    ]);
    assert.deepEqual(all('select rowid, event_key, at from attempts order by rowid'), [
      { rowid: 1, event_key: 9, at: 3 },
      { rowid: 2, event_key: testKeyOf('evt_test'), at: 4 },
    ]);
  });

  test('migrations: counters of failures stay true, also for statements of the version before', async (t) => {
    const { driver, connection } = openDatabase(t);
    const own = readMigrations(assetFolder('store/sqlite/migrations/'));
    const write = (id: string, state: string, code: string): void =>
      connection.exec(`
        insert into deliveries (tenant, stream, event_id, type, time, kind, state, attempt, due_at,
          failed_at, error_code)
        values (1, 'est_a', '${id}', 'a.b', 5, 'first', '${state}', 2,
          iif('${state}' = 'failed', null, 9), iif('${state}' = 'failed', 4, null), '${code}')
        on conflict do update set state = excluded.state, due_at = excluded.due_at,
          failed_at = excluded.failed_at, error_code = excluded.error_code`);
    const counters = () =>
      connection
        .prepare('select error_code, count from failure_groups order by error_code')
        .all()
        .map((row) => ({ ...row }));
    await migrate(
      driver,
      own.filter(({ name }) => name < '0036'),
    );
    write('evt_1', 'failed', 'http_500');
    write('evt_2', 'retrying', 'timeout');
    await migrate(driver, own);
    write('evt_2', 'failed', 'timeout');
    write('evt_3', 'failed', 'http_500');
    write('evt_4', 'failed', 'dns');
    assert.deepEqual(counters(), [
      { error_code: 'dns', count: 1 },
      { error_code: 'http_500', count: 2 },
      { error_code: 'timeout', count: 1 },
    ]);
    write('evt_1', 'failed', 'timeout');
    write('evt_4', 'failed', 'tls');
    connection.exec("delete from deliveries where event_id = 'evt_3'");
    assert.deepEqual(counters(), [
      { error_code: 'timeout', count: 2 },
      { error_code: 'tls', count: 1 },
    ]);
  });
});

function openDatabase(t: TestContext) {
  const connection = new DatabaseSync(':memory:');
  t.after(() => connection.close());
  return { connection, driver: migrationDriver(connection, 'a.db') };
}

function migrationsOf(t: TestContext, files: Readonly<Record<string, string>>): Migration[] {
  const folder = mkdtempSync(join(tmpdir(), 'leat-migrations-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, sql] of Object.entries(files)) writeFileSync(join(folder, name), sql);
  return readMigrations(folderAt(pathToFileURL(`${folder}/`)));
}

function tables(connection: DatabaseSync): unknown[] {
  const statement = connection.prepare(
    "select name from sqlite_schema where type = 'table' order by name",
  );
  return statement.all().map((row) => row['name']);
}

function stateOf(connection: DatabaseSync): object {
  return { ...connection.prepare('select version, oldest_that_may_run from leat_schema').get() };
}

function rows(connection: DatabaseSync, table: string): unknown {
  return connection.prepare(`select count(*) as n from ${table}`).get()?.['n'];
}
