import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createStream, freshType, publish } from '../helpers/api-client.ts';
import { type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { createTempStore, type Running, startLeat, waitFor } from '../helpers/leat.ts';
import {
  dataOf,
  installationOf,
  type PostgresServer,
  query,
  startPostgres,
} from '../helpers/postgres.ts';
import { type Standby, startStandby } from '../helpers/standby.ts';
import { readYaml, root, skipWithout } from './fixture.ts';

/**
 * The pair of deploy/postgres/compose.yaml with real servers: the arguments of its command, its script that
 * creates the primary, and what its other script makes of a standby.
 */
interface Compose {
  readonly services: Readonly<Record<string, { readonly command: readonly string[] }>>;
}

const { command } = readYaml<Compose>('deploy/postgres/compose.yaml').services['db-1'] ?? {
  command: [],
};
const settings = Object.fromEntries(
  command
    .filter((word) => word !== '-c')
    .map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]),
);
const passwords = { DATABASE_PASSWORD: 'b2b2', REPLICATION_PASSWORD: 'c3c3' };
const name = 'leat_standby';

test(
  'two nodes on the databases of the compose file deliver, wait for the standby and survive a fail-over',
  { tags: ['long'], skip: skipWithout('psql', '--version') },
  async (t) => {
    const primary = await startPostgres({ settings });
    t.after(() => primary.close());
    await createPrimary(primary);
    await query(asOwner(primary), `select pg_create_physical_replication_slot('${name}', true)`);
    const standby = await startStandby(primary, {
      login: `user=replicator password=${passwords.REPLICATION_PASSWORD} application_name=${name}`,
      slot: name,
    });
    t.after(() => standby.close());
    await query(asOwner(primary), 'alter role leat nosuperuser');
    await assertSettings(primary, standby);

    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const nodes = await startNodes(t, [primary.port, standby.server.port]);
    const [first, second] = nodes;
    const type = freshType();
    await createStream(first, endpoint.url, { types: [type] });
    assert.equal((await arrivalOf(endpoint, await publish(second, type))).event.type, type);

    standby.proxy.blackhole();
    const unconfirmed = await first.send('POST', '/api/v2/events', { type, data: { object: {} } });
    await unconfirmed.arrayBuffer();
    assert.equal(unconfirmed.status, 503);

    await primary.kill();
    await standby.promote();
    for (const node of nodes) {
      const id = await waitFor('a node to publish to the new primary', () =>
        tryToPublish(node, type),
      );
      await arrivalOf(endpoint, id);
    }
  },
);

/** Runs the script that the image of PostgreSQL runs, then starts the server as the image does. */
async function createPrimary(primary: PostgresServer): Promise<void> {
  const data = dataOf(installationOf(primary).folder);
  // The data of tests belong to a role that has the name of Leat's role.
  await query(primary.url(), 'create role postgres login superuser');
  await query(asPostgres(primary), 'alter role leat rename to owner');
  const { status, stderr } = spawnSync(join(root, 'deploy/postgres/primary.sh'), {
    encoding: 'utf8',
    env: {
      PATH: process.env['PATH'],
      ...passwords,
      PGDATA: data,
      PGHOST: '127.0.0.1',
      PGPORT: String(primary.port),
    },
  });
  assert.equal(status, 0, stderr);
  const rules = readFileSync(join(data, 'pg_hba.conf'), 'utf8').trim().split('\n');
  assert.equal(rules.at(-1), 'host replication replicator samenet scram-sha-256');
  const [row] = await query<{ rights: boolean }>(
    asPostgres(primary),
    `select rolsuper or rolcreatedb or rolcreaterole or rolreplication as rights
       from pg_roles where rolname = 'leat'`,
  );
  assert.equal(row?.rights, false);
  // For the helpers of the tests, which start and copy a server as this role.
  await query(asPostgres(primary), 'grant pg_read_all_settings to leat');
  await query(asPostgres(primary), 'grant execute on function pg_promote to leat');
  await query(asPostgres(primary), 'alter role leat superuser');
  await primary.stop('fast');
  await primary.start();
}

/** Checks on both servers that each setting of the compose file is in force, and that commits wait. */
async function assertSettings(primary: PostgresServer, { server }: Standby): Promise<void> {
  assert.ok(Object.keys(settings).length > 0);
  for (const url of [asPostgres(primary), asPostgres(server)]) {
    for (const [setting, value] of Object.entries(settings)) {
      const [row] = await query<{ value: string }>(
        url,
        `select current_setting('${setting}') as value`,
      );
      assert.equal(row?.value, value, setting);
    }
  }
  const synchronous = (url: string) =>
    query<{ names: string }>(url, `select current_setting('synchronous_standby_names') as names`);
  assert.deepEqual(await synchronous(asPostgres(primary)), [{ names: name }]);
  // After a promotion nothing follows it.
  assert.deepEqual(await synchronous(asPostgres(server)), [{ names: '' }]);
  const state = await query(
    asPostgres(primary),
    `select application_name, usename, state, sync_state, active from pg_stat_replication
       join pg_replication_slots on slot_name = application_name`,
  );
  assert.deepEqual(state, [
    {
      application_name: name,
      usename: 'replicator',
      state: 'streaming',
      sync_state: 'sync',
      active: true,
    },
  ]);
}

async function startNodes(
  t: TestContext,
  ports: readonly number[],
): Promise<readonly [Running, Running]> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join(',');
  const LEAT_STORE = `postgres://leat:${passwords.DATABASE_PASSWORD}@${hosts}/leat?target_session_attrs=read-write`;
  const start = async (): Promise<Running> => {
    const node = await startLeat(tempStore, { LEAT_STORE, LEAT_TENANT_DOMAIN: 'localhost:8443' });
    t.after(() => node.kill());
    return node;
  };
  return [await start(), await start()];
}

async function tryToPublish(node: Running, type: string): Promise<string | undefined> {
  const response = await node.send('POST', '/api/v2/events', { type, data: { object: {} } });
  const { id } = (await response.json()) as { readonly id?: string };
  return response.status === 202 ? id : undefined;
}

function arrivalOf(endpoint: Endpoint, id: string) {
  return waitFor(`the event ${id} to arrive`, () => endpoint.of(id)[0], {
    progress: () => endpoint.arrivals.length,
  });
}

function asPostgres(server: PostgresServer): string {
  return server.url().replace('leat:leat', 'postgres');
}

/** The role that the data of tests belong to, with its other name. */
function asOwner(server: PostgresServer): string {
  return server.url().replace('leat:leat', 'owner');
}
