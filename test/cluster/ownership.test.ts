import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { nodesOf, settled, startCluster } from '../helpers/cluster.ts';
import { runLeat, type Running, secretKey, waitFor } from '../helpers/leat.ts';
import { rounds } from '../helpers/rounds.ts';
import { createStream, eventType, publish, startCountingReceiver } from '../helpers/traffic.ts';

describe('nodes on one PostgreSQL', () => {
  test(
    'ten nodes that start at once on an empty database create one schema and one tenant',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const nodes = await Promise.all(Array.from({ length: 10 }, () => cluster.start()));
      const [first] = nodes;
      assert.ok(first);
      await settled(
        first,
        nodes.map(() => 0),
      );
      const [count] = await cluster.query<{ tenants: number }>(
        'select count(*)::int as tenants from tenants',
      );
      assert.equal(count?.tenants, 1);
      for (const node of nodes)
        assert.equal((await node.send('GET', '/api/v2/clients')).status, 200);
      assert.deepEqual(
        await Promise.all(nodes.map((node) => node.stop())),
        nodes.map(() => 0),
      );
    },
  );

  test(
    'nodes share the streams, give some to a node that joins, and take over those of one that leaves',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await startCountingReceiver(t);
      const one = await cluster.start();
      const streams = Array.from({ length: 6 }, (_, index) => `stream-${index}`);
      for (const name of streams) await createStream(one, receiver.url, name);
      await settled(one, [6]);

      const two = await cluster.start();
      await settled(one, [3, 3]);
      const three = await cluster.start();
      await settled(two, [2, 2, 2]);

      // Published at a node that owns a third of the streams.
      const ids = [...(await publish(three, 40)), ...(await publish(one, 1))];
      assert.equal(ids.length, 41);
      await receiver.waitForAll('the events at every stream', streams, ids);
      assert.equal(receiver.total(), 6 * 41, 'once each');

      assert.equal(await three.stop(), 0);
      await settled(one, [3, 3]);
      await two.kill();
      await settled(one, [6]);
      const later = await publish(one, 7);
      assert.equal(later.length, 7);
      await receiver.waitForAll('events after a takeover', streams, later);
    },
  );

  test(
    'nodes behind a pooler that refuses LISTEN deliver events of other nodes, but later',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t, { pooled: true });
      const receiver = await startCountingReceiver(t);
      const [one, two] = [await cluster.start(), await cluster.start()];
      await createStream(one, receiver.url, 'first');
      await createStream(two, receiver.url, 'second');
      await settled(one, [1, 1]);
      for (const node of [one, two]) {
        const ids = await publish(node, 7);
        assert.equal(ids.length, 7);
        await receiver.waitForAll('the events at both streams', ['first', 'second'], ids);
      }
      assert.match(one.output(), /LISTEN/);
      assert.equal(await one.stop(), 0);
      await settled(two, [2]);
    },
  );

  test('a node that was suspended for days delivers again', { tags: ['long'] }, async (t) => {
    const cluster = await startCluster(t);
    const receiver = await startCountingReceiver(t);
    const [one, two] = [await cluster.start(), await cluster.start()];
    const streams = ['first', 'second', 'third', 'fourth'];
    for (const name of streams.slice(0, 2)) await createStream(one, receiver.url, name);
    await settled(one, [1, 1]);
    two.child.kill('SIGSTOP');
    await settled(one, [2]);
    await cluster.query(`
      update nodes set lease_until = lease_until - interval '2 days'
      where lease_until < clock_timestamp()`);
    for (const name of streams.slice(2)) await createStream(one, receiver.url, name);
    await waitFor('a node that is forgotten', async () => {
      const nodes = await cluster.query(`select id from nodes`);
      return nodes.length === 1;
    });
    two.child.kill('SIGCONT');
    await settled(one, [2, 2]);
    const ids = await publish(two, 7);
    await receiver.waitForAll('the events at every stream', streams, ids);
    assert.doesNotMatch(two.output(), /Another process/);
    assert.equal(await two.stop(), 0);
  });

  test(
    'leat nodes prints how many streams each running node owns',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await startCountingReceiver(t);
      const node = await cluster.start();
      await createStream(node, receiver.url, 'only');
      await settled(node, [1]);
      const [shown] = await nodesOf(node);
      const [database] = await cluster.query<{ name: string }>('select current_database() as name');
      const { code, output } = await runLeat(['nodes'], {
        LEAT_STORE: cluster.server.url(database?.name),
        LEAT_SECRET_KEY: secretKey.toString('base64'),
      });
      assert.equal(code, 0);
      assert.match(output, new RegExp(`^NODE.*\\n${shown?.id} +1 +\\d+\\.\\d s.*\\n$`));
    },
  );

  test(
    'a change at one node is in force at the owner before the response',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await startCountingReceiver(t);
      const first = await cluster.start();
      const id = await createStream(first, receiver.url, 'changing');
      await settled(first, [1]);
      const [shown] = await nodesOf(first);
      const second = await cluster.start();
      const patch = async (node: Running, status: 'enabled' | 'disabled'): Promise<void> => {
        const response = await node.send('PATCH', `/api/v2/event-streams/${id}`, { status });
        assert.equal(response.status, 200);
      };
      for (let round = 0; round < rounds({ few: 2, all: 10 }); round++) {
        // The owner of a disabled stream releases it, and then either node may claim it.
        await settled(first, [1, 0]);
        const owning = (await nodesOf(first)).find(({ streams }) => streams === 1);
        const [owner, other] = owning?.id === shown?.id ? [first, second] : [second, first];
        await patch(other, 'disabled');
        const before = receiver.total();
        const unwanted = await publish(owner, 7);
        assert.equal(unwanted.length, 7);
        await patch(owner, 'enabled');
        const wanted = await publish(other, 1);
        assert.equal(wanted.length, 1);
        await receiver.waitForAll('an event of the enabled time', ['changing'], wanted);
        assert.equal(receiver.total(), before + 1, 'nothing of the disabled time was sent');
      }
    },
  );

  test(
    'after the response to a pause at any node no attempt begins, until it is resumed',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await startCountingReceiver(t);
      const [one, two] = [await cluster.start(), await cluster.start()];
      const names = ['first', 'second'];
      const ids: string[] = [];
      for (const name of names) ids.push(await createStream(one, receiver.url, name));
      await settled(one, [1, 1]);
      const post = async (node: Running, path: string, body: object = {}) => {
        const response = await node.send('POST', `/api/v2/event-streams/${path}`, body);
        return (await response.json()) as { id: string; state: string };
      };
      const all: string[] = [];
      const testAll = async (node: Running): Promise<void> => {
        for (const [index, id] of ids.entries()) {
          const tested = await post(node, `${id}/test`, { event_type: eventType });
          await receiver.waitForAll('a test event', names.slice(index, index + 1), [tested.id]);
        }
      };
      for (let round = 0; round < rounds({ few: 2, all: 10 }); round++) {
        const [node, other] = round % 2 === 0 ? [one, two] : [two, one];
        const publishing = publish(other, 100);
        for (const id of ids) assert.equal((await post(node, `${id}/pause`)).state, 'paused');
        all.push(...(await publishing));
        // Test events are sent: what was under way before has arrived by then.
        await testAll(node);
        const before = receiver.total();
        all.push(...(await publish(node, 50)), ...(await publish(other, 50)));
        await testAll(other);
        assert.equal(receiver.total(), before + 2, 'the test events only');
        for (const id of ids) assert.notEqual((await post(other, `${id}/resume`)).state, 'paused');
        assert.equal(all.length, 200 * (round + 1));
        await receiver.waitForAll('everything that waited', names, all);
      }
    },
  );
});
