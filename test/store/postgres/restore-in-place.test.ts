import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { query, sharedPostgres } from '../../helpers/postgres.ts';
import { addTenant, newEvent, newStream, start } from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

/** Commands whose results clients see as 401, 404 or 500 when parts of the store are missing. */
const commandsOf = (store: Store, tenant: number, stream: string) => ({
  append: () => store.log.append(tenant, [newEvent()]),
  client: () => store.clients.get(tenant, 'operator'),
  access: () => store.clients.access(tenant, 'operator'),
  keys: () => store.keys.list(tenant, start),
  tenants: () => store.tenants.list(),
  stream: () => store.streams.get(tenant, stream),
  update: () => store.streams.update(tenant, stream, (before) => ({ after: before })),
  delete: () => store.streams.delete(tenant, stream),
});

describe('PostgreSQL: a backup that is restored under a process', () => {
  test('while tables and functions are missing, every command rejects with StoreUnavailable', async (t) => {
    const { url, store, tenant, commands } = await opened(t);
    await query(url, 'alter schema public rename to gone');
    for (const [name, command] of Object.entries(commands)) {
      await assert.rejects(command(), StoreUnavailable, name);
    }
    await query(url, 'alter schema gone rename to public');
    await store.log.append(tenant, [newEvent()]);
    await commands.update();
  });

  test('while rows are missing, nothing is said to be absent', async (t) => {
    const { url, commands } = await opened(t);
    await query(
      url,
      `create table store_saved as table store; create table tenants_saved as table tenants;
       truncate store, clients, streams, tenants, signing_keys`,
    );
    for (const [name, command] of Object.entries(commands)) {
      await assert.rejects(command(), StoreUnavailable, name);
    }
    await query(
      url,
      'insert into tenants overriding system value table tenants_saved; insert into store table store_saved',
    );
    assert.equal(await commands.client(), undefined);
    assert.equal(await commands.stream(), undefined);
    await commands.append();
  });

  test('a node joins the store once its keys are restored, which come after all rows', async (t) => {
    const { url, store } = await opened(t);
    const [key] = await query<{ name: string; text: string }>(
      url,
      `select conname as name, pg_get_constraintdef(oid) as text from pg_constraint
       where conrelid = 'node_steps'::regclass and contype = 'f'`,
    );
    assert.ok(key);
    await query(url, `alter table node_steps drop constraint ${key.name}`);
    await assert.rejects(store.ownership.join('node', 10_000), {
      message: 'Keys of tables are missing: a restore may be under way.',
    });
    await query(url, `alter table node_steps add constraint ${key.name} ${key.text}`);
    await store.ownership.join('node', 10_000);
  });
});

async function opened(t: TestContext) {
  const server = await sharedPostgres();
  const url = await newDatabase();
  const store = await openUrl(url);
  t.after(async () => {
    await store.close();
    await server.dropDatabase(url);
  });
  const { id: tenant } = await addTenant(store, 'main');
  const stream = newStream(tenant, start);
  await store.streams.create(stream, { streamsMax: 9 });
  return { url, store, tenant, commands: commandsOf(store, tenant, stream.id) };
}
