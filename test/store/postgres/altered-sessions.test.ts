import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StartRefused } from '../../../src/core/errors.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { startPgBouncer } from '../../helpers/pgbouncer.ts';
import { type PoolerOptions, startPooler } from '../../helpers/pooler.ts';
import { programPath } from '../../helpers/program.ts';
import { query, sharedPostgres, throughPort } from '../../helpers/postgres.ts';
import { alterSessions, strangersSettings } from '../../helpers/stranger.ts';
import { addTenant, newEvent, newStream, start } from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

const sessions = 3;

describe('PostgreSQL: sessions that somebody else has altered', () => {
  for (const statement of strangersSettings) {
    test(`behind a pooler every command works after: ${statement}`, async (t) => {
      const { store, url, tenant } = await pooled(t);
      await alterSessions(url, sessions, statement);
      await useStore(store, tenant);
    });
  }

  const skip = programPath('pgbouncer') === undefined && 'pgbouncer is not installed';
  test('behind PgBouncer every command works after each of them', { skip }, async (t) => {
    const { store, url, tenant } = await behind(t, await startPgBouncer(sessions));
    assert.equal((await store.overview.server())?.isPooled, true);
    for (const statement of strangersSettings) {
      await alterSessions(url, sessions, statement);
      await useStore(store, tenant);
    }
    assert.notEqual(store.foreignSessions?.(), 0);
  });

  test('behind a pooler that hides itself a command is repeated, and the sessions are no longer trusted', async (t) => {
    const hidden = { passesKeys: true, serverConnections: 1 };
    const { store, url, tenant } = await pooled(t, hidden);
    await useStore(store, tenant);
    assert.equal(store.foreignSessions?.(), 0);
    await alterSessions(url, 1, `set search_path = ''`);
    await useStore(store, tenant);
    assert.notEqual(store.foreignSessions?.(), 0);
    for (const statement of strangersSettings) {
      await alterSessions(url, 1, statement);
      await useStore(store, tenant);
    }
  });

  test('behind a pooler a store opens on altered sessions, and counts them', async (t) => {
    const { url } = await pooled(t);
    await alterSessions(url, sessions, `set search_path = ''; set array_nulls = off`);
    const store = await openUrl(url);
    t.after(() => store.close());
    assert.notEqual(store.foreignSessions?.(), 0);
    const server = await store.overview.server();
    assert.equal(server?.isPooled, true);
    assert.deepEqual(server.foreignSettings, ['array_nulls', 'search_path']);
    await alterSessions(url, sessions, 'set statement_timeout = 0; set work_mem = 65536');
    const altered = await store.overview.server();
    assert.deepEqual(altered?.foreignSettings, ['array_nulls', 'search_path', 'work_mem']);
  });

  test('settings of the role that no statement expects are replaced', async (t) => {
    const server = await sharedPostgres();
    const url = await newDatabase();
    const database = new URL(url).pathname.slice(1);
    for (const setting of [
      'array_nulls = off',
      'bytea_output = escape',
      'transform_null_equals = on',
    ]) {
      await query(server.url(), `alter database ${database} set ${setting}`);
    }
    const store = await openUrl(url);
    t.after(async () => {
      await store.close();
      await server.dropDatabase(url);
    });
    const { id: tenant } = await addTenant(store, 'main');
    await useStore(store, tenant);
    const state = await store.overview.server();
    assert.equal(state?.isPooled, false);
    assert.deepEqual(state.foreignSettings, []);
  });
});

for (const encoding of ['LATIN1', 'SQL_ASCII']) {
  test(`PostgreSQL: a database in ${encoding} is refused`, async (t) => {
    const server = await sharedPostgres();
    const name = `in_${encoding.toLowerCase()}`;
    await query(
      server.url(),
      `create database ${name} encoding '${encoding}' locale 'C' template template0`,
    );
    t.after(() => server.dropDatabase(server.url(name)));
    await assert.rejects(openUrl(server.url(name)), (error) => {
      assert.ok(error instanceof StartRefused);
      assert.match(error.message, new RegExp(`its encoding is ${encoding}.*createdb -E UTF8`));
      return true;
    });
  });
}

/** Uses each pool of connections, at the same time. */
async function useStore(store: Store, tenant: number): Promise<void> {
  const body = JSON.stringify({ text: 'é 字 🙂' });
  const published = Array.from({ length: 4 }, () => newEvent({ body }));
  const stream = newStream(tenant, start);
  const results = await Promise.all([
    ...published.map((event) => store.log.append(tenant, [event])),
    store.streams.create(stream, { streamsMax: 999 }),
    store.streams.list(tenant, { after: undefined, take: 5 }),
    store.overview.tenant(tenant),
    store.keys.list(tenant, start),
    store.ping(),
  ]);
  const head = await store.log.head(tenant);
  const page = await store.log.page(tenant, { after: head - 4, take: 4, bytesMax: 1e6 });
  assert.deepEqual(
    page.events.map((event) => event.body),
    published.map(() => body),
  );
  assert.ok(results[0]);
  assert.ok(await store.streams.get(tenant, stream.id));
  await store.upkeep.prepare();
  await store.upkeep.releaseKept({ take: 10 });
  assert.equal(await store.streams.delete(tenant, stream.id), true);
}

interface Pooled {
  readonly store: Store;
  /** Of the database, through the pooler. */
  readonly url: string;
  readonly tenant: number;
}

async function pooled(t: TestContext, options: Partial<PoolerOptions> = {}): Promise<Pooled> {
  const { port } = await sharedPostgres();
  return behind(t, await startPooler({ port, serverConnections: sessions, ...options }));
}

async function behind(
  t: TestContext,
  pooler: { readonly port: number; close(): Promise<void> },
): Promise<Pooled> {
  const server = await sharedPostgres();
  const direct = await newDatabase();
  const url = throughPort(direct, pooler.port);
  const store = await openUrl(url);
  t.after(async () => {
    await store.close();
    await pooler.close();
    await server.dropDatabase(direct);
  });
  const { id: tenant } = await addTenant(store, 'main');
  return { store, url, tenant };
}
