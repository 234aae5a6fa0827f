import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/leat.ts';
import { begin, headOf, pathOf, read, waitUntilOver } from '../helpers/replays.ts';
import {
  expectBody,
  createStream,
  eventsOf,
  freshType,
  publishAll,
} from '../helpers/api-client.ts';
import { slots, slotSettings } from '../helpers/traffic.ts';

const eventCount = 1000;

describe('a replay in a cluster', () => {
  test(
    'a replay continues at another node when its own dies, and loses none of its events',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const endpoint = await startEndpoint();
      t.after(() => endpoint.close());
      const first = await cluster.start(slotSettings);
      const type = freshType();
      const stream = await createStream(first, endpoint.url, { types: [type] });
      const from = await headOf(first);
      const ids = await publishAll(first, eventsOf(type, eventCount));
      const seen = (since: number) =>
        new Set(endpoint.arrivals.slice(since).map(({ event }) => event.id));
      await waitFor('the events for the first time', () => seen(0).size === eventCount);
      const before = endpoint.arrivals.length;
      endpoint.respondWith((response) => setTimeout(() => response.writeHead(204).end(), 20));
      // One stream is within the share of each of two nodes, so its owner keeps it.
      const other = await cluster.start(slotSettings);
      const replay = await begin(first, stream, { from });
      await waitFor('a third of it', () => endpoint.arrivals.length > before + eventCount / 3);

      await first.kill();
      assert.equal((await read(other, stream, replay)).status, 'running');
      const { status, matched, sent, failed } = await waitUntilOver(other, stream, replay);
      assert.deepEqual([status, matched, sent, failed], ['done', eventCount, eventCount, 0]);
      const arrived = seen(before);
      assert.ok(ids.every((id) => arrived.has(id)));
    },
  );

  test(
    'a replay that is cancelled at any node begins no attempt afterwards',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const endpoint = await startEndpoint();
      t.after(() => endpoint.close());
      const nodes = await Promise.all([cluster.start(slotSettings), cluster.start(slotSettings)]);
      for (const [index, node] of nodes.entries()) {
        const other = nodes[1 - index];
        assert.ok(other);
        const type = freshType();
        const stream = await createStream(node, endpoint.url, { types: [type] });
        const from = await headOf(node);
        const before = endpoint.arrivals.length;
        await publishAll(node, eventsOf(type, 300));
        await waitFor('the events', () => endpoint.arrivals.length >= before + 300);
        endpoint.respondWith((response) => setTimeout(() => response.writeHead(204).end(), 20));
        const replay = await begin(node, stream, { from });
        await waitFor('some of them again', () => endpoint.arrivals.length > before + 330);
        await expectBody(204, other.send('DELETE', `${pathOf(stream)}/${replay.id}`));
        const begun = endpoint.arrivals.length;
        const marks = await publishAll(node, eventsOf(type, 3));
        await waitFor('fresh events', () => marks.every((id) => endpoint.of(id).length > 0));
        // Requests in progress at the time of the response may arrive after it.
        const late = endpoint.arrivals.length - begun - marks.length;
        assert.ok(late <= slots, `${late} came afterwards`);
        const quiet = endpoint.arrivals.length;
        const [last = ''] = await publishAll(node, eventsOf(type, 1));
        await waitFor('one more event', () => endpoint.of(last).length > 0);
        assert.equal(endpoint.arrivals.length, quiet + 1);
        assert.equal((await read(node, stream, replay)).status, 'cancelled');
        endpoint.respondWith(204);
      }
    },
  );
});
