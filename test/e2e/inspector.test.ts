import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Scope, startCluster } from '../helpers/cluster.ts';
import { startDns } from '../helpers/dns.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import {
  createTempStore,
  runLeat,
  type Running,
  startFreshLeat,
  startLeat,
  storeEnvironment,
  waitFor,
} from '../helpers/leat.ts';
import {
  createStream,
  destination,
  eventsOf,
  expectBody,
  failuresOf,
  freshType,
  patchStream,
  publish,
  publishAll,
  statsOf,
  streamBody,
  token,
  waitForStats,
  type ProblemBody,
  type StreamBody,
} from '../helpers/api-client.ts';

const newInspector = 'https://new.inspector.invalid/';

interface Received {
  readonly received: readonly {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly signature: string;
    readonly status?: number;
    readonly error?: string;
  }[];
  readonly answer: object;
}

function receivedOf(leat: Running, id: string): Promise<Received> {
  return expectBody(200, leat.send('GET', `/api/v2/event-streams/${id}/received`));
}

/** Waits until a stream's inspector has responded to this many requests; returns them, oldest first. */
async function waitForReceived(leat: Running, id: string, count: number) {
  return waitFor(`${count} requests at the inspector`, async () => {
    const { received } = await receivedOf(leat, id);
    const ended = received.filter(({ status, error }) => (status ?? error) !== undefined);
    return ended.length >= count ? ended.toReversed() : undefined;
  });
}

async function startOnPostgres(t: Scope, settings: Readonly<Record<string, string>>) {
  return (await startCluster(t)).start(settings);
}

for (const [engine, start] of [
  ['SQLite', startFreshLeat],
  ['PostgreSQL', startOnPostgres],
] as const) {
  describe(`${engine}: the inspector of a stream`, () => {
    let dns: Awaited<ReturnType<typeof startDns>>;
    let leat: Running;
    let close: () => Promise<void>;
    before(async () => {
      dns = await startDns(() => 'no such name');
      leat = await start(
        { after: (end) => (close = end) },
        {
          LEAT_DNS_SERVERS: dns.servers.join(','),
          LEAT_RETRY_DELAYS_MS: '10,20,30',
          LEAT_EGRESS_ALLOW: '127.0.0.1',
        },
      );
    });
    after(async () => {
      await close();
      await dns.close();
    });

    test(
      'the inspector of a stream is tried out from the first request to a real endpoint',
      { tags: ['long'] },
      async (t) => {
        const type = freshType();
        const stream = await createStream(leat, newInspector, { types: [type] });
        const { id } = stream;
        const own = `https://${id}.inspector.invalid/`;
        assert.equal(stream.destination.configuration.webhook_endpoint, own);

        // Received, and signed.
        const first = await publish(leat, type, { name: 'Zoë' });
        const [received] = await waitForReceived(leat, id, 1);
        assert.ok(received);
        assert.equal(received.headers['webhook-id'], first);
        assert.equal(received.headers['authorization'], '***');
        assert.ok(!JSON.stringify(received).includes(token));
        const { data } = JSON.parse(received.body) as { data: object };
        assert.deepEqual(data, { object: { name: 'Zoë' } });
        assert.deepEqual([received.signature, received.status], ['valid', 204]);

        // Three failures, and the retries after them.
        const answer = { status: 503, delay_ms: 0, times: 3 };
        await expectBody(
          200,
          leat.send('PUT', `/api/v2/event-streams/${id}/received/answer`, answer),
        );
        const retried = await publish(leat, type);
        const all = await waitForReceived(leat, id, 5);
        assert.deepEqual(
          all
            .slice(1)
            .map(({ headers, signature, status }) => [headers['webhook-id'], signature, status]),
          [503, 503, 503, 204].map((status) => [retried, 'valid', status]),
        );
        await waitForStats(leat, id, { delivered: 2 });
        assert.deepEqual(await failuresOf(leat, id), []);

        // No other stream may use it.
        const refused = await expectBody<ProblemBody>(
          400,
          leat.send('POST', '/api/v2/event-streams', streamBody(own)),
        );
        assert.match(refused.message, /The inspector of a new event stream is https:\/\/new\./);

        // A real endpoint receives the next event, the inspector no more.
        const endpoint = await startEndpoint();
        t.after(() => endpoint.close());
        await patchStream(leat, id, { destination: destination(endpoint.url) });
        const last = await publish(leat, type);
        assert.equal((await endpoint.arrival(1)).event.id, last);
        assert.equal((await receivedOf(leat, id)).received.length, 5);
        assert.deepEqual(dns.questions, []);
      },
    );

    test(
      'the inspector of a stream receives many events slowly and loses none',
      { tags: ['long'] },
      async () => {
        const type = freshType();
        const { id } = await createStream(leat, newInspector, { types: [type] });
        await publishAll(leat, eventsOf(type, 80));
        await waitForStats(leat, id, { delivered: 80 });
        assert.deepEqual(await statsOf(leat, id), { delivered: 80, failed: 0 });
        const { received } = await receivedOf(leat, id);
        assert.equal(received.length, 50);
        assert.equal(new Set(received.map(({ headers }) => headers['webhook-id'])).size, 50);
      },
    );

    test(
      'the inspector of a stream: an attempt that is answered late ends with the timeout',
      { tags: ['long'] },
      async (t) => {
        const hurried = await start(t, {
          LEAT_ATTEMPT_TIMEOUT_MS: '100',
          LEAT_RETRY_DELAYS_MS: '10',
        });
        const type = freshType();
        const { id } = await createStream(hurried, newInspector, { types: [type] });
        const path = `/api/v2/event-streams/${id}/received/answer`;
        await expectBody(200, hurried.send('PUT', path, { status: 200, delay_ms: 30_000 }));
        await publish(hurried, type);
        const [late, retried] = await waitForReceived(hurried, id, 2);
        assert.deepEqual([late?.error, late?.status], ['timeout', undefined]);
        assert.equal(retried?.status, 204);
      },
    );

    test('the inspector of a stream is gone with it', async () => {
      const type = freshType();
      const body = streamBody(newInspector, { types: [type], name: 'same' });
      const create = (): Promise<StreamBody> =>
        expectBody(201, leat.send('POST', '/api/v2/event-streams', body));
      const { id } = await create();
      await publish(leat, type);
      await waitForReceived(leat, id, 1);
      await expectBody(204, leat.send('DELETE', `/api/v2/event-streams/${id}`));
      await expectBody(404, leat.send('GET', `/api/v2/event-streams/${id}/received`));
      assert.deepEqual((await receivedOf(leat, (await create()).id)).received, []);
    });
  });
}

describe('nodes and the inspector of a stream', () => {
  test(
    'the inspector of a stream is read at its owner, which the other nodes name',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const nodes = [await cluster.start(), await cluster.start()] as const;
      const type = freshType();
      const { id } = await createStream(nodes[0], newInspector, { types: [type] });
      const event = await publish(nodes[1], type);
      const path = `/api/v2/event-streams/${id}/received`;
      const [owner] = await waitFor('the owner to have received the event', async () => {
        const bodies = await Promise.all(
          nodes.map(async (node) => {
            const response = await node.send('GET', path);
            const body = (await response.json()) as Partial<Received & ProblemBody>;
            return { node, response, body };
          }),
        );
        return bodies.some(({ body }) => body.received?.[0]?.status === 204)
          ? bodies.toSorted((one, two) => one.response.status - two.response.status)
          : undefined;
      });
      assert.equal(owner?.body.received?.[0]?.headers['webhook-id'], event);
      const other = nodes.find((node) => node !== owner.node);
      assert.ok(other);
      const refused = await other.send('GET', path);
      assert.equal(refused.headers.get('retry-after'), '1');
      const problem = await expectBody<ProblemBody>(503, refused);
      const [row] = await cluster.query<{ owner: string }>('select owner from runs');
      assert.equal(
        problem.message,
        `The node ${row?.owner} sends for this event stream and has its requests in memory: send this request to that node.`,
      );
      assert.equal(problem.errorCode, 'received_elsewhere');
      await expectBody(503, other.send('PUT', `${path}/answer`, { status: 500 }));

      await owner.node.kill();
      const taken = await waitFor('the other node to take the stream over', async () => {
        const response = await other.send('GET', path);
        return response.status === 200 ? ((await response.json()) as Received) : undefined;
      });
      assert.deepEqual(taken.received, []);
    },
  );
});

test(
  'the inspector verifies each version of signature with the secrets and keys of now',
  { tags: ['long'] },
  async (t) => {
    const tempStore = await createTempStore();
    t.after(() => tempStore.remove());
    const leat = await startLeat(tempStore);
    t.after(() => leat.kill());
    const type = freshType();
    const { id } = await createStream(leat, newInspector, { types: [type] });
    const versions = ['v1', 'v1a', 'v1 v1a'];
    for (const [index, signature] of versions.entries()) {
      await patchStream(leat, id, { delivery: { signature } });
      await publish(leat, type);
      await waitForReceived(leat, id, index + 1);
    }
    const results = async (): Promise<unknown[]> =>
      (await waitForReceived(leat, id, versions.length)).map(({ headers, signature }) => [
        (headers['webhook-signature'] ?? '').replaceAll(/,\S+/g, ''),
        signature,
      ]);
    assert.deepEqual(
      await results(),
      versions.map((version) => [version, 'valid']),
    );

    const [, request] = await waitForReceived(leat, id, versions.length);
    const kid = request?.headers['webhook-key-id'] ?? '';
    const revoked = await runLeat(['keys', 'revoke', kid], storeEnvironment(tempStore));
    assert.equal(revoked.code, 0, revoked.output);
    assert.deepEqual(await results(), [
      ['v1', 'valid'],
      ['v1a', 'unknown_key'],
      ['v1 v1a', 'valid'],
    ]);
  },
);
