import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { createStream, expectBody, freshType } from '../helpers/api-client.ts';
import { settled, startCluster } from '../helpers/cluster.ts';
import { type Running, waitFor } from '../helpers/leat.ts';

interface Shown {
  readonly nodes: readonly {
    readonly id: string;
    readonly version?: string;
    readonly streams: number;
    readonly lease_ms: number;
    readonly clock_skew_ms: number;
    readonly is_self: boolean;
  }[];
  readonly store: { readonly engine: string; readonly bytes: number };
}

describe('GET /nodes on PostgreSQL', () => {
  test(
    'two nodes show the same nodes and streams, each itself with its version',
    { tags: ['long'] },
    async (t) => {
      const { start } = await startCluster(t);
      const [one, other] = await Promise.all([start(), start()]);
      for (let count = 0; count < 4; count += 1) {
        await createStream(one, 'http://127.0.0.1:9/', { types: [freshType()] });
      }
      await settled(one, [2, 2]);
      const shownBy = (node: Running) => expectBody<Shown>(200, node.send('GET', '/api/v2/nodes'));
      const [first, second] = await Promise.all([shownBy(one), shownBy(other)]);
      const idsOf = ({ nodes }: Shown) => nodes.map(({ id }) => id);
      assert.deepEqual(idsOf(first), idsOf(second));
      for (const { nodes, store } of [first, second]) {
        assert.deepEqual(
          nodes.map(({ streams }) => streams),
          [2, 2],
        );
        assert.ok(nodes.every(({ lease_ms: leaseMs }) => leaseMs > 0));
        assert.deepEqual(
          nodes.filter((node) => node.is_self).map(({ version }) => version),
          [packageJson.version],
        );
        assert.ok(nodes.every((node) => node.is_self === (node.version !== undefined)));
        assert.equal(store.engine, 'postgres');
        assert.ok(store.bytes > 1_000_000);
      }
      const selfOf = ({ nodes }: Shown) => nodes.find((node) => node.is_self)?.id;
      assert.notEqual(selfOf(first), selfOf(second));

      await other.stop();
      await waitFor('the other node to be gone', async () => {
        const { nodes } = await shownBy(one);
        return nodes.length === 1 && nodes[0]?.streams === 4;
      });
    },
  );
});
