import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { startCluster } from '../helpers/cluster.ts';
import { waitFor } from '../helpers/leat.ts';
import { createStream, publish, startCountingReceiver } from '../helpers/traffic.ts';

/** More rows than a sort without an index is allowed for. */
const users = 6000;

describe('lists of the management API', () => {
  test(
    'lists that wait for the database delay neither events nor leases',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await startCountingReceiver(t);
      receiver.startRound();
      const node = await cluster.start();
      await createStream(node, receiver.url, 'all');
      await cluster.query(`
      insert into users (tenant, id, connection, email, password_hash, profile, created_at, updated_at)
      select 1, 'leat|' || n, 'Username-Password-Authentication', n || '@example.com', '', '{}', n, n
      from generate_series(1, ${users}) as n`);

      const [database] = await cluster.query<{ name: string }>('select current_database() as name');
      const locking = new pg.Client({ connectionString: cluster.server.url(database?.name) });
      // When the test fails, the server ends before this connection.
      locking.on('error', () => undefined);
      await locking.connect();
      await locking.query('begin');
      await locking.query('lock table users in access exclusive mode');
      const lists = Array.from({ length: 30 }, () =>
        node.send('GET', '/api/v2/users?sort=email:1&include_totals=true'),
      );
      await waitFor('lists to wait for the lock', async () => {
        const waiting = await cluster.query(
          `select 1 from pg_stat_activity where wait_event_type = 'Lock'`,
        );
        return waiting.length > 0;
      });
      const acknowledged: string[] = [];
      for (let count = 0; count < 50; count += 1) {
        const ids = await publish(node, 1);
        assert.equal(ids.length, 1, 'an event was refused');
        acknowledged.push(...ids);
      }
      await receiver.waitForAll('every event', ['all'], acknowledged);
      for (const response of await Promise.all(lists)) {
        assert.equal(response.status, 503);
        assert.equal(response.headers.get('retry-after'), '1');
      }
      assert.equal((await fetch(`${node.url}/readyz`)).status, 200);

      await locking.end();
      const response = await node.send('GET', '/api/v2/users?sort=email:1&include_totals=true');
      assert.equal(response.status, 200);
      assert.equal(((await response.json()) as { total: number }).total, users);
      const byName = await node.send('GET', '/api/v2/users?sort=name:1');
      assert.equal(byName.status, 400);
      assert.match(
        await byName.text(),
        /sort by created_at, updated_at, email, user_id or username/,
      );
    },
  );
});
