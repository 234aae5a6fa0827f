import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { describe, test } from 'node:test';
import { makePlace, startLeat, waitFor, type Running } from '../helpers/leat.ts';

const rounds = 50;
const slots = 16;
/** design: the slots, the 256 events that may settle above the cursor, one unsettled batch. */
const twiceMax = slots + 256 + 256;

describe('kill -9 at random moments while publishing and delivering', () => {
  test(
    `every acknowledged event arrives, over ${rounds} kills`,
    { timeout: 280_000 },
    async (t) => {
      const receiver = await startReceiver();
      const place = await makePlace();
      const settings = { LEAT_STREAM_CONCURRENCY: String(slots) };
      const acknowledged = new Set<string>();
      let leat: Running | undefined;
      t.after(async () => {
        await leat?.kill();
        receiver.close();
        await place.remove();
      });

      leat = await startLeat(place, settings);
      await createStream(leat, receiver.url);
      for (let round = 0; round < rounds; round++) {
        leat ??= await startLeat(place, settings);
        receiver.startRound();
        const publishing = publishUntilKilled(leat, acknowledged);
        // A moment that falls into start-up, full load or a checkpoint, differently each round.
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 300));
        await leat.kill();
        leat = undefined;
        await publishing;
      }
      receiver.startRound();
      leat = await startLeat(place, settings);
      await waitFor(
        'every acknowledged event',
        () => [...acknowledged].every((id) => receiver.seen(id)),
        60_000,
      );

      assert.ok(acknowledged.size > rounds, `only ${acknowledged.size} events were published`);
      const failures = await leat.send('GET', `/api/v2/event-streams/${streamId}/deliveries`);
      assert.deepEqual(await failures.json(), []);
      assert.ok(
        receiver.mostTwiceInOneRound() <= twiceMax,
        `${receiver.mostTwiceInOneRound()} events came twice after one kill`,
      );
      t.diagnostic(
        `${acknowledged.size} acknowledged, ${receiver.distinct()} arrived, ` +
          `${receiver.total() - receiver.distinct()} of them again after a kill`,
      );
    },
  );
});

let streamId = '';

async function createStream(leat: Running, endpoint: string): Promise<void> {
  const answer = await leat.send('POST', '/api/v2/event-streams', {
    name: 'crash',
    subscriptions: [{ event_type: 'order.paid' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: endpoint,
        webhook_authorization: { method: 'bearer', token: 'token' },
      },
    },
  });
  assert.equal(answer.status, 201);
  streamId = ((await answer.json()) as { id: string }).id;
}

/** Several publishers, single events and arrays; they end when the server is gone. */
async function publishUntilKilled(leat: Running, acknowledged: Set<string>): Promise<void> {
  const publisher = async (size: number): Promise<void> => {
    const event = { type: 'order.paid', data: { object: {} } };
    const body = size === 1 ? event : Array.from({ length: size }, () => event);
    for (;;) {
      try {
        const answer = await leat.send('POST', '/api/v2/events', body);
        if (answer.status !== 202) return;
        const stored = (await answer.json()) as { id: string } | { id: string }[];
        for (const { id } of Array.isArray(stored) ? stored : [stored]) acknowledged.add(id);
      } catch {
        return;
      }
    }
  };
  await Promise.all([publisher(1), publisher(1), publisher(7), publisher(40)]);
}

interface Receiver {
  readonly url: string;
  startRound(): void;
  seen(id: string): boolean;
  distinct(): number;
  total(): number;
  mostTwiceInOneRound(): number;
  close(): void;
}

async function startReceiver(): Promise<Receiver> {
  const seen = new Set<string>();
  const twicePerRound: number[] = [];
  let total = 0;
  const server = createServer((request, response) => {
    const id = String(request.headers['webhook-id']);
    request.resume();
    request.on('end', () => {
      total++;
      const round = twicePerRound.length - 1;
      if (seen.has(id)) twicePerRound[round] = (twicePerRound[round] ?? 0) + 1;
      seen.add(id);
      response.writeHead(204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}/`,
    startRound: () => {
      twicePerRound.push(0);
    },
    seen: (id) => seen.has(id),
    distinct: () => seen.size,
    total: () => total,
    mostTwiceInOneRound: () => Math.max(...twicePerRound),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
