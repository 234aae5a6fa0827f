import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Cluster } from '../helpers/cluster.ts';
import { freePort, type Running, waitFor } from '../helpers/leat.ts';
import { rounds } from '../helpers/rounds.ts';
import { createStream, publish } from '../helpers/traffic.ts';
import { pause, startClusterTraffic, streams } from '../helpers/cluster-traffic.ts';

interface Outage {
  begin(cluster: Cluster): unknown;
  end(cluster: Cluster): unknown;
  readonly lastsMs?: number;
}

// Concurrent, as they mostly wait for leases and timeouts.
describe('an unavailable store', { concurrency: 2 }, () => {
  /** The API reports it in time, and every status is 202 or 503. */
  const refuses = async (node: Running): Promise<void> => {
    const refused = await waitFor('a 503', async () => {
      const attempt = await node.send('POST', '/api/v2/events', { type: 'a.b', data: {} });
      await attempt.arrayBuffer();
      assert.ok([202, 503].includes(attempt.status), `${attempt.status}`);
      return attempt.status === 503 ? attempt : undefined;
    });
    assert.equal(refused.headers.get('retry-after'), '1');
    await waitFor('a node that is not ready', async () => {
      return (await fetch(`${node.url}/readyz`)).status === 503;
    });
    assert.equal((await fetch(`${node.url}/healthz`)).status, 200);
  };
  const accepts = (node: Running): Promise<unknown> =>
    waitFor('a 202 again', async () => (await publish(node, 1)).length === 1);

  const outages: Record<string, Outage> = {
    'PostgreSQL is restarted, immediately': {
      begin: ({ server }) => server.stop('immediate'),
      end: ({ server }) => server.start(),
    },
    'the network swallows everything': {
      begin: ({ proxy }) => proxy.blackhole(),
      end: ({ proxy }) => proxy.restore(),
    },
    'its disk is full': {
      begin: ({ query }) =>
        query(`
            create function full_disk() returns trigger language plpgsql as $$
              begin raise exception 'could not extend file' using errcode = '53100'; end $$;
            create trigger full_disk before insert or update on tenants
              for each statement execute function full_disk();
            create trigger full_disk before insert or update on nodes
              for each statement execute function full_disk();
            create trigger full_disk before insert on deliveries
              for each statement execute function full_disk()`),
      end: ({ query }) => query('drop function full_disk cascade'),
    },
    'PostgreSQL is restarted, fast': {
      begin: ({ server }) => server.stop('fast'),
      end: ({ server }) => server.start(),
      lastsMs: 8000,
    },
    'the network refuses connections': {
      begin: ({ proxy }) => proxy.refuse(),
      end: ({ proxy }) => proxy.restore(),
    },
  };
  const played = rounds({ few: 2, all: Object.keys(outages).length });
  for (const [what, outage] of Object.entries(outages).slice(0, played)) {
    test(
      `${what}: nothing is lost, and it recovers automatically`,
      { tags: ['long'] },
      async (t) => {
        const traffic = await startClusterTraffic(t, 2);
        const { cluster, nodes } = traffic;
        for (const node of nodes) traffic.publishAt(node);
        // The rest is published during the outage and after it.
        traffic.permit(1500);
        await traffic.acknowledgedMore(500);
        const connections = cluster.proxy.accepted;
        await outage.begin(cluster);
        for (const node of nodes) await refuses(node);
        // Once longer than a lease; always long enough to notice a busy loop.
        await pause(outage.lastsMs ?? 2000);
        const tried = cluster.proxy.accepted - connections;
        await outage.end(cluster);
        for (const node of nodes) await accepts(node);
        await traffic.end();
        assert.ok(tried < 4000, `${tried} connections were tried`);
        for (const node of nodes) {
          const memory = residentMegabytes(node.child.pid);
          assert.ok(memory === undefined || memory < 500, `${memory} MB`);
          const lines = node.output().split('\n').length;
          assert.ok(lines < 40, `${lines} lines were logged:\n${node.output().slice(0, 4000)}`);
        }
      },
    );
  }

  test(
    'connections that are cut during transactions lose nothing',
    { tags: ['long'] },
    async (t) => {
      const traffic = await startClusterTraffic(t, 2);
      for (const node of traffic.nodes) traffic.publishAt(node);
      for (let cuts = 0; cuts < rounds({ few: 8, all: 60 }); cuts++) {
        traffic.permit(40);
        await traffic.acknowledgedMore(Math.random() * 30);
        traffic.cluster.proxy.cut();
      }
      await traffic.end();
    },
  );

  test('a commit whose result is lost is not repeated', { tags: ['long'] }, async (t) => {
    const traffic = await startClusterTraffic(t, 1);
    const { cluster, nodes } = traffic;
    const [node] = nodes;
    assert.ok(node);
    for (let round = 0; round < rounds({ few: 3, all: 10 }); round++) {
      // Of changes of several statements: a single one begins and commits at once.
      const lost = cluster.proxy.loseAnswerTo('commit', ['begin', 'reset session']);
      const ids = await publish(node, 40);
      for (const id of ids) traffic.acknowledged.add(id);
      await lost;
    }
    await traffic.end();
    const recorded = async (): Promise<number[]> => {
      const stats = await cluster.query<{ delivered: number }>(
        'select sum(delivered)::int as delivered from stream_stats group by stream',
      );
      return stats.map(({ delivered }) => delivered);
    };
    // The last results are recorded shortly after the receiver has responded.
    const expected = streams.map(() => traffic.acknowledged.size);
    const all = expected.reduce((sum, count) => sum + count, 0);
    await waitFor('every result to be recorded', async () => {
      return (await recorded()).reduce((sum, count) => sum + count, 0) >= all;
    });
    const [history] = await cluster.query<{ twice: number }>(`
      select count(*)::int as twice from (
        select 1 from attempts group by stream_key, event_key having count(*) > 1) as repeated`);
    assert.deepEqual(history, { twice: 0 });
    assert.deepEqual(await recorded(), expected);
  });

  test(
    'a result that PostgreSQL refuses is recorded without its text',
    { tags: ['long'] },
    async (t) => {
      const traffic = await startClusterTraffic(t, 1);
      const { cluster, nodes } = traffic;
      const [node] = nodes;
      assert.ok(node);
      await cluster.query(`
      create function refuse_bytes() returns trigger language plpgsql as $$
        begin raise exception 'invalid byte sequence' using errcode = '22021'; end $$;
      create trigger refuse_bytes before insert on attempts
        for each row when (new.error like '%ECONNREFUSED%')
        execute function refuse_bytes()`);
      const bad = await createStream(node, `http://127.0.0.1:${await freePort()}`, 'nobody');
      for (let batch = 0; batch < 4; batch++) {
        for (const id of await publish(node, 40)) traffic.acknowledged.add(id);
      }
      await traffic.end();
      const texts = await waitFor('the history of the refused', async () => {
        const rows = await cluster.query<{ error: string | null }>(`
        select distinct a.error from attempts a join runs r on r.key = a.stream_key
        where r.stream = '${bad}'`);
        return rows.length > 0 ? rows : undefined;
      });
      assert.deepEqual(texts, [{ error: 'refused' }]);
    },
  );
});

/** Where the system has it in a file. */
function residentMegabytes(pid: number | undefined): number | undefined {
  const file = `/proc/${pid}/status`;
  if (!existsSync(file)) return undefined;
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(file, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}
