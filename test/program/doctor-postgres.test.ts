import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { databaseVersionFinding, encryptionFinding } from '../../src/operator/database-findings.ts';
import { postgresServers } from '../../src/core/postgres-url.ts';
import { doctor, textsOf } from '../helpers/doctor.ts';
import { createTempStore, startLeat } from '../helpers/leat.ts';
import { type PostgresServer, query, sharedPostgres, startPostgres } from '../helpers/postgres.ts';
import { startStandby } from '../helpers/standby.ts';

/** What `leat doctor` finds in the settings of a PostgreSQL server. */

type Examine = (
  check: string,
  store: string,
  settings?: Readonly<Record<string, string>>,
) => Promise<string>;

describe('leat doctor on PostgreSQL', () => {
  test(
    'durability: fsync, synchronous_commit and full_page_writes that are off are findings',
    { tags: ['long'] },
    async (t) => {
      const examine = await examiner(t);
      const quick = await (await sharedPostgres()).createDatabase();
      assert.match(await examine('durability', quick), /^bad: fsync is off: a power cut loses/);

      const server = await started(t, { fsync: 'on' });
      const store = await server.createDatabase();
      assert.match(await examine('durability', store), /^warn: full_page_writes is off/);
      const database = new URL(store).pathname.slice(1);
      await query(server.url(), `alter database ${database} set synchronous_commit = off`);
      assert.match(await examine('durability', store), /^bad: synchronous_commit is off/);
    },
  );

  test(
    'connections: too few for the nodes is a fault, too few for one more is a warning',
    { tags: ['long'] },
    async (t) => {
      const examine = await examiner(t);
      const server = await started(t, { max_connections: '30' });
      const store = await server.createDatabase();
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const node = await startLeat(tempStore, { LEAT_STORE: store, LEAT_STORE_CONNECTIONS: '8' });
      t.after(() => node.kill());
      const connections = (each: string): Promise<string> =>
        examine('connections', store, { LEAT_STORE_CONNECTIONS: each });
      assert.equal(await connections('8'), 'ok: 8 of 27 are for 1 node');
      assert.match(await connections('14'), /^warn: 14 of 27 are for 1 node, which leaves too few/);
      assert.equal(await connections('28'), 'bad: 28 of 27 are for 1 node');
      // A limit of the database or of the user counts as well.
      await query(
        server.url(),
        `alter database ${new URL(store).pathname.slice(1)} connection limit 20`,
      );
      assert.match(await connections('14'), /^warn: 14 of 20 /);
    },
  );

  test(
    'user: a superuser is a warning, a role that owns the database is not',
    { tags: ['long'] },
    async (t) => {
      const examine = await examiner(t);
      const server = await sharedPostgres();
      const store = await server.createDatabase();
      assert.match(await examine('database user', store), /^warn: is a superuser/);
      const plain = await ownedByPlainRole(server);
      assert.equal(await examine('database user', plain), '');
      assert.match(await examine('replication', plain), /^note: no replica is connected/);
    },
  );

  test(
    'replication: a replica that nobody waits for, or that no URL names, is a note',
    { tags: ['long'] },
    async (t) => {
      const examine = await examiner(t);
      const server = await started(t, { fsync: 'on', full_page_writes: 'on' });
      const store = await server.createDatabase();
      const said = 'ok: fsync and full_page_writes are on, synchronous_commit is on';
      assert.equal(await examine('durability', store), said);
      assert.match(await examine('replication', store), /^note: no replica is connected/);
      const standby = await startStandby(server);
      t.after(() => standby.close());
      const unsynchronized = /^note: 1 replica is connected, and commits do not wait/;
      assert.match(await examine('replication', store), unsynchronized);
      assert.match(await examine('replication', await ownedByPlainRole(server)), unsynchronized);
      await query(server.url(), `alter system set synchronous_standby_names = '*'`);
      await query(server.url(), 'select pg_reload_conf()');
      assert.equal(
        await examine('replication', store),
        'note: 1 replica is connected, but LEAT_STORE names one server',
      );
      const both = store.replace(
        /@[^/]+/,
        `@127.0.0.1:${server.port},127.0.0.1:${standby.server.port}`,
      );
      assert.equal(
        await examine('replication', both),
        'ok: 1 replica is connected, and commits wait: *',
      );
      await standby.close();
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const { code, findings } = await doctor(tempStore, { LEAT_STORE: store });
      assert.equal(code, 1);
      assert.match(
        findings.find(({ check }) => check === 'store')?.next ?? '',
        /with synchronous_standby_names every commit waits until a replica is connected/,
      );
    },
  );

  test(
    'TLS: a server on another machine without it is a warning',
    { tags: ['long'] },
    async (t) => {
      const examine = await examiner(t);
      const store = await (await sharedPostgres()).createDatabase();
      assert.match(await examine('database tls', store), /^ok: not needed/);
      // The first name has no address, so the second server is used.
      const remote = store.replace('@', '@db.invalid:5432,');
      assert.equal(
        await examine('database tls', remote),
        'warn: connections to db.invalid:5432 are not encrypted',
      );
    },
  );

  test('TLS: the certificate has to be verified', () => {
    const level = (parameters: string): string => {
      const named = postgresServers(`postgres://leat@db.example.com/leat${parameters}`);
      return 'problem' in named ? named.problem : encryptionFinding(named.servers).level;
    };
    assert.equal(level('?sslmode=verify-full&sslrootcert=/ca.pem'), 'ok');
    assert.equal(level('?ssl=true'), 'ok');
    for (const parameters of ['', '?sslmode=disable', '?sslmode=no-verify', '?ssl=0']) {
      assert.equal(level(parameters), 'warn', parameters);
    }
    assert.equal(level('?sslmode=require&uselibpqcompat=true'), 'warn');
  });

  test('version: one that no test runs on is a warning, one that is too old a fault', () => {
    const levels = [14, 15, 18, 19].map((major) => databaseVersionFinding(major).level);
    assert.deepEqual(levels, ['bad', 'ok', 'ok', 'warn']);
  });
});

/** Returns a function that runs `leat doctor` and returns the lines of one check. */
async function examiner(t: TestContext): Promise<Examine> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  return async (check, store, settings = {}) => {
    const { findings } = await doctor(tempStore, { ...settings, LEAT_STORE: store });
    const failure = textsOf(findings, 'store').filter((line) => line.startsWith('bad'));
    return [...failure, ...textsOf(findings, check)].join('\n');
  };
}

/** Creates a database that a role without any privilege owns; returns the URL for that role. */
async function ownedByPlainRole(server: PostgresServer): Promise<string> {
  await query(server.url(), `create role plain login password 'plain'`);
  const url = new URL(await server.createDatabase());
  await query(server.url(), `alter database ${url.pathname.slice(1)} owner to plain`);
  await query(url.href, 'alter schema public owner to plain');
  url.username = 'plain';
  url.password = 'plain';
  return url.href;
}

async function started(
  t: TestContext,
  settings: Readonly<Record<string, string>>,
): Promise<PostgresServer> {
  const server = await startPostgres({ settings });
  t.after(() => server.close());
  return server;
}
