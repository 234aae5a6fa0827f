import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { TestContext } from 'node:test';
import { limits } from '../../src/config.ts';
import type { Running } from './leat.ts';

/** Events on their way to a receiver that counts them: what tests of crashes and outages look at. */

export const eventType = 'order.paid';

/** Attempts at once of a stream at each node. */
export const slots = 16;
export const slotSettings = { LEAT_STREAM_CONCURRENCY: String(slots) };
const { parkAfterEvents, settleMax } = limits.delivery;
/**
 * Requests again, for a stream whose node has died, at most: the slots, the events that may settle
 * above the cursor, one unsettled batch.
 */
export const twiceMax = slots + parkAfterEvents + settleMax;

/** A receiver that says yes to everything. */
export interface CountingReceiver {
  readonly url: string;
  /** Requests from now on count for the next round. */
  startRound(): void;
  /** Whether each of the events has arrived at each of the streams, which go by their names. */
  sawAll(streams: readonly string[], ids: Iterable<string>): boolean;
  /** Pairs of stream and event that arrived. */
  distinct(): number;
  /** Requests. */
  total(): number;
  /** Requests for pairs that had arrived before, in the worst round. */
  mostTwiceInOneRound(): number;
  /** While true, requests wait for their answer. */
  holding: boolean;
}

/** It ends with the test. */
export async function startCountingReceiver(t: TestContext): Promise<CountingReceiver> {
  const seen = new Set<string>();
  const twicePerRound: number[] = [];
  const held: (() => void)[] = [];
  let total = 0;
  let holding = false;
  const server = createServer((request, response) => {
    const id = String(request.headers['webhook-id']);
    const arrived = pair(request.url ?? '', id);
    request.resume();
    request.on('end', () => {
      total++;
      const round = twicePerRound.length - 1;
      if (seen.has(arrived)) twicePerRound[round] = (twicePerRound[round] ?? 0) + 1;
      seen.add(arrived);
      const answer = (): void => void response.writeHead(204).end();
      if (holding) held.push(answer);
      else answer();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    startRound: () => {
      twicePerRound.push(0);
    },
    sawAll: (streams, ids) =>
      Iterator.from(ids).every((id) => streams.every((name) => seen.has(pair(`/${name}`, id)))),
    distinct: () => seen.size,
    total: () => total,
    mostTwiceInOneRound: () => Math.max(...twicePerRound),
    get holding() {
      return holding;
    },
    set holding(value) {
      holding = value;
      if (!value) for (const answer of held.splice(0)) answer();
    },
  };
}

function pair(path: string, id: string): string {
  return `${path} ${id}`;
}

/** Makes a stream of the one type; answers its id. Its requests go to `<endpoint>/<name>`. */
export async function createStream(leat: Running, endpoint: string, name: string): Promise<string> {
  const answer = await leat.send('POST', '/api/v2/event-streams', {
    name,
    subscriptions: [{ event_type: eventType }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: `${endpoint}/${name}`,
        webhook_authorization: { method: 'bearer', token: 'token' },
      },
    },
  });
  assert.equal(answer.status, 201);
  return ((await answer.json()) as { id: string }).id;
}

/** Publishes one event or an array; answers the ids acknowledged, none unless it is a 202. */
export async function publish(leat: Running, size: number): Promise<string[]> {
  const event = { type: eventType, data: { object: {} } };
  const body = size === 1 ? event : Array.from({ length: size }, () => event);
  try {
    const answer = await leat.send('POST', '/api/v2/events', body);
    if (answer.status !== 202) {
      await answer.arrayBuffer();
      return [];
    }
    const stored = (await answer.json()) as { id: string } | { id: string }[];
    return (Array.isArray(stored) ? stored : [stored]).map(({ id }) => id);
  } catch {
    return [];
  }
}

/** Several publishers, single events and arrays, until told to end or, unless patient, refused. */
export async function publishOn(
  leat: Running,
  acknowledged: Set<string>,
  { until, pauseMs }: { readonly until: AbortSignal; readonly pauseMs?: number },
): Promise<void> {
  const publisher = async (size: number): Promise<void> => {
    while (!until.aborted) {
      const ids = await publish(leat, size);
      for (const id of ids) acknowledged.add(id);
      if (ids.length === 0 && pauseMs === undefined) return;
      if (pauseMs !== undefined) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  };
  await Promise.all([publisher(1), publisher(1), publisher(7), publisher(40)]);
}
