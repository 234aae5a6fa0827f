import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  createStream,
  eventsOf,
  freshType,
  publishAll,
  readStream,
} from '../helpers/api-client.ts';
import { startCluster } from '../helpers/cluster.ts';
import { type Arrival, startEndpoint } from '../helpers/endpoint.ts';
import { type Running, waitFor } from '../helpers/leat.ts';
import { slots, slotSettings } from '../helpers/traffic.ts';

const eventCount = 200;
const consecutive = 20;
/** In all much longer than the outage and the takeover. */
const delaysSeconds = [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 8, 8, 10, 10, 12, 12];
const delivery = { retry: { delays_seconds: delaysSeconds } };
/** The names of nodes; each is the prefix of the attributes that the node writes into an envelope. */
const names = ['one', 'two', 'three'] as const;
type Name = (typeof names)[number];

/** Settings of a node. Rows of attempts that its kill cut off are due again after 6 s. */
const settingsOf = (name: Name) => ({
  ...slotSettings,
  LEAT_ATTRIBUTE_PREFIX: name,
  LEAT_DISABLE_CONSECUTIVE: String(consecutive),
  LEAT_ATTEMPT_TIMEOUT_MS: '1000',
});

const senderOf = ({ event }: Arrival): Name | undefined =>
  names.find((name) => event[`${name}stream`] !== undefined);

const sendersOf = (arrivals: readonly Arrival[]) => [...new Set(arrivals.map(senderOf))];

const idsOf = (arrivals: readonly Arrival[]) => new Set(arrivals.map(({ event }) => event.id));

async function startNodes(t: TestContext) {
  const cluster = await startCluster(t);
  const endpoint = await startEndpoint(503);
  t.after(() => endpoint.close());
  const one = await cluster.start(settingsOf('one'));
  const two = await cluster.start(settingsOf('two'));
  return { cluster, endpoint, nodes: { one, two } };
}

const saysDown = (node: Running): boolean =>
  /receiver of an event stream is down/.test(node.output());

describe('a receiver that is down, in a cluster', () => {
  test(
    'an outage survives kill -9 of the owner: one node tries at a time, fresh events wait, and all arrive afterwards',
    { tags: ['long'] },
    async (t) => {
      const { cluster, endpoint, nodes } = await startNodes(t);
      const sentBy = (isWanted: (name: Name | undefined) => boolean) =>
        endpoint.arrivals.filter((arrival) => isWanted(senderOf(arrival)));
      const attempts = (isWanted: (name: Name | undefined) => boolean) =>
        waitFor('attempts', () => sentBy(isWanted).length >= 2 * consecutive, {
          progress: () => endpoint.arrivals.length,
        });
      const type = freshType();
      const stream = await createStream(nodes.one, endpoint.url, { types: [type], delivery });
      const ids = await publishAll(nodes.two, eventsOf(type, eventCount));
      await attempts(() => true);
      const [owner] = sendersOf(endpoint.arrivals);
      assert.ok(owner === 'one' || owner === 'two');
      await waitFor('the log line', () => saysDown(nodes[owner]));
      const tried = idsOf(endpoint.arrivals).size;
      assert.ok(tried >= consecutive && tried < consecutive + slots, `${tried} events were tried`);
      assert.deepEqual(sendersOf(endpoint.arrivals), [owner]);

      await nodes[owner].kill();
      const survivor = nodes[owner === 'one' ? 'two' : 'one'];
      const joined = await cluster.start(settingsOf('three'));
      await attempts((name) => name !== owner);
      await waitFor('the log line of the new owner', () => saysDown(survivor) || saysDown(joined));
      const successors = sendersOf(sentBy((name) => name !== owner));
      assert.equal(successors.length, 1, `${successors.join(' and ')} took over`);
      t.diagnostic(`${owner} died, ${successors.join()} took over`);
      // The new owner takes fresh events until one more begins to wait.
      const triedByBoth = idsOf(endpoint.arrivals).size;
      assert.ok(triedByBoth <= tried + slots, `${triedByBoth} events were tried`);
      assert.equal((await readStream(survivor, stream.id)).status, 'enabled');

      const back = endpoint.arrivals.length;
      endpoint.respondWith(204);
      const arrived = () => idsOf(endpoint.arrivals.slice(back));
      await waitFor('all events', () => arrived().size === ids.length, {
        progress: () => arrived().size,
      });
      assert.deepEqual(arrived(), new Set(ids));
      assert.deepEqual(sendersOf(endpoint.arrivals.slice(back)), successors);
      const [state] = await cluster.query<{ status: string; failures: number }>(
        `select (select status from streams where id = '${stream.id}') as status,
        (select count(*)::int from deliveries where state = 'failed') as failures`,
      );
      assert.deepEqual(state, { status: 'enabled', failures: 0 });
    },
  );
});
