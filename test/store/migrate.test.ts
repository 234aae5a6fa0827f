import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type AssetFolder, folderAt } from '../../src/core/asset.ts';
import { StartRefused } from '../../src/core/errors.ts';
import { migrate, type Migration, migrationsOf, readMigrations } from '../../src/store/migrate.ts';
import { migrationDriver } from '../../src/store/engine/sqlite/schema.ts';

const first = 'create table a (x integer) strict';
const second = 'create table b (x integer) strict; insert into b values (1), (2)';

describe('migrate', () => {
  test('migrate: applies missing migrations in order, once', async (t) => {
    const { driver, connection } = openDatabase(t);
    const two = madeMigrations(t, { '0001_a.sql': first, '0002_b.sql': second });
    assert.deepEqual(await migrate(driver, two.slice(0, 1)), ['0001_a']);
    assert.deepEqual(await migrate(driver, two), ['0002_b']);
    assert.deepEqual(await migrate(driver, two), []);
    assert.deepEqual(tables(connection), ['a', 'b', 'leat_migrations', 'leat_schema']);
    assert.equal(rows(connection, 'b'), 2);
  });

  test('migrate: records each migration with the SHA-256 of its text', async (t) => {
    const { driver, connection } = openDatabase(t);
    await migrate(driver, madeMigrations(t, { '0001_a.sql': 'select 1' }));
    const row = connection.prepare('select name, checksum from leat_migrations').get();
    // echo -n 'select 1' | sha256sum
    const checksum = '822ae07d4783158bc1912bb623e5107cc9002d519e1143a9c200ed6ee18b6d0f';
    assert.deepEqual({ ...row }, { name: '0001_a', checksum });
  });

  test('migrate: a failed migration changes nothing; those before it stay', async (t) => {
    const { driver, connection } = openDatabase(t);
    const broken = `${second}; insert into nowhere values (1)`;
    const set = madeMigrations(t, { '0001_a.sql': first, '0002_b.sql': broken });
    await assert.rejects(migrate(driver, set), {
      name: 'StartRefused',
      message: 'LEAT_STORE: a.db cannot be migrated (0002_b): no such table: nowhere',
    });
    assert.deepEqual(tables(connection), ['a', 'leat_migrations', 'leat_schema']);
    const repaired = madeMigrations(t, { '0001_a.sql': first, '0002_b.sql': second });
    assert.deepEqual(await migrate(driver, repaired), ['0002_b']);
  });

  test('migrate: does not touch a database of a newer version', async (t) => {
    const { driver, connection } = openDatabase(t);
    const two = madeMigrations(t, { '0001_a.sql': first, '0002_b.sql': second });
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
    const three = madeMigrations(t, {
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
    const three = madeMigrations(t, {
      '0001_a.sql': first,
      '0002_b.sql': second,
      '0003_c.sql': '-- oldest that may run: 0001\nselect 1',
    });
    await migrate(driver, three);
    assert.deepEqual(stateOf(connection), { version: 3, oldest_that_may_run: 2 });
  });

  test('migrate: a state that does not know the last migration allows no program', async (t) => {
    const { driver, connection } = openDatabase(t);
    const one = madeMigrations(t, { '0001_a.sql': first });
    await migrate(driver, one);
    connection.exec("insert into leat_migrations values ('0002_b', 'unknown')");
    await assert.rejects(migrate(driver, one), StartRefused);
  });

  test('migrate: a migration that was changed after it was applied refuses the start', async (t) => {
    const { driver, connection } = openDatabase(t);
    await migrate(driver, madeMigrations(t, { '0001_a.sql': first }));
    const changed = madeMigrations(t, { '0001_a.sql': `${first} `, '0002_b.sql': second });
    await assert.rejects(migrate(driver, changed), StartRefused);
    const renamed = madeMigrations(t, { '0001_c.sql': first, '0002_b.sql': second });
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

/** What a database of the migrations before the baseline has recorded. */
const former = { last: { name: '0002_last', checksum: 'of the last' }, check: () => undefined };
const baseline = {
  '0002_baseline.sql': first,
  '0003_b.sql': `-- oldest that may run: 0002\n${second}`,
};

describe('migrate: the schema from before the baseline', () => {
  test('a complete one is adopted, once: its rows become that of the baseline', async (t) => {
    const { driver, connection } = openFormer(t, '0001_first', '0002_last');
    const own = madeMigrations(t, baseline);
    assert.deepEqual(await migrate(driver, own.slice(0, 1), former), []);
    assert.deepEqual(recorded(connection), own.slice(0, 1).map(nameAndChecksum));
    assert.deepEqual(stateOf(connection), { version: 2, oldest_that_may_run: 2 });
    assert.deepEqual(await migrate(driver, own, former), ['0003_b']);
    assert.deepEqual(await migrate(driver, own, former), []);
    assert.deepEqual(stateOf(connection), { version: 3, oldest_that_may_run: 2 });
    assert.equal(rows(connection, 'a'), 1);
  });

  test('the migrations after the baseline are applied in the same start', async (t) => {
    const { driver, connection } = openFormer(t, '0001_first', '0002_last');
    assert.deepEqual(await migrate(driver, madeMigrations(t, baseline), former), ['0003_b']);
    assert.equal(rows(connection, 'b'), 2);
  });

  test('one that another process has adopted meanwhile stays as that one left it', async (t) => {
    const { driver, connection } = openFormer(t, '0001_first', '0002_last');
    const own = madeMigrations(t, baseline);
    const check = async (): Promise<void> => void (await migrate(driver, own, former));
    assert.deepEqual(await migrate(driver, own, { ...former, check }), []);
    assert.deepEqual(recorded(connection), own.map(nameAndChecksum));
  });

  test('one that the check refuses is not changed', async (t) => {
    const { driver } = openFormer(t, '0001_first', '0002_last');
    const before = await driver.applied();
    const check = (): void => {
      throw new StartRefused('another key');
    };
    const refused = migrate(driver, madeMigrations(t, baseline), { ...former, check });
    await assert.rejects(refused, { name: 'StartRefused', message: 'another key' });
    assert.deepEqual(await driver.applied(), before);
  });

  test('one without the last migration is refused, with the commit that migrates it', async (t) => {
    for (const names of [['0001_first'], ['0001_first', '0002_other']]) {
      const { driver } = openFormer(t, ...names);
      const before = await driver.applied();
      await assert.rejects(migrate(driver, madeMigrations(t, baseline), former), {
        name: 'StartRefused',
        message:
          'LEAT_STORE: a.db was last used by an older version of Leat: start it once with commit a060e904, which migrates it (git checkout a060e904 && npm ci && npm start), stop that and start this version',
      });
      assert.deepEqual(await driver.applied(), before);
    }
  });
});

describe('readMigrations', () => {
  test('readMigrations: numbers begin with that of the first file', (t) => {
    const own = madeMigrations(t, { '0049_a.sql': first, '0050_b.sql': second });
    assert.deepEqual(
      own.map(({ number, oldestThatMayRun }) => [number, oldestThatMayRun]),
      [
        [49, 49],
        [50, 50],
      ],
    );
  });

  test('readMigrations: reads a folder in the order of the numbers', (t) => {
    const files: Record<string, string> = {};
    for (let number = 12; number >= 1; number--) {
      files[`${String(number).padStart(4, '0')}_m.sql`] = `select ${number}`;
    }
    const names = madeMigrations(t, files).map(({ name, sql }) => `${name}: ${sql}`);
    assert.equal(names.length, 12);
    assert.equal(names[0], '0001_m: select 1');
    assert.equal(names[11], '0012_m: select 12');
  });

  const wrong: Record<string, string[]> = {
    'a number used twice': ['0001_a.sql', '0001_b.sql'],
    'another kind of file': ['0001_a.sql', '0002_b.sql.orig'],
    'a name without a number': ['0001_a.sql', 'b.sql'],
  };
  for (const [what, names] of Object.entries(wrong)) {
    test(`readMigrations: refuses ${what}`, (t) => {
      const files = Object.fromEntries(names.map((name) => [name, 'select 1']));
      assert.throws(() => madeMigrations(t, files), StartRefused);
    });
  }

  test('readMigrations: refuses a later migration as the oldest that may run', (t) => {
    const sql = '-- oldest that may run: 0002\nselect 1';
    assert.throws(() => madeMigrations(t, { '0001_a.sql': sql }), StartRefused);
  });

  test('readMigrations: the oldest that may run on a migration of both engines may be older than the baseline of one', async (t) => {
    const { driver, connection } = openDatabase(t);
    const sql = '-- oldest that may run: 0047\nselect 1';
    await migrate(driver, madeMigrations(t, { '0049_a.sql': first, '0050_b.sql': sql }));
    assert.deepEqual(stateOf(connection), { version: 50, oldest_that_may_run: 49 });
  });

  test('readMigrations: merges folders by number, of which some may be missing', (t) => {
    const both = folderOf(t, { '0050_c.sql': first, '0052_e.sql': first });
    const own = folderOf(t, { '0047_a.sql': first, '0051_d.sql': first });
    assert.deepEqual(
      readMigrations([both, own]).map(({ number }) => number),
      [47, 50, 51, 52],
    );
    const again = folderOf(t, { '0052_other.sql': first });
    assert.throws(() => readMigrations([both, again]), StartRefused);
  });

  for (const engine of ['sqlite', 'postgres'] as const) {
    test(`readMigrations: the migrations for ${engine} have every number once`, () => {
      const own = migrationsOf(engine);
      const names = own.map((migration) => migration.name);
      assert.match(names[0] ?? '', /^00\d\d_baseline$/);
    });
  }
});

function openDatabase(t: TestContext) {
  const connection = new DatabaseSync(':memory:');
  t.after(() => connection.close());
  return { connection, driver: migrationDriver(connection, 'a.db') };
}

/** Opens a database with one table and the rows of migrations before the baseline. */
function openFormer(t: TestContext, ...names: readonly string[]) {
  const { connection, driver } = openDatabase(t);
  connection.exec(`${first}; insert into a values (1)`);
  connection.exec('create table leat_migrations (name text primary key, checksum text not null)');
  const insert = connection.prepare('insert into leat_migrations values (?, ?)');
  for (const name of names) insert.run(name, `of the ${name.slice(5)}`);
  return { connection, driver };
}

function nameAndChecksum({ name, checksum }: Migration): object {
  return { name, checksum };
}

function recorded(connection: DatabaseSync): object[] {
  const statement = connection.prepare('select name, checksum from leat_migrations order by name');
  return statement.all().map((row) => ({ ...row }));
}

function madeMigrations(t: TestContext, files: Readonly<Record<string, string>>): Migration[] {
  return readMigrations([folderOf(t, files)]);
}

function folderOf(t: TestContext, files: Readonly<Record<string, string>>): AssetFolder {
  const folder = mkdtempSync(join(tmpdir(), 'leat-migrations-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, sql] of Object.entries(files)) writeFileSync(join(folder, name), sql);
  return folderAt(pathToFileURL(`${folder}/`));
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
