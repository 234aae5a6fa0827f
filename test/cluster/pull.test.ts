import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatOffset } from '../../src/core/offset.ts';
import { startCluster } from '../helpers/cluster.ts';
import { fetchToken, type Running, waitFor } from '../helpers/leat.ts';
import { eventsOf, openPull, type OpenPull, positionOf } from '../helpers/pull.ts';

const pullAt = (node: Running, query = '', token = node.token): Promise<OpenPull> =>
  openPull(`${node.url}/api/v2/events${query}`, token);

async function publish(node: Running, count: number): Promise<void> {
  const events = Array.from({ length: count }, (_, n) => ({ type: 'a.made', data: { n } }));
  const response = await node.send('POST', '/api/v2/events', events);
  assert.equal(response.status, 202, await response.text());
}

const idsOf = (pull: OpenPull): (string | undefined)[] =>
  eventsOf(pull).map(({ id }) => id && positionOf(id));

const shown = (from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, index) => formatOffset(from + index));

describe('a pull at one node', () => {
  for (const pooled of [false, true]) {
    const how = pooled ? ', also without LISTEN between nodes' : '';
    test(
      `a pull at one node receives the events of other nodes in the order of the log${how}`,
      { tags: ['long'] },
      async (t) => {
        const cluster = await startCluster(t, { pooled });
        const one = await cluster.start();
        const other = await cluster.start();
        const pulls = await Promise.all([pullAt(one), pullAt(other), pullAt(other)]);
        const publishOn = async (node: Running): Promise<void> => {
          for (let round = 0; round < 20; round += 1) await publish(node, 50);
        };
        await Promise.all([publishOn(one), publishOn(other)]);
        pulls.push(await pullAt(one, `?from=${formatOffset(0)}`));
        for (const pull of pulls) {
          await pull.events(2000);
          assert.deepEqual(idsOf(pull), shown(1, 2000));
        }
        for (const pull of pulls) pull.close();
      },
    );

    test(
      `a pull at one node ends when its client is deleted at another node${how}`,
      { tags: ['long'] },
      async (t) => {
        const cluster = await startCluster(t, { pooled });
        const one = await cluster.start();
        const other = await cluster.start();
        const created = await one.send('POST', '/api/v2/clients', { name: 'reader', global: true });
        const client = (await created.json()) as { client_id: string; client_secret: string };
        const grant = await one.send('POST', '/api/v2/client-grants', {
          client_id: client.client_id,
          audience: 'https://localhost:4444/api/v2/',
          scope: ['read:events'],
        });
        assert.equal(grant.status, 201, await grant.text());
        const { client_id: id, client_secret: secret } = client;
        const token = await fetchToken(other.url, { id, secret });
        const pull = await pullAt(other, '', token);
        const rest = await pullAt(other);
        const gone = await one.send('DELETE', `/api/v2/clients/${id}`);
        assert.equal(gone.status, 204);
        assert.equal(await pull.ended, 'complete');
        const again = await pullAt(other, '', token);
        assert.equal(again.status, 401);
        await publish(one, 1);
        await rest.events(1);
        rest.close();
      },
    );
  }
});

describe('a client whose node is killed', () => {
  test(
    'a client whose node is killed continues at another node after its last id, without loss or repeat',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const nodes = await Promise.all([cluster.start(), cluster.start()]);
      const publisher = await cluster.start();
      const until = new AbortController();
      let published = 0;
      const publishing = (async () => {
        while (!until.signal.aborted) {
          await publish(publisher, 20);
          published += 20;
        }
      })();
      const seen: (string | undefined)[] = [];
      let lastEventId: string | undefined;
      const headers = (): Record<string, string> =>
        lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
      for (let round = 0; round < 3; round += 1) {
        const node = nodes[round % 2];
        assert.ok(node !== undefined);
        const url = `${node.url}/api/v2/events?from=${formatOffset(0)}`;
        const pull = await openPull(url, node.token, headers());
        await pull.events(200 + round * 300);
        if (round === 2) {
          until.abort();
          await publishing;
          await pull.until(() => idsOf(pull).at(-1) === formatOffset(published), 'the last event');
          pull.close();
        } else {
          await node.kill();
          await pull.ended;
          nodes[round] = await cluster.start();
        }
        seen.push(...idsOf(pull));
        lastEventId = eventsOf(pull).at(-1)?.id;
      }
      assert.deepEqual(seen, shown(1, published));
    },
  );

  test('a client whose node is stopped gets a complete response', { tags: ['long'] }, async (t) => {
    const cluster = await startCluster(t);
    const node = await cluster.start();
    const pulls = await Promise.all([pullAt(node), pullAt(node)]);
    assert.equal(await node.stop(), 0);
    for (const pull of pulls) {
      assert.equal(await pull.ended, 'complete');
      assert.doesNotMatch(pull.text(), /event: error/);
    }
  });
});

describe('a pull during an outage of the database', () => {
  test(
    'a pull continues after an outage of the database, with the events published since',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const one = await cluster.start();
      const other = await cluster.start();
      const pull = await pullAt(other);
      await publish(one, 10);
      await pull.events(10);
      cluster.proxy.refuse();
      await waitFor('both nodes to notice', async () => {
        const responses = await Promise.all(
          [one, other].map((node) => fetch(`${node.url}/readyz`)),
        );
        return responses.every(({ status }) => status === 503);
      });
      cluster.proxy.restore();
      await waitFor('the database to be back', async () => {
        const response = await one.send('POST', '/api/v2/events', {
          type: 'a.made',
          id: 'after',
          data: {},
        });
        return response.status === 202;
      });
      await pull.events(11);
      assert.deepEqual(idsOf(pull), shown(1, 11));
      pull.close();
    },
  );
});
