import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';
import {
  bootstrapClient,
  freePort,
  type Running,
  secretKey,
  spawnLeat,
  waitFor,
} from '../helpers/leat.ts';

describe('nodes on one store with different domains', () => {
  test(
    'the second node does not start, and the issuer of the first stays',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const one = await cluster.start();
      assert.equal(await issuerAt(one), 'http://localhost:4444/');
      await assert.rejects(
        cluster.start({ LEAT_TENANT_DOMAIN: 'other.example' }),
        /LEAT_TENANT_DOMAIN: other nodes use this store as "localhost:4444", not as "other\.example": start with LEAT_TENANT_DOMAIN=localhost:4444, or with --rename to change the issuer of all nodes, which ends all tokens\. If none runs, they were killed: their leases end within \d+ s/,
      );
      await assert.rejects(
        cluster.start({
          LEAT_TENANT_DOMAIN: 'other.example',
          LEAT_PUBLIC_URL: 'https://other.example',
        }),
        /start with LEAT_PUBLIC_URL=https:\/\/localhost:4444, or with --rename/,
      );
      assert.equal(await issuerAt(one), 'http://localhost:4444/');
      assert.equal((await one.send('GET', '/api/v2/event-streams')).status, 200);
    },
  );

  test(
    'with --rename all nodes have the new domain, and one with the former does not start',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const one = await cluster.start();
      // Meanwhile the first node has confirmed its domain; a rename before that ends it.
      await assert.rejects(cluster.start({ LEAT_TENANT_DOMAIN: 'localhost:5555' }), /--rename/);
      const port = await freePort();
      const { child, output } = spawnLeat(['serve', '--rename'], {
        LEAT_STORE: cluster.url,
        LEAT_SECRET_KEY: secretKey.toString('base64'),
        LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
        LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
        LEAT_TENANT_DOMAIN: 'localhost:5555',
        LEAT_PORT: String(port),
        LEAT_LOG_LEVEL: 'warn',
      });
      t.after(() => child.kill('SIGKILL'));
      const url = `http://127.0.0.1:${port}`;
      await waitFor(
        'the second node',
        async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok,
      );
      assert.match(output(), /the tenant has a new issuer/);
      await waitFor('the new issuer at both', async () => {
        const issuers = await Promise.all([one, { url }].map(issuerAt));
        return issuers.every((issuer) => issuer === 'http://localhost:5555/');
      });
      await assert.rejects(cluster.start(), /other nodes use this store as "localhost:5555"/);
    },
  );

  test(
    'of two nodes that start at the same moment on an empty store, one stays and its issuer is that of the store',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const domains = ['localhost:5551', 'localhost:5552'];
      const starts = await Promise.allSettled(
        domains.map((domain) => cluster.start({ LEAT_TENANT_DOMAIN: domain })),
      );
      const nodes = starts.map((start) => (start.status === 'fulfilled' ? start.value : undefined));
      const alive = (): number[] =>
        nodes.flatMap((node, index) => (node?.child.exitCode === null ? [index] : []));
      const progress = (): unknown => nodes.map((node) => node?.output());
      await waitFor('the end of one node', () => alive().length === 1, { progress });
      const [index = 0] = alive();
      const node = nodes[index];
      assert.ok(node);
      assert.equal(await issuerAt(node), `http://${domains[index]}/`);
      const other = nodes[1 - index];
      if (other === undefined) return;
      assert.equal(other.child.exitCode, 1);
      assert.match(other.output(), /^LEAT_TENANT_DOMAIN: other nodes use this store as/m);
    },
  );

  test(
    'a domain can be changed while no other node runs, without an option',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const one = await cluster.start();
      await one.stop();
      const moved = await cluster.start({ LEAT_TENANT_DOMAIN: 'localhost:6666' });
      assert.equal(await issuerAt(moved), 'http://localhost:6666/');
    },
  );
});

async function issuerAt({ url }: Pick<Running, 'url'>): Promise<string> {
  const response = await fetch(`${url}/.well-known/openid-configuration`);
  return ((await response.json()) as { issuer: string }).issuer;
}
