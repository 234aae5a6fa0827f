import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';
import { waitFor } from '../helpers/leat.ts';
import { startTcpProxy } from '../helpers/tcp-proxy.ts';
import { createStream, publish, startCountingReceiver } from '../helpers/traffic.ts';

describe('a store with several hosts', () => {
  for (const [what, lose] of [
    ['refuses connections', 'refuse'],
    ['stops responding', 'blackhole'],
  ] as const) {
    test(`the host in use ${what}: the next one is used`, { tags: ['long'] }, async (t) => {
      const cluster = await startCluster(t);
      const second = await startTcpProxy(cluster.server.port);
      t.after(() => second.close());
      const receiver = await startCountingReceiver(t);
      receiver.startRound();
      const [database] = await cluster.query<{ url: string }>(
        `select 'postgres://leat:leat@127.0.0.1:${cluster.proxy.port},127.0.0.1:${second.port}/'
          || current_database() as url`,
      );
      const node = await cluster.start({ LEAT_STORE: database?.url ?? '' });
      await createStream(node, receiver.url, 'all');
      const acknowledged = new Set(await publish(node, 10));
      assert.equal(second.accepted, 0);

      cluster.proxy[lose]();
      const ids = await waitFor('an event to be taken', async () => {
        const taken = await publish(node, 1);
        return taken.length === 1 && taken;
      });
      for (const id of [...ids, ...(await publish(node, 10))]) acknowledged.add(id);
      await receiver.waitForAll('every acknowledged event', ['all'], acknowledged);
      assert.equal((await fetch(`${node.url}/readyz`)).status, 200);
    });
  }
});
