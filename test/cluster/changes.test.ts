import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCluster } from '../helpers/cluster.ts';
import { type Running, waitFor } from '../helpers/leat.ts';
import { openPull, type OpenPull } from '../helpers/pull.ts';
import { receiverOf } from '../helpers/receiver.ts';

interface Changed {
  readonly streams: readonly string[];
  readonly all?: true;
}

const changedOf = ({ blocks }: Pick<OpenPull, 'blocks'>): Changed[] =>
  blocks.filter(({ event }) => event === 'changed').map(({ data }) => data as Changed);

const changesAt = (node: Running): Promise<OpenPull> =>
  openPull(`${node.url}/api/v2/changes`, node.token);

async function createStream(node: Running, port: number): Promise<string> {
  const response = await node.send('POST', '/api/v2/event-streams', {
    name: 'crm',
    subscriptions: [{ event_type: 'order.paid' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: `http://127.0.0.1:${port}/`,
        webhook_authorization: { method: 'bearer', token: 'secret-of-the-receiver' },
      },
    },
  });
  assert.equal(response.status, 201);
  return ((await response.json()) as { id: string }).id;
}

describe('changes that another node made', () => {
  test(
    'a connection at one node learns of streams that another node changes, and of its deliveries',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await receiverOf(t);
      const nodes = [await cluster.start(), await cluster.start()] as const;
      const watches = await Promise.all(nodes.map((node) => changesAt(node)));
      for (const watch of watches) await watch.until((pull) => changedOf(pull).length > 0);
      const id = await createStream(nodes[0], receiver.port);
      const names = (pull: OpenPull): boolean =>
        changedOf(pull).some(({ streams }) => streams.includes(id));
      // At first everything may have changed, and no stream has a name.
      const namedBy = async (change: () => Promise<void>, ...of: OpenPull[]): Promise<void> => {
        await waitFor('every connection to name the stream', async () => {
          await change();
          await sleep(500);
          return of.every(names);
        });
      };
      await namedBy(
        async () => {
          const body = { name: `crm ${Date.now()}` };
          const response = await nodes[1].send('PATCH', `/api/v2/event-streams/${id}`, body);
          assert.equal(response.status, 200);
        },
        ...watches,
      );
      // One of the two nodes delivers: the other one learns of it by its notification.
      const later = await Promise.all(nodes.map((node) => changesAt(node)));
      await namedBy(
        async () => {
          const event = { type: 'order.paid', data: {} };
          const response = await nodes[0].send('POST', '/api/v2/events', event);
          assert.equal(response.status, 202);
        },
        ...later,
      );
      for (const watch of later) watch.close();
      for (const watch of watches) watch.close();
    },
  );

  test(
    'a node is killed: the one that takes over its stream reports it, as the former one may not have',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await receiverOf(t);
      const owner = await cluster.start();
      const id = await createStream(owner, receiver.port);
      const response = await owner.send('POST', '/api/v2/events', { type: 'order.paid', data: {} });
      assert.equal(response.status, 202);
      await waitFor('the delivery', async () => receiver.requests.length > 0);
      const other = await cluster.start();
      const watch = await changesAt(other);
      await watch.until((pull) => changedOf(pull).length > 0);
      await owner.kill();
      await watch.until((pull) => changedOf(pull).some(({ streams }) => streams.includes(id)));
      watch.close();
    },
  );

  test(
    'where LISTEN is refused, a connection is told again and again that everything may have changed',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t, { pooled: true });
      const watch = await changesAt(await cluster.start());
      await watch.until((pull) => changedOf(pull).filter(({ all }) => all).length >= 3);
      watch.close();
    },
  );
});
