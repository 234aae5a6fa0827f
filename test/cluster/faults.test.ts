import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { type Cluster, nodesOf, settled, startCluster } from '../helpers/cluster.ts';
import { type Running, waitFor } from '../helpers/leat.ts';
import {
  type CountingReceiver,
  createStream,
  publish,
  publishOn,
  startCountingReceiver,
} from '../helpers/traffic.ts';

const slots = 16;
/** design: the slots, the 256 events that may settle above the cursor, one unsettled batch. */
const twiceMaxPerStream = slots + 256 + 256;
const streams = ['one', 'two', 'three', 'four'];
const timeout = 150_000;

/** Two nodes or more that share four streams, and publishers at each. */
interface World {
  readonly cluster: Cluster;
  readonly receiver: CountingReceiver;
  readonly nodes: Running[];
  readonly acknowledged: Set<string>;
  /** Publishes at a node until it ends or the traffic does. */
  publishAt(node: Running): void;
  /** Ends the traffic and checks that everything has arrived, nothing too often. */
  end(): Promise<void>;
}

async function startWorld(t: TestContext, nodeCount: number): Promise<World> {
  const cluster = await startCluster(t);
  const receiver = await startCountingReceiver();
  const ending = new AbortController();
  t.after(() => {
    ending.abort();
    receiver.close();
  });
  const settings = { LEAT_STREAM_CONCURRENCY: String(slots) };
  const nodes = await Promise.all(Array.from({ length: nodeCount }, () => cluster.start(settings)));
  const [first] = nodes;
  assert.ok(first);
  for (const name of streams) await createStream(first, receiver.url, name);
  await settled(
    first,
    Array.from({ length: nodeCount }, () => streams.length / nodeCount),
  );
  const acknowledged = new Set<string>();
  const publishing: Promise<void>[] = [];
  receiver.startRound();
  return {
    cluster,
    receiver,
    nodes,
    acknowledged,
    publishAt: (node) => {
      publishing.push(publishOn(node, acknowledged, { until: ending.signal, pauseMs: 20 }));
    },
    end: async () => {
      ending.abort();
      await Promise.all(publishing);
      assert.ok(acknowledged.size > 100, `only ${acknowledged.size} events were published`);
      await waitFor(
        'every acknowledged event at every stream',
        () =>
          streams.every((name) => [...acknowledged].every((id) => receiver.seen(`/${name}${id}`))),
        60_000,
      );
      const twice = receiver.mostTwiceInOneRound();
      assert.ok(twice <= twiceMaxPerStream * streams.length, `${twice} events came twice`);
      t.diagnostic(`${acknowledged.size} acknowledged; at most ${twice} requests again in a round`);
    },
  };
}

describe('processes that die', { timeout }, () => {
  test('kill -9 of nodes at random while they publish and deliver', async (t) => {
    const world = await startWorld(t, 2);
    const { cluster, nodes, receiver } = world;
    for (const node of nodes) world.publishAt(node);
    for (let round = 0; round < 6; round++) {
      receiver.startRound();
      await pause(Math.random() * 1500);
      const [node] = nodes.splice(Math.floor(Math.random() * nodes.length), 1);
      await node?.kill();
      const next = await cluster.start({ LEAT_STREAM_CONCURRENCY: String(slots) });
      nodes.push(next);
      world.publishAt(next);
    }
    await world.end();
  });

  test('a node that is frozen past its lease does nothing more when it wakes', async (t) => {
    const world = await startWorld(t, 2);
    const { cluster, nodes, receiver } = world;
    const [frozen, other] = nodes;
    assert.ok(frozen && other);
    // Events wait in the memory of both when it stops, and attempts are under way.
    receiver.holding = true;
    for (let batch = 0; batch < 5; batch++) {
      for (const id of await publish(other, 100)) world.acknowledged.add(id);
    }
    await waitFor('attempts under way', () => receiver.total() >= slots * streams.length);
    frozen.child.kill('SIGSTOP');
    receiver.holding = false;
    await settled(other, [4]);
    await waitFor('everything by the other node', () =>
      streams.every((name) =>
        [...world.acknowledged].every((id) => receiver.seen(`/${name}${id}`)),
      ),
    );
    const state = () =>
      cluster.ask(`
        select (select json_agg(r order by stream) from (
            select stream, cursor, run, total_failures, owner, epoch from runs) r) as runs,
          (select count(*)::int from deliveries) as rows,
          (select count(*)::int from attempts) as attempts`);
    await waitFor('a quiet store', async () => {
      const before = JSON.stringify(await state());
      await pause(500);
      return JSON.stringify(await state()) === before;
    });
    const before = await state();
    const requests = receiver.total();
    frozen.child.kill('SIGCONT');
    // It has joined in again once its lease is renewed, and takes streams by right only then.
    await waitFor('its next heartbeat', async () => {
      const alive = (await nodesOf(other)).filter(({ lease_ms: leaseMs }) => leaseMs > 0);
      if (alive.length === 1) {
        assert.deepEqual(await state(), before);
        assert.equal(receiver.total(), requests);
      }
      return alive.length === 2;
    });
    await settled(other, [2, 2]);
    assert.equal(receiver.total(), requests, 'no attempt was started');
    await world.end();
  });
});

describe('a store that is away', { timeout }, () => {
  /** The API says so, in time, and never anything else than a 202 or a 503. */
  const refuses = async (node: Running): Promise<void> => {
    const answer = await waitFor('a 503', async () => {
      const answered = await node.send('POST', '/api/v2/events', { type: 'a.b', data: {} });
      await answered.arrayBuffer();
      assert.ok([202, 503].includes(answered.status), `${answered.status}`);
      return answered.status === 503 ? answered : undefined;
    });
    assert.equal(answer.headers.get('retry-after'), '1');
    assert.equal((await fetch(`${node.url}/readyz`)).status, 503);
    assert.equal((await fetch(`${node.url}/healthz`)).status, 200);
  };
  const accepts = (node: Running): Promise<unknown> =>
    waitFor('a 202 again', async () => (await publish(node, 1)).length === 1, 60_000);

  const outages: Record<
    string,
    { begin(cluster: Cluster): unknown; end(cluster: Cluster): unknown }
  > = {
    'PostgreSQL is restarted, fast': {
      begin: ({ server }) => server.stop('fast'),
      end: ({ server }) => server.start(),
    },
    'PostgreSQL is restarted, immediately': {
      begin: ({ server }) => server.stop('immediate'),
      end: ({ server }) => server.start(),
    },
    'the network swallows everything': {
      begin: ({ proxy }) => proxy.blackhole(),
      end: ({ proxy }) => proxy.restore(),
    },
    'the network refuses connections': {
      begin: ({ proxy }) => proxy.refuse(),
      end: ({ proxy }) => proxy.restore(),
    },
    'its disk is full': {
      begin: ({ ask }) =>
        ask(`
            create function full_disk() returns trigger language plpgsql as $$
              begin raise exception 'could not extend file' using errcode = '53100'; end $$;
            create trigger full_disk before insert or update on tenants
              for each statement execute function full_disk();
            create trigger full_disk before insert or update on nodes
              for each statement execute function full_disk();
            create trigger full_disk before insert on deliveries
              for each statement execute function full_disk()`),
      end: ({ ask }) => ask('drop function full_disk cascade'),
    },
  };
  for (const [what, outage] of Object.entries(outages)) {
    test(`${what}: nothing is lost, and it recovers by itself`, async (t) => {
      const world = await startWorld(t, 2);
      const { cluster, nodes, acknowledged } = world;
      for (const node of nodes) world.publishAt(node);
      await waitFor('some traffic', () => acknowledged.size > 500);
      const connections = cluster.proxy.accepted;
      await outage.begin(cluster);
      if (what === 'its disk is full') {
        await waitFor('a 503', async () => {
          const answer = await nodes[0]?.send('POST', '/api/v2/events', { type: 'a.b', data: {} });
          return answer?.status === 503;
        });
      } else {
        for (const node of nodes) await refuses(node);
      }
      // Longer than a lease is held, and time enough for a loop that never rests to show.
      await pause(8000);
      const tried = cluster.proxy.accepted - connections;
      await outage.end(cluster);
      for (const node of nodes) await accepts(node);
      await world.end();
      assert.ok(tried < 4000, `${tried} connections were tried meanwhile`);
      for (const node of nodes) {
        const lines = node.output().split('\n').length;
        assert.ok(lines < 40, `${lines} lines were logged:\n${node.output().slice(0, 4000)}`);
      }
    });
  }

  test('connections that are cut in the middle of transactions', async (t) => {
    const world = await startWorld(t, 2);
    for (const node of world.nodes) world.publishAt(node);
    for (let cuts = 0; cuts < 60; cuts++) {
      await pause(Math.random() * 150);
      world.cluster.proxy.cut();
    }
    await world.end();
  });

  test('a commit whose answer is lost is not done twice', async (t) => {
    const world = await startWorld(t, 1);
    const { cluster, nodes } = world;
    const [node] = nodes;
    assert.ok(node);
    for (let round = 0; round < 10; round++) {
      const lost = cluster.proxy.loseAnswerTo('commit');
      const ids = await publish(node, 40);
      for (const id of ids) world.acknowledged.add(id);
      await lost;
    }
    await world.end();
    const [history] = await cluster.ask<{ twice: number }>(`
      select count(*)::int as twice from (
        select 1 from attempts group by stream_key, "offset" having count(*) > 1) as repeated`);
    assert.deepEqual(history, { twice: 0 });
    const stats = await cluster.ask<{ delivered: number }>(
      'select sum(delivered)::int as delivered from stream_stats group by stream',
    );
    assert.deepEqual(
      stats.map(({ delivered }) => delivered),
      streams.map(() => world.acknowledged.size),
    );
  });

  test('a result that PostgreSQL refuses is recorded without its text', async (t) => {
    const world = await startWorld(t, 1);
    const { cluster, nodes } = world;
    const [node] = nodes;
    assert.ok(node);
    await cluster.ask(`
      create function refuse_bytes() returns trigger language plpgsql as $$
        begin raise exception 'invalid byte sequence' using errcode = '22021'; end $$;
      create trigger refuse_bytes before insert on attempts
        for each row when (new.error like '%ECONNREFUSED%')
        execute function refuse_bytes()`);
    const bad = await createStream(node, 'http://127.0.0.1:1', 'nobody');
    for (let batch = 0; batch < 4; batch++) {
      for (const id of await publish(node, 40)) world.acknowledged.add(id);
    }
    await world.end();
    const texts = await waitFor('the history of the refused', async () => {
      const rows = await cluster.ask<{ error: string | null; count: number }>(`
        select a.error, count(*)::int from attempts a join runs r on r.key = a.stream_key
        where r.stream = '${bad}' group by a.error`);
      return rows.length > 0 ? rows : undefined;
    });
    for (const { error } of texts) assert.doesNotMatch(error ?? '', /ECONN/);
  });
});

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
