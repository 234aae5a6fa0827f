import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { StartRefused, StoreEventIdInUse } from '../../src/core/errors.ts';
import { storeLocation } from '../../src/core/value.ts';
import { type MigratedStore, migrateStore } from '../../src/store/migrate-store/migrate-store.ts';
import {
  createMigrateProgress,
  type MigrateProgressView,
} from '../../src/store/migrate-store/progress.ts';
import { migratedTables } from '../../src/store/migrate-store/table.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createDatabase } from '../../src/store/engine/postgres/database.ts';
import { createHosts } from '../../src/store/engine/postgres/hosts.ts';
import {
  openMigrationTarget,
  refuseHalfMigrated,
} from '../../src/store/engine/postgres/migrate-store.ts';
import { createSeal } from '../../src/store/seal.ts';
import { openMigrationSource } from '../../src/store/engine/sqlite/migrate-store.ts';
import { formerMigration } from '../../src/store/engine/sqlite/schema.ts';
import {
  createTempStore,
  runLeat,
  secretKey as programKey,
  spawnLeat,
  startLeat,
} from '../helpers/leat.ts';
import { rotate } from '../helpers/secrets.ts';
import { query, sharedPostgres } from '../helpers/postgres.ts';
import { newEntry } from './contract/audit-log.ts';
import {
  addTenant,
  blocked,
  claimDue,
  delivered,
  dueRules,
  failed,
  failuresOf,
  newEvent,
  parked,
  raiseOf,
  retry,
  fixtureOf,
  start,
} from './contract/fixture.ts';

const secretKey = Buffer.alloc(32, 7);
const silent: MigrateProgressView = { show: () => {}, end: () => {} };
const keptEntry = newEntry(1, { description: 'kept' });
/** What is hard to carry: quotes, braces, words of array literals, characters of many bytes. */
const hardTexts = ['null', '', '{"a":"\\"b\\\\"}', "o'clock, {x,y}", 'Zoë 🦊\n\t', '\\x00', '"'];

describe('a migration to PostgreSQL', { concurrency: 2 }, () => {
  test(
    'migrate-store: copies every table, and the store works on PostgreSQL',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      const moved = await run(databases);
      assert.equal(moved.wasComplete, false);
      for (const table of migratedTables) {
        const rows = moved.tables.find(({ name }) => name === table.name)?.rows ?? 0;
        assert.ok(rows > 0, `${table.name} has rows to carry`);
        assert.equal(await countOf(databases.url, table.name), rows, table.name);
      }
      assert.equal(await countOf(databases.url, 'log_days'), 5, 'the days of the log are listed');
      const before = await withSource(databases, seenOf);
      const store = await openTarget(t, databases);
      assert.deepEqual(await seenOf(store), before);
      await assertWorks(store);
    },
  );

  test(
    'migrate-store: the content of chosen ids is known, and both engines compute the same hash of it',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      const event = newEvent({ chosen: true, content: '0123456789abcdef'.repeat(2) });
      await withSource(databases, (store) => store.log.append(1, [event]));
      await run(databases);
      const store = await openTarget(t, databases);
      const [repeat] = await store.log.append(1, [event]);
      assert.equal(repeat?.repeated, true);
      const changed = { ...event, content: 'f'.repeat(32) };
      await assert.rejects(store.log.append(1, [changed]), StoreEventIdInUse);
    },
  );

  test(
    'migrate-store: an unfinished replay continues where it was',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      await run(databases);
      const store = await openTarget(t, databases);
      const fixture = fixtureOf(store, 1);
      const stream = await store.streams.get(1, 'est_kept');
      assert.ok(stream);
      const owned = await fixture.own(stream);
      const { rows: waiting } = await claimDue(fixture, owned);
      assert.deepEqual(
        waiting.map(({ kind }) => kind),
        ['first', 'first', 'replay'],
      );
      const outcomesOf = (rows: typeof waiting) =>
        rows.map(({ event, kind }) => delivered(event, { kind, hasRow: true }));
      await fixture.settle(owned, { outcomes: outcomesOf(waiting) });
      const request = { ...raiseOf(owned), replay: 'rpl_kept', take: 9, waitingMax: 9 };
      assert.equal((await store.replays.materialize(request)).materialized, 3);
      const { rows } = await claimDue(fixture, owned);
      const offsets = rows.map(({ event }) => event.offset);
      assert.deepEqual(offsets, [3, 5, 6]);
      await fixture.settle(owned, { outcomes: outcomesOf(rows) });
      assert.equal((await store.replays.materialize(request)).result, 'over');
      const over = await store.replays.get(1, stream.id, 'rpl_kept');
      assert.deepEqual([over?.status, over?.matched, over?.sent, over?.failed], ['done', 4, 4, 0]);
    },
  );

  test(
    'migrate-store: an ordered stream goes on where it was, key by key',
    { tags: ['long'] },
    async (t) => {
      const folder = folderFor(t);
      const file = join(folder, 'leat.db');
      const source = await openSource(file);
      const filling = fixtureOf(source, (await addTenant(source, 'main')).id);
      const delivery = { orderBy: '/data/user', onFailure: 'block' } as const;
      const stream = await filling.addStream({ delivery });
      const former = await filling.own(stream);
      const events = await filling.publish(...Array.from({ length: 6 }, () => 'user.created'));
      const [one, two, three, four] = events;
      assert.ok(one && two && three && four);
      const [a, b] = [{ orderKey: 'a' }, { orderKey: 'b' }];
      const outcomes = [blocked(one, a), failed(two, b), blocked(three, a), blocked(four, b)];
      await filling.settle(former, { cursor: 4, settledAbove: [6], outcomes });
      await source.close();

      const databases = { folder, file, url: await databaseFor(t) };
      await run(databases);
      const fixture = fixtureOf(await openTarget(t, databases), 1);
      const owned = await fixture.own(stream);
      assert.deepEqual([owned.cursor, owned.takenAbove], [4, [6]]);
      assert.deepEqual(
        owned.keys.toSorted((left, right) => (left.key < right.key ? -1 : 1)),
        [
          { key: 'a', blocked: 2, held: false, failed: 0 },
          { key: 'b', blocked: 1, held: false, failed: 1 },
        ],
      );
      const request = { tenant: 1, stream: stream.id, epoch: owned.epoch, take: 9, ...dueRules };
      const [claimed] = await fixture.store.deliveries.claimDue([{ ...request, keys: ['a'] }]);
      assert.deepEqual(
        claimed?.rows.map(({ event, orderKey }) => [event, orderKey]),
        [[one, 'a']],
      );
    },
  );

  // Rows of attempts_kept are carried as attempts.
  test('migrate-store: copies every column except those about a process', async (t) => {
    const file = join(folderFor(t), 'leat.db');
    const store = await openSource(file);
    await store.close();
    const db = new DatabaseSync(file);
    const columns = db
      .prepare(
        `select t.name || '.' || c.name as name from sqlite_schema t, pragma_table_info(t.name) c
        where t.type = 'table' and t.name not in ('nodes', 'leat_migrations', 'leat_schema',
          'sqlite_sequence', 'leaving_tenants', 'leaving_runs', 'attempts_kept', 'failure_groups',
          'console_sessions', 'console_codes')`,
      )
      .all();
    db.close();
    const carried = new Set(
      migratedTables.flatMap((table) => table.columns.map(({ name }) => `${table.name}.${name}`)),
    );
    assert.deepEqual(
      columns.map(({ name }) => String(name)).filter((name) => !carried.has(name)),
      ['runs.owner', 'runs.claim', 'runs.unseen'],
    );
  });

  // Otherwise each page would read and sort what is left of the table.
  test(
    'migrate-store: reads and compares every table in the order of an index of it',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      await run(databases);
      const found = await query<{ name: string; columns: string[] }>(
        databases.url,
        `select i.indrelid::regclass::text as name, array(
          select a.attname::text from unnest(i.indkey) with ordinality as k(number, at)
          join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
          order by k.at) as columns
        from pg_index i where i.indpred is null`,
      );
      const db = new DatabaseSync(databases.file);
      const inSqlite = db.prepare('select name from pragma_table_info(?) where pk > 0 order by pk');
      for (const table of migratedTables) {
        // The union of two tables in SQLite, and what PostgreSQL finds by stream only.
        if (table.name === 'attempts' || table.name === 'runs') continue;
        const key = table.columns.slice(0, table.keyColumns).map(({ name }) => name);
        const own = inSqlite.all(table.name).map(({ name }) => String(name));
        const keys = found.filter(({ name }) => name === table.name).map(({ columns }) => columns);
        const begins = (columns: string[]) =>
          JSON.stringify(columns.slice(0, key.length)) === JSON.stringify(key);
        assert.ok(
          keys.some(begins),
          `${table.name} in PostgreSQL: ${key.join()} of ${keys.join('; ')}`,
        );
        if (own.length > 1) assert.deepEqual(key, own, `${table.name} in SQLite`);
      }
      db.close();
    },
  );

  test(
    'migrate-store: leaves the source as it was, and no file next to it',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      const before = checksumOf(databases.file);
      await run(databases);
      assert.equal(checksumOf(databases.file), before);
      assert.equal(existsSync(`${databases.file}-wal`), false);
      assert.equal(existsSync(`${databases.file}-shm`), false);
    },
  );

  test(
    'migrate-store: reads the WAL that a crash left, and does not change it',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      const store = await openSource(databases.file);
      const fixture = fixtureOf(store, 1);
      await fixture.publish('user.created', 'user.created');
      const head = await store.log.head(1);
      const file = join(databases.folder, 'crashed.db');
      for (const end of ['', '-wal']) copyFileSync(`${databases.file}${end}`, `${file}${end}`);
      await store.close();
      const before = ['', '-wal'].map((end) => checksumOf(`${file}${end}`));
      await run({ ...databases, file });
      assert.deepEqual(
        ['', '-wal'].map((end) => checksumOf(`${file}${end}`)),
        before,
      );
      const target = await openTarget(t, databases);
      assert.equal(await target.log.head(1), head);
    },
  );

  test(
    'migrate-store: leaves out the events of an unfinished append above the head',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      const db = new DatabaseSync(databases.file);
      db.exec(`
      insert into events (tenant, offset, id, type, time, published_at, body)
      select id, head + 1, 'evt_unended', 'user.created', 0, 0, '{}' from tenants where id = 1`);
      db.close();
      const moved = await run(databases);
      const events = moved.tables.find(({ name }) => name === 'events')?.rows;
      assert.equal(await countOf(databases.url, 'events'), events);
      const target = await openTarget(t, databases);
      const head = await target.log.head(1);
      const [next] = await target.log.append(1, [newEvent()]);
      assert.equal(next?.offset, head + 1);
    },
  );

  test(
    'migrate-store: continues where it was interrupted, after any batch',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      const steps: string[] = [];
      let carried = 0;
      while (!steps.includes('comparing')) {
        const show: MigrateProgressView['show'] = ({ step, done }) => {
          steps.push(step);
          assert.ok(step === 'comparing' || done > carried, 'no row is carried again');
          carried = done;
          throw new Error('cut off');
        };
        await assert.rejects(run(databases, { show, end: () => {} }), /cut off/);
      }
      assert.ok(steps.length > migratedTables.length);
      const moved = await run(databases);
      assert.equal(moved.copied, 0);
      assert.equal((await run(databases)).wasComplete, true);
    },
  );

  test('migrate-store: no server starts until it is complete', { tags: ['long'] }, async (t) => {
    const databases = await filledDatabases(t);
    const db = createDatabase({ hosts: createHosts(databases.url, 'test'), connectionsMax: 1 });
    t.after(() => db.close());
    await refuseHalfMigrated(db, 'the database');
    await cutAtComparison(databases);
    await assert.rejects(refuseHalfMigrated(db, 'the database'), {
      name: 'StartRefused',
      message: /^LEAT_STORE: the database holds a store that has not come as a whole/,
    });
    await run(databases);
    await refuseHalfMigrated(db, 'the database');
  });

  for (const [table, inserted] of [
    ['events', `update events set body = body || ' ' where "offset" = 3`],
    ['attempts', 'delete from attempts where number = (select max(number) from attempts)'],
    ['streams', `update streams set destination = destination || '\\x00'::bytea`],
    [
      'users',
      `insert into users select 9, id, connection, email, username, password_hash,
      profile, created_at, updated_at from users limit 1`,
    ],
  ] as const) {
    test(`migrate-store: detects a difference in ${table}`, { tags: ['long'] }, async (t) => {
      const databases = await filledDatabases(t);
      await cutAtComparison(databases);
      await query(databases.url, inserted);
      for (let round = 0; round < 2; round += 1) {
        await assert.rejects(run(databases), {
          name: 'StartRefused',
          message: new RegExp(
            `^--to: ${table} in postgres://\\S+ is not what the source has, first`,
          ),
        });
      }
    });
  }
});

describe('a refused migration', { concurrency: 2 }, () => {
  test(
    'migrate-store: refuses a key that does not open the source',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      await assert.rejects(run(databases, silent, Buffer.alloc(32, 8)), {
        name: 'StartRefused',
        message:
          /^LEAT_SECRET_KEY: does not fit the secrets in \S+leat\.db, which key \w{12} seals: set/,
      });
      assert.deepEqual(await tablesOf(databases.url), []);
    },
  );

  test('migrate-store: refuses a key that does not open the target', async (t) => {
    const databases = await filledDatabases(t);
    const other = await openAt(databases.url, Buffer.alloc(32, 8));
    await other.close();
    await assert.rejects(run(databases), {
      message: /^LEAT_SECRET_KEY: does not fit the secrets in postgres:/,
    });
  });

  test(
    'migrate-store: a change of the secret key that is under way continues on the target',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      const keys = [Buffer.alloc(32, 8), secretKey];
      const source = await openWith(`sqlite:${databases.file}`, keys);
      const begun = await source.secrets.begin(source.secrets.keys()[0] ?? '');
      assert.ok('begun' in begun);
      await source.close();
      await assert.rejects(run(databases), /which key \w{12} seals: set that key/);
      const migrated = await migrateStore({
        ...migrationOf(databases),
        secretKeys: async () => keys,
      });
      assert.equal(migrated.wasComplete, false);
      await assert.rejects(openWith(databases.url, keys.slice(0, 1)), /still sealed with key/);

      const target = await openWith(databases.url, keys);
      const { secrets, streams } = target;
      assert.deepEqual(await secrets.state(), begun.begun.state);
      const { broken } = await rotate(secrets, begun.begun.state.key);
      // The signing keys of this store are not sealed.
      assert.ok(broken.every(({ table }) => table !== 'streams'));
      assert.ok(await streams.get(1, 'est_kept'));
      await target.close();
      const ended = await openWith(databases.url, keys.slice(0, 1));
      assert.ok(await ended.streams.get(1, 'est_kept'));
      await ended.close();
    },
  );

  test('migrate-store: refuses a target that is in use', { tags: ['long'] }, async (t) => {
    const databases = await filledDatabases(t);
    const other = await openAt(databases.url, secretKey);
    await addTenant(other, 'foreign');
    await other.close();
    await assert.rejects(run(databases), {
      name: 'StartRefused',
      message: /^--to: postgres:\S+ is the store of others already: name an empty database$/,
    });
    assert.equal(await countOf(databases.url, 'tenants'), 1);
  });

  test(
    'migrate-store: refuses a target with a part of another store',
    { tags: ['long'] },
    async (t) => {
      const [databases, other] = [await filledDatabases(t), await filledDatabases(t)];
      await cutAtComparison(databases);
      await assert.rejects(run({ ...other, url: databases.url }), {
        message: /^--to: \S+ holds a part of another store: end that move/,
      });
    },
  );

  for (const name of ['tenants', 'events']) {
    test(
      `migrate-store: refuses while another migration writes the same ${name}`,
      { tags: ['long'] },
      async (t) => {
        const databases = await filledDatabases(t);
        const table = migratedTables.find((moved) => moved.name === name);
        assert.ok(table);
        const source = openMigrationSource(databases.file);
        t.after(() => source.close());
        const rows = source.read(table, undefined, { rows: 100, characters: 1_000_000 });
        assert.ok(rows.length > 1);
        const deps = { seal: createSeal([secretKey], systemRandom), keyProof: source.keyCheck };
        const targets = [
          await openMigrationTarget(databases.url, deps),
          await openMigrationTarget(databases.url, deps),
        ];
        const ends = await Promise.allSettled(targets.map((target) => target.write(table, rows)));
        await Promise.all(targets.map((target) => target.close()));
        const [refused, ...more] = ends.filter((end) => end.status === 'rejected');
        assert.deepEqual(more, []);
        assert.ok(refused?.reason instanceof StartRefused);
        assert.match(refused.reason.message, /^--to: another move to postgres:\S+ is under way$/);
        assert.equal(await countOf(databases.url, name), rows.length);
      },
    );
  }

  test(
    'migrate-store: refuses while a server runs on the source',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      const running = await openSource(databases.file);
      t.after(() => running.close());
      await assert.rejects(run(databases), {
        name: 'StartRefused',
        message:
          /^--from: \S+leat\.db is in use by another process, stop that one and run this again$/,
      });
    },
  );

  test('migrate-store: refuses a missing file and one that is not a store', async (t) => {
    const databases = await filledDatabases(t);
    const missing = join(databases.folder, 'missing.db');
    await assert.rejects(run({ ...databases, file: missing }), {
      message: `--from: ${missing} does not exist`,
    });
    assert.equal(existsSync(missing), false);
    const strange = join(databases.folder, 'strange.db');
    new DatabaseSync(strange).exec('create table notes (text)');
    await assert.rejects(run({ ...databases, file: strange }), {
      message: `--from: ${strange} is not a store of Leat`,
    });
  });

  for (const [what, made, reason] of [
    [
      'an older',
      `update leat_migrations set name = '0046_reopen'`,
      /was last used by an older version of Leat: start it once with commit a060e904/,
    ],
    [
      'the former',
      `update leat_migrations
        set name = '${formerMigration.name}', checksum = '${formerMigration.checksum}'`,
      /was last used by an older version of Leat: start this one on it once, stop it and run/,
    ],
    [
      'a newer',
      `insert into leat_migrations values ('0999_future', '')`,
      /was changed by a newer version of Leat \(0999_future\): run that version/,
    ],
    [
      'another',
      `update leat_migrations set checksum = ''`,
      /was made by another edition of Leat \(its 0047_baseline is not this one's 0047_baseline\): run/,
    ],
  ] as const) {
    test(`migrate-store: refuses a source of ${what} version`, { tags: ['long'] }, async (t) => {
      const databases = await filledDatabases(t);
      change(databases.file, made);
      const before = checksumOf(databases.file);
      await assert.rejects(run(databases), ({ name, message }: Error) => {
        assert.equal(name, 'StartRefused');
        assert.ok(message.startsWith(`--from: ${databases.file} was `), message);
        assert.match(message, reason);
        return true;
      });
      assert.equal(checksumOf(databases.file), before);
      assert.deepEqual(await tablesOf(databases.url), []);
    });
  }

  test(
    'migrate-store: names table and key of a text that PostgreSQL cannot store',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      change(
        databases.file,
        `update users set profile = 'a' || char(0) || 'b' where id = 'user 3'`,
      );
      await assert.rejects(run(databases), {
        name: 'StartRefused',
        message: /^--from: users \(tenant 1, id "user 3"\) has U\+0000 in profile, which/,
      });
      change(databases.file, `update users set profile = '{}' where id = 'user 3'`);
      assert.equal((await run(databases)).wasComplete, false);
    },
  );

  test(
    'migrate-store: names table and key of a number that PostgreSQL cannot store',
    { tags: ['long'] },
    async (t) => {
      const databases = await filledDatabases(t);
      change(databases.file, `update clients set version = 3000000000 where id = 'client 2'`);
      await assert.rejects(run(databases), {
        name: 'StartRefused',
        message: /^--from: clients \(tenant 1, id "client 2"\) is refused by PostgreSQL: /,
      });
    },
  );
});

describe('leat migrate-store', () => {
  test(
    'leat migrate-store: moves the data of a server, after kill -9 too, and the next server serves it',
    { tags: ['long'] },
    async (t) => {
      const files = await createTempStore();
      t.after(() => files.remove());
      const url = await databaseFor(t);
      const words = ['migrate-store', '--from', `sqlite:${files.file}`, '--to', url];
      const env = { LEAT_SECRET_KEY: programKey.toString('base64') };

      const first = await startLeat(files);
      const made = await first.send('POST', '/api/v2/users', {
        email: 'ada@example.com',
        password: 'correct-horse-battery',
        connection: 'Username-Password-Authentication',
      });
      assert.equal(made.status, 201);
      const refused = await runLeat(words, env);
      assert.equal(refused.code, 1);
      assert.match(refused.output, /^--from: \S+ is in use by another process, stop that one/);
      assert.equal(await first.stop(), 0);

      fillLog(files.file, 30_000);
      const before = checksumOf(files.file);
      const { child, output } = spawnLeat(words, env);
      while (!/copying events/.test(output())) {
        await Promise.race([once(child.stderr ?? child, 'data'), once(child, 'close')]);
      }
      child.kill('SIGKILL');
      await once(child, 'close');

      const settings = { LEAT_STORE: url };
      const { code, output: text } = await runLeat(words, env);
      assert.equal(code, 0, text);
      assert.match(text, /copying events: [\d,]+ of [\d,]+ rows, \d+ s left/);
      assert.match(text, /events +30,00\d  [0-9a-f]{16}/);
      assert.match(text, /Next: set LEAT_STORE to the database, then leat start\./);
      assert.equal(checksumOf(files.file), before);
      const again = await runLeat(words, env);
      assert.equal(again.code, 0);
      assert.match(
        again.output,
        /^Nothing was done: this store came to \S+ before\. What the source took in since then is not there; it takes a move to another, empty database\.$/m,
      );
      assert.doesNotMatch(again.output, /Next:/);

      const second = await startLeat(files, settings);
      const found = await second.send('GET', '/api/v2/users-by-email?email=ada@example.com');
      assert.equal(found.status, 200);
      assert.equal(((await found.json()) as unknown[]).length, 1);
      assert.equal(await second.stop(), 0);
    },
  );

  test('leat migrate-store: finds the key next to the source, and creates none', async (t) => {
    const files = await createTempStore();
    t.after(() => files.remove());
    const words = ['migrate-store', '--from', `sqlite:${files.file}`, '--to', await databaseFor(t)];
    const store = await openAt(`sqlite:${files.file}`, secretKey);
    await store.close();
    const refused = await runLeat(words, {}, { cwd: files.folder });
    assert.equal(refused.code, 1);
    assert.match(refused.output, /^LEAT_SECRET_KEY: is not set and \S+ has no secret\.key/);
    assert.equal(existsSync(join(files.folder, 'secret.key')), false);
  });

  test('leat migrate-store: names the option that is wrong', async () => {
    const wrong = [
      [
        ['--from', 'leat.db', '--to', 'postgres://h/d'],
        /^--from: what it names is not sqlite:<path>/,
      ],
      [['--from', 'sqlite:a.db', '--to', 'sqlite:b.db'], /^--to: names no PostgreSQL database/],
      [['--from', 'postgres://h/d', '--to', 'postgres://h/d'], /^--from: names no SQLite file/],
    ] as const;
    const env = { LEAT_SECRET_KEY: programKey.toString('base64') };
    for (const [words, line] of wrong) {
      const { code, output } = await runLeat(['migrate-store', ...words], env);
      assert.equal(code, 1);
      assert.match(output, line);
    }
  });
});

describe('the progress of a migration', () => {
  const shown = (isTTY: boolean, columns?: number): string => {
    let text = '';
    let now = 0;
    const out = {
      isTTY,
      columns,
      write: (part: string | Uint8Array) => (text += String(part)) !== '',
    };
    const progress = createMigrateProgress(out, () => (now += 100));
    for (let done = 0; done <= 2000; done += 50) {
      progress.show({ step: 'copying', table: 'events', done, total: 2000 });
    }
    progress.end();
    return text;
  };

  test('progress: a bar on a terminal', () => {
    assert.match(shown(true), /\r#{15}\.{15} copying events: 1,000 of 2,000 rows, \d+ s left/);
    assert.ok(shown(true).endsWith('\r\u001b[K'));
  });

  test('progress: no wider than the terminal', () => {
    const widest = shown(true, 200);
    assert.equal(shown(true, 0), widest);
    const lines = shown(true, 60).split('\r').slice(1, -1);
    assert.equal(lines.length, 41);
    for (const line of lines) {
      assert.ok(line.endsWith('\u001b[K'));
      assert.ok(line.length - '\u001b[K'.length <= 59, line);
    }
    assert.match(lines.at(-1) ?? '', /^#{30} copying events: 2,000 of 2/);
  });

  test('progress: no estimate at the first point of a step', () => {
    let text = '';
    let now = 0;
    const out = {
      isTTY: false,
      write: (part: string | Uint8Array) => (text += String(part)) !== '',
    };
    const progress = createMigrateProgress(out, () => now);
    for (const [step, done] of [
      ['copying', 1000],
      ['copying', 2000],
      ['comparing', 1000],
      ['comparing', 1500],
    ] as const) {
      progress.show({ step, table: 'events', done, total: 2000 });
      now += 3000;
    }
    assert.deepEqual(text.trimEnd().split('\n'), [
      'copying events: 1,000 of 2,000 rows',
      'copying events: 2,000 of 2,000 rows, 0 s left',
      'comparing events: 1,000 of 2,000 rows',
      'comparing events: 1,500 of 2,000 rows, 3 s left',
    ]);
  });

  test('progress: a line for each tenth without a terminal', () => {
    const lines = shown(false).trimEnd().split('\n');
    assert.equal(lines.length, 11);
    assert.match(lines.at(-1) ?? '', /^copying events: 2,000 of 2,000 rows, 0 s left$/);
  });
});

interface Databases {
  readonly folder: string;
  readonly file: string;
  readonly url: string;
}

function run(
  databases: Databases,
  progress: MigrateProgressView = silent,
  key: Uint8Array = secretKey,
): Promise<MigratedStore> {
  return migrateStore({ ...migrationOf(databases), progress, secretKeys: async () => [key] });
}

function migrationOf({ file, url }: Databases) {
  return {
    from: { engine: 'sqlite', path: file, file },
    to: { engine: 'postgres', url },
    random: systemRandom,
    clock: systemClock,
    progress: silent,
  } as const;
}

/** Everything is copied and nothing is compared yet. */
async function cutAtComparison(databases: Databases): Promise<void> {
  const show: MigrateProgressView['show'] = ({ step }) => {
    if (step === 'comparing') throw new Error('cut off');
  };
  await assert.rejects(run(databases, { show, end: () => {} }), /cut off/);
}

/** A closed store with something in every table, and an empty database. */
async function filledDatabases(t: TestContext): Promise<Databases> {
  const folder = folderFor(t);
  const file = join(folder, 'leat.db');
  const store = await openSource(file);
  await fillStreams(store);
  await store.close();
  fillAccess(file);
  fillLog(file, 2500);
  return { folder, file, url: await databaseFor(t) };
}

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'leat-move-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A log whose beginning is pruned, a stream with every kind of delivery, one that was deleted. */
async function fillStreams(store: Store): Promise<void> {
  const tenant = await addTenant(store, 'main');
  await addTenant(store, 'second');
  const details = { targets: hardTexts.filter((text) => text !== ''), changed: hardTexts };
  await store.auditLog.add([{ entry: { ...keptEntry, details }, count: 3, ageMs: 0 }]);
  const fixture = fixtureOf(store, tenant.id);
  const former = await fixture.addStream();
  await fixture.publish('user.created');
  const formerOwned = await fixture.own(former);
  const [first] = await fixture.publish('user.created');
  assert.ok(first);
  await fixture.settle(formerOwned, { cursor: 2, outcomes: [delivered(first)] });
  await store.log.prune(tenant.id, { olderThanMs: -1, take: 1 });
  await store.streams.delete(tenant.id, former.id);

  const stream = await fixture.addStream({ name: 'kept', id: 'est_kept' });
  const events = await fixture.publish(...Array.from({ length: 5 }, () => 'user.created'));
  const owned = await fixture.own(stream);
  const [one, two, three, four] = events;
  assert.ok(one && two && three && four);
  await fixture.settle(owned, {
    cursor: four.offset,
    outcomes: [
      delivered(one, { agoMs: -1 }),
      failed(two, { agoMs: -2, error: hardTexts.join(' ') }),
      // Due long before the store is opened again.
      retry(three, { agoMs: -3, delayMs: 1 }),
      parked(four),
    ],
  });
  const dismissal = { tenant: tenant.id, id: 'dsm_kept', streams: undefined, createdBy: 'robot' };
  await fixture.store.dismissals.create({ ...dismissal, selection: {} });
  // One replay that is over, and one in its midst.
  const range = { tenant: tenant.id, stream: stream.id, from: 0, types: ['user.created', 'a.a'] };
  await store.replays.create({ ...range, id: 'rpl_over', to: 1 });
  await store.replays.create({ ...range, id: 'rpl_kept', to: four.offset });
  const request = { ...raiseOf(owned), cursor: four.offset, replay: 'rpl_kept', waitingMax: 9 };
  await store.replays.materialize({ ...request, take: 1 });
  await fixture.settle(owned, {
    cursor: four.offset,
    outcomes: [delivered(one, { kind: 'replay', hasRow: true })],
  });
}

/** Rows of the tables of access, by hand: texts that are hard to carry, nulls, all bytes. */
function fillAccess(file: string): void {
  const db = new DatabaseSync(file);
  db.exec(`insert into delivery_stats_sums values ('hour', ${start}, 1, 'est 1')`);
  const every = Uint8Array.from({ length: 256 }, (_, index) => index);
  for (const [index, text] of hardTexts.entries()) {
    const put = (table: string, ...values: (string | number | null | Uint8Array)[]): void => {
      const marks = values.map(() => '?').join(', ');
      db.prepare(`insert into ${table} values (${marks})`).run(...values);
    };
    const key = String(index);
    for (const table of ['signing_keys', 'webhook_keys']) {
      put(table, null, 1, `kid ${key}`, every, start, start, index === 0 ? start : null);
    }
    put('skipped_ranges', 1, 'est_1', index, index + 1, index === 0 ? null : 7, index % 2, start);
    put('delivery_stats', 1, `est ${key}`, 'day', start, text, 1, 2, 3, 4, '1:1', '');
    put('event_types', 1, `a.b${key}`, index + 1, start);
    put('past_selections', 1, 'est_1', index, index + 1, '["a.b"]', index === 0 ? null : text);
    const row = [`evt ${key}`, 'a.b', start, 'first', 4, start, text];
    const closed = index === 0 ? row.map(() => null) : row;
    put('dismissed_events', 1, index + 1, 'est_1', index === 0 ? null : `dsm ${key}`, ...closed);
    put(
      'redeliveries',
      1,
      `rdl ${key}`,
      text,
      'none',
      '',
      start,
      'robot',
      index === 0 ? start : null,
      7,
      text,
      index % 2,
    );
    put('redelivery_streams', 1, `rdl ${key}`, 'est_1', 3, 1, 1, 1, 2);
    put('dismissal_streams', 1, `dsm ${key}`, 'est_1', 6, 1, 2, 3, 1);
    put('kept_events', 2, index + 1, `kept ${key}`, text, index === 0 ? null : text);
    put('clients', 1, `client ${key}`, text, index % 2, null, text, null, 1, start, 7, text);
    put('assertions', 1, 'client 1', `${text}${key}`, start);
    put(
      'apis',
      1,
      `api ${key}`,
      `https://api/${key}`,
      text,
      '[]',
      1,
      'access_token',
      60,
      start,
      text,
    );
    put('grants', 1, `grant ${key}`, `client ${key}`, 'api 1', '["a"]', text);
    const names = [`user ${key}`, 'c', `${key}@example.com`, index === 0 ? null : text];
    put('users', 1, ...names, 'hash', JSON.stringify({ text }), start, start);
    put('roles', 1, `role ${key}`, `name ${key}`, text, start, null);
    put('role_permissions', 1, `role ${key}`, 'management', `${text}.`);
    put('role_clients', 1, `role ${key}`, 'client 1');
    put('role_users', 1, `role ${key}`, 'user 1');
    put('alert_states', index + 1, start, text);
  }
  db.exec(`update streams set disabled_at = ${start}, disabled_reason = 'lag', lag_reported = 50,
      disabled_since = ${start}, disabled_code = 'timeout', pause_reason = 'kept';
    update runs set paused_ms = 7, last_delivered_at = ${start}, last_failed_at = ${start},
      last_error_code = 'http_503';
    update deliveries set trace = 'kept'`);
  for (const table of ['signing_keys', 'webhook_keys']) {
    db.exec(`delete from ${table} where number = (select max(number) from ${table})`);
  }
  db.close();
}

/** Appends to the log of the first tenant, over the days after its events, and a history of them. */
function fillLog(file: string, count: number): void {
  const db = new DatabaseSync(file);
  db.exec('begin');
  db.exec(`update events set published_at = ${start}`);
  const head = Number(db.prepare('select head from tenants where id = 1').get()?.['head']);
  const event = db.prepare(`insert into events values (1, ?, ?, 'user.created', ?, ?, ?, ?, null)`);
  const attempt = db.prepare('insert into attempts values (2, ?, ?, ?, 1, 200, null)');
  const dayMs = 86_400_000;
  for (let index = 1; index <= count; index += 1) {
    const offset = head + index;
    const at = start + dayMs + Math.floor((index / count) * 3 * dayMs);
    const body = JSON.stringify({
      text: hardTexts[index % hardTexts.length],
      pad: 'x'.repeat(500),
    });
    const trace = index % 3 === 0 ? `trace ${index}` : null;
    event.run(offset, `evt_log_${String(offset).padStart(14, '0')}`, at, at, body, trace);
    if (index % 5 === 0) attempt.run(offset, at, index / 7);
  }
  db.prepare('update tenants set head = ?, last_published_at = ? where id = 1').run(
    head + count,
    start + 4 * dayMs,
  );
  db.exec('commit');
  db.close();
}

/** What the port tells of a filled store. */
async function seenOf(store: Store): Promise<unknown> {
  const tenants = await store.tenants.list();
  const stream = await store.streams.get(1, 'est_kept');
  assert.ok(stream);
  const { events } = await store.log.page(1, { after: 0, take: 100, bytesMax: 1_000_000 });
  return {
    tenants,
    stream,
    health: await store.streams.health(1, stream.id),
    failures: await failuresOf(fixtureOf(store, 1), stream),
    replays: [
      await store.replays.get(1, stream.id, 'rpl_over'),
      await store.replays.get(1, stream.id, 'rpl_kept'),
    ],
    dismissal: await store.dismissals.get(1, 'dsm_kept'),
    entries: await store.auditLog.list(1, { target: 'null', after: undefined, take: 9 }),
    head: await store.log.head(1),
    second: await store.log.head(2),
    events,
  };
}

/** New numbers follow those of the source, and the stream goes on. */
async function assertWorks(store: Store): Promise<void> {
  const fixture = fixtureOf(store, 1);
  fixture.now = start + 10 * 86_400_000;
  const head = await store.log.head(1);
  const [event] = await fixture.publish('user.created');
  assert.equal(event?.offset, head + 1);
  assert.equal((await addTenant(store, 'third')).id, 3);
  const stream = await store.streams.get(1, 'est_kept');
  assert.ok(stream && event);
  await fixture.addStream({ name: 'newer' });
  const owned = await fixture.own(stream);
  await fixture.settle(owned, { cursor: event.offset, outcomes: [failed(event)] });
  assert.equal((await failuresOf(fixture, stream)).length, 2);
}

function openSource(file: string): Promise<Store> {
  return openAt(`sqlite:${file}`, secretKey);
}

async function withSource<T>(databases: Databases, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openSource(databases.file);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

async function openTarget(t: TestContext, databases: Databases): Promise<Store> {
  const store = await openAt(databases.url, secretKey);
  t.after(() => store.close());
  return store;
}

function openAt(where: string, key: Uint8Array): Promise<Store> {
  return openWith(where, [key]);
}

function openWith(where: string, secretKeys: readonly Uint8Array[]): Promise<Store> {
  const parsed = storeLocation(where);
  assert.ok('value' in parsed);
  const deps = { secretKeys, random: systemRandom, clock: systemClock };
  return openStore({ location: parsed.value, ...deps });
}

/** An empty database, dropped at the end, after what uses it was closed. */
async function databaseFor(t: TestContext): Promise<string> {
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  t.after(() => server.dropDatabase(url));
  return url;
}

function change(file: string, sql: string): void {
  const db = new DatabaseSync(file);
  db.exec(sql);
  db.close();
}

async function countOf(url: string, table: string): Promise<number> {
  const [row] = await query<{ count: number }>(url, `select count(*)::int as count from ${table}`);
  return row?.count ?? 0;
}

async function tablesOf(url: string): Promise<string[]> {
  const rows = await query<{ name: string }>(
    url,
    `select tablename as name from pg_tables where schemaname = 'public'`,
  );
  return rows.map(({ name }) => name);
}

function checksumOf(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}
