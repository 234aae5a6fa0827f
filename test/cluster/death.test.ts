import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { settled } from '../helpers/cluster.ts';
import { waitFor } from '../helpers/leat.ts';
import { publish, slots, slotSettings } from '../helpers/traffic.ts';
import { rounds } from '../helpers/rounds.ts';
import { startClusterTraffic, streams } from '../helpers/cluster-traffic.ts';

const eventsPerRound = 500;

describe('processes that die', { concurrency: 2 }, () => {
  test(
    'kill -9 of nodes at random while they publish and deliver',
    { tags: rounds({ few: [], all: ['long'] }) },
    async (t) => {
      const traffic = await startClusterTraffic(t, 2);
      const { cluster, nodes, receiver } = traffic;
      for (const node of nodes) traffic.publishAt(node);
      for (let round = 0; round < rounds({ few: 2, all: 6 }); round++) {
        receiver.startRound();
        traffic.permit(eventsPerRound);
        await traffic.acknowledgedMore(Math.random() * eventsPerRound * 0.8);
        const [node] = nodes.splice(Math.floor(Math.random() * nodes.length), 1);
        await node?.kill();
        const next = await cluster.start(slotSettings);
        nodes.push(next);
        traffic.publishAt(next);
      }
      await traffic.end();
    },
  );

  test(
    'a node that was frozen past its lease sends nothing when it continues',
    { tags: ['long'] },
    async (t) => {
      const traffic = await startClusterTraffic(t, 2);
      const { cluster, nodes, receiver } = traffic;
      const [frozen, other] = nodes;
      assert.ok(frozen && other);
      // Events wait in the memory of both when it stops, and attempts are in progress.
      receiver.holding = true;
      for (let batch = 0; batch < 5; batch++) {
        for (const id of await publish(other, 100)) traffic.acknowledged.add(id);
      }
      await waitFor('attempts in progress', () => receiver.total() >= slots * streams.length, {
        progress: receiver.total,
      });
      frozen.child.kill('SIGSTOP');
      receiver.holding = false;
      await settled(other, [4]);
      await receiver.waitForAll('everything by the other node', streams, traffic.acknowledged);
      await waitFor('every result to be recorded', async () => {
        const [found] = await cluster.query<{ open: boolean }>(`
          select exists (select 1 from deliveries) or exists (
            select 1 from runs r join tenants t on t.id = r.tenant
            where r.cursor < t.head) as open`);
        return found?.open === false;
      });
      const progress = () =>
        cluster.query(`
          select (select json_agg(r order by stream) from (
              select stream, cursor, run, total_failures from runs) r) as runs,
            (select count(*)::int from deliveries) as rows,
            (select count(*)::int from attempts) as attempts`);
      // By one statement: what a node says of the others may be older than what they own.
      const ownership = async (): Promise<{ owners: string[]; alive: number }> => {
        const [found] = await cluster.query<{ owners: string[]; alive: number }>(`
          select (select array_agg(distinct owner) from runs where owner is not null) as owners,
            (select count(*)::int from nodes where lease_until > clock_timestamp()) as alive`);
        assert.ok(found);
        return found;
      };
      const [recorded, requests] = [await progress(), receiver.total()];
      const former = await ownership();
      assert.equal(former.alive, 1);
      frozen.child.kill('SIGCONT');
      // Once its lease is renewed it has joined again and may claim streams.
      await waitFor('its next heartbeat', async () => {
        const { owners, alive } = await ownership();
        if (alive === 1) assert.deepEqual(owners, former.owners);
        assert.deepEqual(await progress(), recorded, 'no late result was recorded');
        return alive === 2;
      });
      await settled(other, [2, 2]);
      assert.deepEqual(await progress(), recorded, 'no late result was recorded');
      assert.equal(receiver.total(), requests, 'no attempt was started');
      await traffic.end();
    },
  );
});
