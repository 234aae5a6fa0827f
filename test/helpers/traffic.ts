import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/config.ts';
import type { Scope } from './cluster.ts';
import type { Quota } from './quota.ts';
import type { Running } from './leat.ts';
import { waitFor } from './wait.ts';

/** Publishers and a receiver that counts, for tests of crashes and outages. */

export const eventType = 'order.paid';

/** Concurrent attempts of a stream at each node. */
export const slots = 16;
export const slotSettings = { LEAT_STREAM_CONCURRENCY: String(slots) };
const { parkAfterEvents, settleMax } = limits.delivery;
/**
 * The most requests that are repeated for a stream whose node has died: the slots, the events that
 * may settle above the cursor, one unsettled batch.
 */
export const twiceMax = slots + parkAfterEvents + settleMax;

/** A receiver that responds with 204 to everything. */
export interface CountingReceiver {
  readonly url: string;
  /** Counts later requests for the next round. */
  startRound(): void;
  /** Waits until each of the events has arrived at each of the streams, given by their names. */
  waitForAll(what: string, streams: readonly string[], ids: Iterable<string>): Promise<void>;
  /** When each {@link pair} of stream and event arrived first, by the monotonic clock. */
  readonly arrivedMs: ReadonlyMap<string, number>;
  /** Returns the number of pairs of stream and event that arrived. */
  distinct(): number;
  /** Returns the number of requests. */
  total(): number;
  /** Returns the most repeated requests for pairs in one round. */
  mostTwiceInOneRound(): number;
  /** Closes every connection, also in the middle of a request. */
  cut(): void;
  /** While true, requests wait for their response. */
  holding: boolean;
  /** A request arrives after a random part of this time, unless its sender has gone by then. */
  latencyMsMax: number;
}

/** Starts a receiver that ends with the test. */
export async function startCountingReceiver(t: Scope): Promise<CountingReceiver> {
  const seen = new Map<string, number>();
  // Arrivals remove themselves from these, so that a poll costs nothing however many are missing.
  const expected = new Set<Set<string>>();
  const twicePerRound: number[] = [];
  const held: (() => void)[] = [];
  let total = 0;
  let holding = false;
  let latencyMsMax = 0;
  const server = createServer((request, response) => {
    const id = String(request.headers['webhook-id']);
    const arrived = pair((request.url ?? '').slice(1), id);
    request.resume();
    const arrive = (): void => {
      total++;
      const round = twicePerRound.length - 1;
      if (seen.has(arrived)) twicePerRound[round] = (twicePerRound[round] ?? 0) + 1;
      else seen.set(arrived, performance.now());
      for (const missing of expected) missing.delete(arrived);
      const respond = (): void => void response.writeHead(204).end();
      if (holding) held.push(respond);
      else respond();
    };
    request.on('end', () => {
      if (latencyMsMax === 0) return arrive();
      setTimeout(() => {
        if (!response.destroyed) arrive();
      }, Math.random() * latencyMsMax);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
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
    waitForAll: async (what, streams, ids) => {
      const pairs = Iterator.from(ids).flatMap((id) => streams.map((name) => pair(name, id)));
      const missing = new Set(pairs.filter((each) => !seen.has(each)));
      expected.add(missing);
      try {
        const progress = (): unknown => ({ missing: missing.size, total });
        await waitFor(what, () => missing.size === 0, { progress });
      } finally {
        expected.delete(missing);
      }
    },
    arrivedMs: seen,
    cut: () => server.closeAllConnections(),
    distinct: () => seen.size,
    total: () => total,
    mostTwiceInOneRound: () => Math.max(...twicePerRound),
    get latencyMsMax() {
      return latencyMsMax;
    },
    set latencyMsMax(value) {
      latencyMsMax = value;
    },
    get holding() {
      return holding;
    },
    set holding(value) {
      holding = value;
      if (!value) for (const respond of held.splice(0)) respond();
    },
  };
}

/** The key of an event at a stream, given by its name. */
export function pair(stream: string, id: string): string {
  return `${stream} ${id}`;
}

/** Creates a stream of the one type; returns its id. Its requests go to `<endpoint>/<name>`. */
export async function createStream(leat: Running, endpoint: string, name: string): Promise<string> {
  const response = await leat.send('POST', '/api/v2/event-streams', {
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
  const body = await response.text();
  assert.equal(response.status, 201, body);
  return (JSON.parse(body) as { id: string }).id;
}

/** Publishes one event or an array; returns the acknowledged ids, none unless the status is 202. */
export async function publish(leat: Running, size: number): Promise<string[]> {
  const event = { type: eventType, data: { object: {} } };
  const body = size === 1 ? event : Array.from({ length: size }, () => event);
  try {
    const response = await leat.send('POST', '/api/v2/events', body);
    if (response.status !== 202) {
      await response.arrayBuffer();
      return [];
    }
    const stored = (await response.json()) as { id: string } | { id: string }[];
    return (Array.isArray(stored) ? stored : [stored]).map(({ id }) => id);
  } catch {
    return [];
  }
}

/** Events per request of the publishers of a node. */
const batchSizes = [1, 1, 7, 40];
const retryMs = 20;

/**
 * Runs several publishers at a node, which send single events and arrays until `until` is aborted.
 * Patient ones retry when they are refused; others end then.
 */
export async function publishOn(
  leat: Running,
  acknowledged: { add(id: string): unknown },
  { quota, until, patient = false }: PublishOptions,
): Promise<void> {
  const publisher = async (sizeMax: number): Promise<void> => {
    for (;;) {
      const size = await quota.take(sizeMax, until);
      if (size === 0) return;
      const ids = await publish(leat, size);
      for (const id of ids) acknowledged.add(id);
      if (ids.length > 0) continue;
      quota.add(size);
      if (!patient) return;
      await sleep(retryMs);
    }
  };
  await Promise.all(batchSizes.map(publisher));
}

interface PublishOptions {
  /** Bounds the number of events. */
  readonly quota: Quota;
  readonly until: AbortSignal;
  readonly patient?: boolean;
}
