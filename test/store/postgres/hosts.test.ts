import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import { createDatabase, type Database } from '../../../src/store/engine/postgres/database.ts';
import { createHosts } from '../../../src/store/engine/postgres/hosts.ts';
import { refusalOf } from '../../../src/store/engine/postgres/refusal.ts';
import { waitFor } from '../../helpers/leat.ts';
import { type PostgresServer, query, startPostgres } from '../../helpers/postgres.ts';
import { startTcpProxy } from '../../helpers/tcp-proxy.ts';

const folderOf = `select current_setting('data_directory') as folder`;

describe('several PostgreSQL servers in one URL', () => {
  let one: PostgresServer;
  let other: PostgresServer;
  /** Where `one` keeps its data. */
  let folderOfOne: string;

  before(async () => {
    [one, other] = await Promise.all([startPostgres(), startPostgres()]);
    const [row] = await query<{ folder: string }>(one.url(), folderOf);
    folderOfOne = row?.folder ?? '';
    for (const server of [one, other]) {
      await query(server.url(), 'create table items (name text primary key)');
    }
  });
  after(() => Promise.all([one.close(), other.close()]));

  /** Both servers behind proxies; both accept writes at the end of the test again. */
  async function open(t: TestContext, session = 'read-write') {
    const proxies = await Promise.all([startTcpProxy(one.port), startTcpProxy(other.port)]);
    const hosts = proxies.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const url = `postgres://leat:leat@${hosts}/postgres?target_session_attrs=${session}`;
    const db = createDatabase({ hosts: createHosts(url, 'test'), connectionsMax: 3 });
    t.after(async () => {
      await db.close();
      await Promise.all(proxies.map((proxy) => proxy.close()));
      for (const server of [one, other]) {
        await server.start();
        await setReadOnly(server, false);
      }
    });
    const [first, second] = proxies;
    return { db, first, second };
  }

  /** For all sessions, including those that are open. */
  async function setReadOnly(server: PostgresServer, isReadOnly: boolean): Promise<void> {
    await query(server.url(), `alter system set default_transaction_read_only = ${isReadOnly}`);
    await query(server.url(), 'select pg_reload_conf()');
    await waitFor('the setting to be in force', async () => {
      const [row] = await query(server.url(), 'show default_transaction_read_only');
      return row?.['default_transaction_read_only'] === (isReadOnly ? 'on' : 'off');
    });
  }

  async function serverOf(db: Database): Promise<PostgresServer> {
    const row = await db.get<{ folder: string }>`
      select current_setting('data_directory') as folder`;
    return row?.folder === folderOfOne ? one : other;
  }

  let written = 0;
  const write = (db: Database): Promise<number> =>
    db.run`insert into items (name) values (${`item ${(written += 1)}`})`;

  test('several servers: uses the first that accepts writes', async (t) => {
    await setReadOnly(one, true);
    const { db, first } = await open(t);
    await write(db);
    assert.equal(await serverOf(db), other);
    assert.equal(first.accepted, 1);
  });

  test('any: uses the first server that accepts the login', async (t) => {
    await setReadOnly(one, true);
    const { db } = await open(t, 'any');
    assert.equal(await serverOf(db), one);
  });

  test('several servers: skips one that does not listen, and does not try it again', async (t) => {
    const { db, first } = await open(t);
    first.refuse();
    await Promise.all([write(db), write(db), write(db)]);
    assert.equal(await serverOf(db), other);
    const tried = first.accepted;
    await Promise.all([write(db), write(db), write(db)]);
    assert.equal(first.accepted, tried);
  });

  test('several servers: skips one that never responds within the time of a request', async (t) => {
    const { db, first } = await open(t);
    first.blackhole();
    await write(db);
    assert.equal(await serverOf(db), other);
  });

  test('several servers: leaves one that becomes read-only, including idle connections', async (t) => {
    const { db } = await open(t);
    await Promise.all([write(db), write(db), write(db)]);
    await setReadOnly(one, true);
    await assert.rejects(write(db), StoreUnavailable);
    await Promise.all([write(db), write(db), write(db)]);
    assert.equal(await serverOf(db), other);
  });

  test('several servers: leaves one that stops, and returns when the other one stops', async (t) => {
    const { db } = await open(t);
    await Promise.all([write(db), write(db), write(db)]);
    await one.stop('fast');
    await waitFor('a write', () => write(db).catch(() => undefined));
    assert.equal(await serverOf(db), other);
    await one.start();
    await other.stop('immediate');
    await waitFor('a write', () => write(db).catch(() => undefined));
    assert.equal(await serverOf(db), one);
  });

  test('several servers: closes connections to a silent one once another is in use', async (t) => {
    const { db, first } = await open(t);
    await write(db);
    const locked = Promise.withResolvers<void>();
    const silent = db.transact('durable', async (tx) => {
      await tx.run`insert into items (name) values (${`item ${(written += 1)}`})`;
      first.blackhole();
      locked.resolve();
      await tx.get`select 1`;
    });
    silent.catch(() => undefined);
    await locked.promise;
    // A second connection is needed, as the first one is taken.
    await write(db);
    await assert.rejects(silent, StoreUnavailable);
    assert.equal(await serverOf(db), other);
  });

  test('several servers: without any the error names each with its problem', async (t) => {
    await setReadOnly(other, true);
    const { db, first } = await open(t);
    await first.close();
    const error = await write(db).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof StoreUnavailable);
    assert.match(
      refusalOf('postgres://a,b/leat', error).message,
      /^LEAT_STORE: postgres:\/\/a,b\/leat has no server that can be used: 127\.0\.0\.1:\d+ cannot be reached: nothing listens there, check host and port; 127\.0\.0\.1:\d+ can only be read: name the primary server$/,
    );
  });
});
