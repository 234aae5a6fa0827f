import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { startCluster } from '../helpers/cluster.ts';
import { waitFor } from '../helpers/leat.ts';
import { reply, startReceiver } from '../helpers/receiver.ts';
import { createStream, publish } from '../helpers/traffic.ts';

describe('a settlement that waits for a lock', () => {
  test(
    'a settlement that waits for a lock takes no lease, and every change of its stream gets a response',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await startReceiver({ respond: reply(400) });
      t.after(() => receiver.close());
      const node = await cluster.start();
      const stream = await createStream(node, receiver.origin, 'all');
      const path = `/api/v2/event-streams/${stream}`;
      const locking = new pg.Client({ connectionString: cluster.url });
      locking.on('error', () => undefined);
      await locking.connect();
      t.after(() => locking.end());
      await locking.query('begin; lock table failure_groups in access exclusive mode');
      await publish(node, 1);
      await waitFor('the settlement to wait', async () => {
        const { rows } = await locking.query('select 1 from pg_locks where not granted');
        return rows.length > 0;
      });
      // Each ends, though the lock outlasts it, and the node keeps its lease all the while.
      const changes = [
        node.send('PATCH', path, { name: 'renamed' }),
        node.send('POST', `${path}/pause`, {}),
        node.send('DELETE', path),
      ].map(async (change) => {
        const response = await change;
        return { status: response.status, body: (await response.json()) as object, response };
      });
      for (const { status, body, response } of await Promise.all(changes)) {
        assert.equal(status, 503, JSON.stringify(body));
        assert.equal(response.headers.get('retry-after'), '1');
        assert.equal((await fetch(`${node.url}/readyz`)).status, 200);
      }
      await locking.query('commit');
      await waitFor('the stream to be deleted', async () => {
        const { status } = await node.send('DELETE', path);
        return status === 204;
      });
    },
  );
});
