import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { type Cluster, startCluster } from '../helpers/cluster.ts';
import { publish } from '../helpers/traffic.ts';

/** A publish first reads whether its token counts, then appends; both may wait for locks. */

describe('a publish on PostgreSQL that waits twice', () => {
  for (const [what, isReleased, sleepS] of [
    ['the check of its token behind a lock: 503 within the time of a list', false, 8],
    ['the check and the append behind locks: 503 within the time of an append', true, 11.5],
  ] as const) {
    test(what, { tags: ['long'] }, async (t) => {
      const cluster = await startCluster(t);
      const node = await cluster.start();
      assert.equal((await publish(node, 1)).length, 1);
      const [clients, events] = [await connected(t, cluster), await connected(t, cluster)];
      // The node reads again what the client may do.
      await clients.query('select pg_sleep(2)');
      await clients.query('begin; lock table clients in access exclusive mode');
      await events.query('begin; lock table events in exclusive mode');
      const ended: string[] = [];
      const refused = node
        .send('POST', '/api/v2/events', { type: 'order.paid', data: {} })
        .then(({ status }) => ended.push(`${status}`));
      const slept = cluster
        .query(`select pg_sleep(${sleepS})`)
        .then(() => ended.push('the time of the server'));
      if (isReleased) {
        await cluster.query('select pg_sleep(4)');
        await clients.query('rollback');
      }
      await Promise.all([refused, slept]);
      assert.deepEqual(ended, ['503', 'the time of the server']);
    });
  }
});

async function connected(t: TestContext, { url }: Cluster): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  t.after(() => client.end());
  return client;
}
