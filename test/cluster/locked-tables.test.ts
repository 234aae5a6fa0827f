import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { describedOperations } from '../../src/api/operations.ts';
import { type Cluster, startCluster } from '../helpers/cluster.ts';
import { bootstrapClient, fetchToken, type Running, waitFor } from '../helpers/leat.ts';
import { openPull } from '../helpers/pull.ts';
import { createStream, eventType, publish, startCountingReceiver } from '../helpers/traffic.ts';

/** Requests of each list at a time: more than the connections of any purpose. */
const atOnce = 6;

/**
 * Without these tables nothing is published: the log itself, and who may publish. An event with an id of its
 * publisher needs `deliveries`, too.
 */
const ofPublishing: readonly string[] = [
  'apis',
  'client_grants',
  'clients',
  'events',
  'grants',
  'log_days',
  'role_clients',
  'role_permissions',
  'roles',
  'signing_keys',
  'store',
  'tenants',
];

/** The ids of the paths, most of which do not exist. */
const ids: Readonly<Record<string, string>> = {
  event_id: 'evt_00000000000000000000000000',
  redelivery_id: 'rdl_00000000000000000000000000',
  dismissal_id: 'dms_00000000000000000000000000',
};

/** Returns the paths of all lists, searches and sums: each reading operation that ends and is no single row. */
function listPaths(stream: string): readonly string[] {
  const reads = describedOperations().filter(
    (one) =>
      one.method === 'GET' &&
      !('responseType' in one) &&
      ('isList' in one || /health|stats|overview|by-email|event-log|\/roles/.test(one.path)),
  );
  return reads.map(({ path }) => {
    const filled = path.replace('/roles/:id', '/roles/rol_0000000000000000').replace(':id', stream);
    const search = path === '/users-by-email' ? '?email=a%40example.com' : '';
    return `/api/v2${filled.replace(/:(\w+)/g, (_, name: string) => ids[name] ?? name)}${search}`;
  });
}

describe('a lock on a table', () => {
  test(
    'six lists of failures that wait for it neither stop publishing nor other reads',
    { tags: ['long'] },
    async (t) => {
      const { node, stream, locked } = await started(t);
      const path = '/api/v2/delivery-groups';
      await locked(['failure_groups'], async () => {
        const lists = Promise.all(Array.from({ length: atOnce }, () => node.send('GET', path)));
        await publishing(node, lists, 'failure_groups');
        assert.equal((await node.send('GET', `/api/v2/event-streams/${stream}`)).status, 200);
        // The lock outlasts them.
        for (const response of await lists) assert.equal(response.status, 503);
        assert.equal((await fetch(`${node.url}/readyz`)).status, 200);
      });
      assert.equal((await node.send('GET', path)).status, 200);
    },
  );

  test(
    'lists that wait for any one table do not stop publishing',
    { tags: ['long'] },
    async (t) => {
      const { node, cluster, stream, locked } = await started(t);
      const paths = listPaths(stream);
      assert.ok(paths.length > 25, paths.join());
      const tables = await cluster.query<{ name: string }>(`
      select relname as name from pg_class
      where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace`);
      for (const { name } of tables) {
        if (ofPublishing.includes(name)) continue;
        await locked([name], async () => {
          const lists = Promise.all(paths.map((path) => node.send('GET', path)));
          await publishing(node, lists, name);
          const responses = await lists;
          for (const [index, { status }] of responses.entries()) {
            assert.ok([200, 404, 503].includes(status), `${name}: ${paths[index]}: ${status}`);
          }
        });
      }
      const responses = await Promise.all(paths.map((path) => node.send('GET', path)));
      for (const [index, { status }] of responses.entries()) {
        assert.ok([200, 404].includes(status), `${paths[index]}: ${status}`);
      }
    },
  );

  test(
    'pulls that wait for events keep neither tokens nor the API waiting',
    { tags: ['long'] },
    async (t) => {
      const { cluster, node, locked } = await started(t);
      await publish(node, 1);
      const partitions = await cluster.query<{ name: string }>(`
        select inhrelid::regclass::text as name from pg_inherits where inhparent = 'events'::regclass`);
      await locked(
        partitions.map(({ name }) => name),
        async () => {
          const token = await fetchToken(node.url, bootstrapClient);
          // With filters of their own, so that each reads pages of its own.
          const pulls = await Promise.all(
            Array.from({ length: atOnce }, (_, n) => {
              const types = `event_type=${eventType}&event_type=other.made_${n}`;
              const from = 'from_timestamp=2020-01-01T00:00:00Z';
              return openPull(`${node.url}/api/v2/events?${from}&${types}`, token);
            }),
          );
          for (let count = 0; count < 20; count += 1) {
            assert.notEqual(await fetchToken(node.url, bootstrapClient), '');
            assert.equal((await node.send('GET', '/api/v2/clients')).status, 200);
            await sleep(500);
          }
          for (const pull of pulls) pull.close();
        },
      );
    },
  );

  for (const table of ['streams', 'leat_schema', 'key_check']) {
    test(
      `what waited for ${table} and was given up does not wait on`,
      { tags: ['long'] },
      async (t) => {
        const { node, cluster, stream, locked } = await started(t);
        await locked([table], async () => {
          const path = `/api/v2/event-streams/${stream}`;
          const reads = Array.from({ length: atOnce }, () => node.send('GET', path));
          for (const response of await Promise.all(reads)) {
            assert.equal(response.status, table === 'streams' ? 503 : 200);
          }
          const waiting = await waitFor('something that waits', async () => {
            const sessions = await waitingSessions(cluster);
            return sessions.size > 0 && sessions;
          });
          // The lock outlasts them.
          await waitFor('what waits to end', async () => {
            const still = await waitingSessions(cluster);
            return still.intersection(waiting).size === 0;
          });
        });
      },
    );
  }
});

/** Returns the sessions that wait for a lock, each with the beginning of its statement. */
async function waitingSessions(cluster: Cluster): Promise<Set<string>> {
  const rows = await cluster.query<{ session: string }>(`
    select pid || ' since ' || query_start as session from pg_stat_activity
    where wait_event_type = 'Lock'`);
  return new Set(rows.map(({ session }) => session));
}

async function started(t: TestContext) {
  const cluster = await startCluster(t);
  const receiver = await startCountingReceiver(t);
  receiver.startRound();
  const node = await cluster.start();
  const stream = await createStream(node, receiver.url, 'all');
  await receiver.waitForAll('an event', ['all'], await publish(node, 1));
  return { cluster, node, stream, locked: await locker(t, cluster) };
}

/** Publishes steadily, as clients do that have no token yet, until the lists have ended; all of it works. */
async function publishing(node: Running, lists: Promise<unknown>, locked: string): Promise<void> {
  const event = { type: eventType, data: { object: {} } };
  const listed = new AbortController();
  void lists.finally(() => listed.abort());
  while (!listed.signal.aborted) {
    const response = await node.send('POST', '/api/v2/events', event);
    assert.equal(response.status, 202, `${locked}: ${await response.text()}`);
    assert.notEqual(await fetchToken(node.url, bootstrapClient), '', locked);
    // At the pace of a client, which leaves the machine to the others.
    await sleep(betweenMs);
  }
}

const betweenMs = 10;

/** Returns how to do something while tables are locked. */
async function locker(t: TestContext, cluster: Cluster) {
  const client = new pg.Client({ connectionString: cluster.url });
  // When the test fails, the server ends before this connection.
  client.on('error', () => undefined);
  await client.connect();
  t.after(() => client.end());
  return async (tables: readonly string[], work: () => Promise<void>): Promise<void> => {
    await client.query(`begin; lock table ${tables.join()} in access exclusive mode`);
    try {
      await work();
    } finally {
      await client.query('commit');
    }
    await waitFor('the locks to be released', async () => {
      const { rows } = await client.query('select 1 from pg_locks where not granted');
      return rows.length === 0;
    });
  };
}
