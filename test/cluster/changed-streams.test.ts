import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { settled, startCluster } from '../helpers/cluster.ts';
import { createTempStore, type Running, startLeat, waitFor } from '../helpers/leat.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { createStream, eventType, publish } from '../helpers/traffic.ts';

type Sent = readonly [method: string, path: string, body: object];

const patch = (body: object): Sent => ['PATCH', '', body];
const selected = (...types: string[]): object => ({
  subscriptions: [eventType, ...types].map((type) => ({ event_type: type })),
});
const delivery = (options: object): Sent => patch({ delivery: options });

/** Requests that make the owner read the stream again; the receiver still is to get every event. */
const changes: Readonly<Record<string, (round: number, origin: string) => readonly Sent[]>> = {
  subscriptions: (round) => [patch(selected(`a.b${round}`))],
  'subscriptions and back': (round) => [patch(selected(`a.b${round}`)), patch(selected())],
  filter: (round) => [delivery({ filter: { 'data.object.round': { $ne: round } } })],
  'another endpoint': (round, origin) => [
    patch({
      destination: {
        type: 'webhook',
        configuration: {
          webhook_endpoint: `${origin}/${round}`,
          webhook_authorization: { method: 'bearer', token: `token ${round}` },
        },
      },
    }),
  ],
  'a pause': () => [
    ['POST', '/pause', {}],
    ['POST', '/resume', {}],
  ],
  'enabling with what was held': () => [
    patch({ status: 'disabled' }),
    patch({ status: 'enabled', resume: 'held' }),
  ],
  'delivery options': (round) => [
    delivery({ concurrency: 1 + (round % 4) }),
    delivery({ timeout_ms: 5000 + round }),
  ],
  order: () => [delivery({ order_by: '/data/object/user' }), patch({ delivery: null })],
  'another signing secret': () => [['POST', '/signing-secret/rotate', { force: true }]],
  'another name': (round) => [patch({ name: `name ${round}` })],
};

/** Those that select events are the ones that an owner may learn of too late. */
const rounds = (name: string): number => (/^(subscriptions|filter)/.test(name) ? 10 : 3);

for (const { engine, start } of [
  { engine: 'SQLite', start: startOnSqlite },
  { engine: 'PostgreSQL', start: startOnPostgres },
]) {
  describe(`${engine}: a stream that is changed under traffic`, () => {
    for (const [name, requestsOf] of Object.entries(changes)) {
      test(`a healthy receiver gets each event once: ${name}`, { tags: ['long'] }, async (t) => {
        const traffic = await startTraffic(t, await start(t));
        for (let round = 0; round < rounds(name); round += 1) {
          for (const [method, path, body] of requestsOf(round, traffic.origin)) {
            await traffic.more(50);
            await traffic.send(method, path, body);
          }
        }
        await traffic.end();
      });
    }
  });
}

describe('PostgreSQL: a stream that goes to another node under traffic', () => {
  test(
    'a healthy receiver gets each event once while nodes join and leave',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const node = await cluster.start();
      const traffic = await startTraffic(t, node, ['one', 'two']);
      for (let round = 0; round < 3; round += 1) {
        const other = await cluster.start();
        await settled(node, [1, 1]);
        await traffic.more(50);
        await traffic.send('PATCH', '', selected(`a.b${round}`));
        await traffic.more(50);
        await other.stop();
        await settled(node, [2]);
      }
      await traffic.end();
    },
  );
});

async function startOnSqlite(t: TestContext): Promise<Running> {
  const tempStore = await createTempStore();
  const node = await startLeat(tempStore, {});
  t.after(async () => {
    await node.kill();
    await tempStore.remove();
  });
  return node;
}

async function startOnPostgres(t: TestContext): Promise<Running> {
  const cluster = await startCluster(t);
  return cluster.start();
}

/** Publishes steadily until the end, to streams whose receiver accepts everything. */
async function startTraffic(t: TestContext, node: Running, names = ['all']) {
  const receiver = await startReceiver();
  t.after(() => receiver.close());
  const streams: string[] = [];
  for (const name of names) streams.push(await createStream(node, receiver.origin, name));
  const acknowledged: string[] = [];
  const ending = new AbortController();
  t.after(() => ending.abort());
  const publishing = Array.from({ length: 4 }, async () => {
    while (!ending.signal.aborted) acknowledged.push(...(await publish(node, 5)));
  });
  // Of several streams the path tells them apart; that of one may change.
  const received = (): string[] =>
    receiver.requests.map(({ path, headers }) =>
      [names.length > 1 ? path : '', headers['webhook-id']].join(' '),
    );
  return {
    origin: receiver.origin,
    send: async (method: string, path: string, body: object) => {
      for (const id of streams) {
        const response = await node.send(method, `/api/v2/event-streams/${id}${path}`, body);
        assert.equal(response.status, 200, await response.text());
      }
    },
    more: async (events: number) => {
      const wanted = acknowledged.length + events;
      await waitFor('more events', () => acknowledged.length >= wanted);
    },
    end: async () => {
      ending.abort();
      await Promise.all(publishing);
      const count = acknowledged.length * names.length;
      await waitFor('every event', () => new Set(received()).size >= count, {
        progress: () => String(received().length),
      });
      const times = Map.groupBy(received(), (event) => event);
      const repeated = [...times.values()].filter(({ length }) => length > 1);
      assert.deepEqual(repeated, [], `of ${times.size}`);
      assert.equal(times.size, count);
    },
  };
}
