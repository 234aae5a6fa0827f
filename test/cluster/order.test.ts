import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test, type TestContext } from 'node:test';
import { expectBody, freshType } from '../helpers/api-client.ts';
import { startCluster } from '../helpers/cluster.ts';
import { type Envelope, startEndpoint } from '../helpers/endpoint.ts';
import { type Running, waitFor } from '../helpers/leat.ts';
import { rounds } from '../helpers/rounds.ts';

const users = Array.from({ length: 20 }, (_, index) => `user ${index}`);
const eventsPerRound = 12;

/** What a receiver has seen of a user. */
interface Seen {
  /** The number of the newest event; 0 for none. */
  newest: number;
  isAccepted: boolean;
  isOpen: boolean;
  /** Crashes before its last request arrived. */
  crashes: number;
}

/** A receiver that fails now and then, and notes what breaks the order. */
async function startWatch(t: TestContext) {
  const endpoint = await startEndpoint();
  t.after(() => endpoint.close());
  const seen = new Map<string, Seen>();
  const violations: string[] = [];
  const watch = { url: endpoint.url, violations, crashes: 0, accepted: 0, repeated: 0 };
  const arrived = ({ data }: Envelope) => {
    const { user, number } = data['object'] as { user: string; number: number };
    const before = seen.get(user) ?? { newest: 0, isAccepted: true, isOpen: false, crashes: 0 };
    const { newest, isAccepted, isOpen } = before;
    const isSameOwner = before.crashes === watch.crashes;
    const note = (what: string) =>
      violations.push(`${user}: ${number} ${what}, newest ${newest}, ${watch.crashes} crashes`);
    if (isOpen && isSameOwner) note('beside another');
    const isNext = number === newest + 1;
    if (isNext && !isAccepted) note('before the one before is accepted');
    if (!isNext && number !== newest) note('out of order');
    if (number === newest && isAccepted && isSameOwner) note('again without a crash');
    if (number === newest && isAccepted) watch.repeated += 1;
    const now = { newest: number, isAccepted: false, isOpen: true, crashes: watch.crashes };
    seen.set(user, now);
    return { now, isNext, wasAccepted: number === newest && isAccepted };
  };
  endpoint.respondWith((response, { event }) => {
    const { now, isNext, wasAccepted } = arrived(event);
    const fails = isNext && now.newest % 8 === 3;
    // Some attempts are under way whenever a node dies.
    setTimeout(() => {
      now.isOpen = false;
      now.isAccepted = !fails;
      if (!fails && !wasAccepted) watch.accepted += 1;
      response.writeHead(fails ? 503 : 204).end();
    }, 5);
  });
  return watch;
}

async function createOrdered(node: Running, url: string, type: string): Promise<void> {
  const stream = {
    name: 'ordered',
    subscriptions: [{ event_type: type }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: url,
        webhook_authorization: { method: 'bearer', token: 'token' },
      },
    },
    delivery: { order_by: '/data/object/user', retry: { delays_seconds: [1, 1, 1] } },
  };
  await expectBody(201, node.send('POST', '/api/v2/event-streams', stream));
}

describe('a stream that sends in order, in a cluster', () => {
  test(
    'kill -9 of its owners: no key is swapped, at most its newest event is repeated, everything arrives',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const watch = await startWatch(t);
      const type = freshType();
      let owner = await cluster.start();
      await createOrdered(owner, watch.url, type);
      let published = 0;
      /** Publishes the next events of every user, in one request after the other. */
      const publish = async (): Promise<void> => {
        const first = published / users.length + 1;
        for (let number = first; number < first + eventsPerRound; number += 1) {
          const events = users.map((user) => ({ type, data: { object: { user, number } } }));
          await expectBody(202, owner.send('POST', '/api/v2/events', events));
          published += events.length;
        }
      };
      const arrived = (what: string, count: number): Promise<boolean> =>
        waitFor(what, () => watch.accepted >= count, { progress: () => watch.accepted });

      const kills = rounds({ few: 2, all: 6 });
      for (let round = 0; round < kills; round += 1) {
        // One stream is within the share of each of two nodes, so its owner keeps it.
        const next = await cluster.start();
        const before = published;
        await publish();
        await arrived('a part of the events', before + users.length * (eventsPerRound / 3));
        await owner.kill();
        // What it sent arrives before the next owner counts.
        await sleep(50);
        watch.crashes += 1;
        owner = next;
      }
      await publish();
      await arrived('every event', published);
      assert.deepEqual(watch.violations, []);
      assert.equal(watch.accepted, published);
      const atMost = users.length * kills;
      assert.ok(watch.repeated <= atMost, `${watch.repeated} accepted events were repeated`);
      t.diagnostic(`${published} events, ${kills} crashes, ${watch.repeated} repeated`);
    },
  );
});
