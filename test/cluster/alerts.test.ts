import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { StreamAlertBody } from '../../src/alerting/alert-body.ts';
import { type AlertReceiver, startAlertReceiver } from '../helpers/alerts.ts';
import { type Cluster, startCluster } from '../helpers/cluster.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { type Running, waitFor } from '../helpers/leat.ts';
import { createShiftedClock } from '../helpers/shifted-clock.ts';
import { createStream, eventsOf, freshType, publishAll } from '../helpers/api-client.ts';

/** A cluster on one PostgreSQL with a check each second, and a chat tool for its alerts. */
async function openFixture(t: TestContext) {
  const chat = await startAlertReceiver();
  const endpoint = await startEndpoint(404);
  t.after(() => Promise.all([chat.close(), endpoint.close()]));
  const cluster = await startCluster(t);
  const settings = {
    LEAT_RETRY_DELAYS_MS: '0',
    LEAT_MONITOR_INTERVAL_SECONDS: '1',
    LEAT_ALERT_WEBHOOK_URL: chat.url,
    LEAT_LOG_LEVEL: 'info',
    LEAT_ATTEMPT_TIMEOUT_MS: '2000',
  };
  return { chat, endpoint, cluster, settings };
}

async function streamsOf(leat: Running, url: string, count: number) {
  const type = freshType();
  const streams = Array.from({ length: count }, () => createStream(leat, url, { types: [type] }));
  return { type, ids: (await Promise.all(streams)).map(({ id }) => id) };
}

function newOf(alerts: readonly StreamAlertBody[]): number {
  return alerts.reduce((sum, { new_failures: count }) => sum + count, 0);
}

function sums(chat: AlertReceiver, ids: readonly string[]): number[] {
  return ids.map((id) => newOf(chat.alerts(id)));
}

/** Waits for two checks: each reports a failure of another stream. */
async function afterTwoChecks(leat: Running, chat: AlertReceiver, url: string): Promise<void> {
  const { type, ids } = await streamsOf(leat, url, 1);
  for (const count of [1, 2]) {
    await publishAll(leat, eventsOf(type, 1));
    await waitFor('a marker', () => newOf(chat.alerts(ids[0])) === count);
  }
}

describe('several nodes on one PostgreSQL', () => {
  test(
    'each failure is reported and logged once, also when the clocks of the nodes differ',
    { tags: ['long'] },
    async (t) => {
      const { chat, endpoint, cluster, settings } = await openFixture(t);
      const start = (aheadMs: number) =>
        cluster.start({ ...settings, ...createShiftedClock(t, aheadMs).settings });
      const nodes = await Promise.all([0, 50_000, -50_000].map(start));
      const [first] = nodes;
      assert.ok(first);
      const { type, ids } = await streamsOf(first, endpoint.url, 8);
      for (let round = 1; round <= 3; round++) {
        await publishAll(first, eventsOf(type, 5));
        await waitFor('all failures to be reported', () =>
          sums(chat, ids).every((n) => n >= 5 * round),
        );
      }
      await afterTwoChecks(first, chat, endpoint.url);
      assert.deepEqual(sums(chat, ids), Array(8).fill(15));
      const entries = nodes.flatMap((node) =>
        node
          .output()
          .split('\n')
          .filter((line) => line.includes('"open failure"')),
      );
      const logged = entries.map((line) => JSON.parse(line) as { stream: string; eventId: string });
      const keys = logged
        .filter(({ stream }) => ids.includes(stream))
        .map((one) => one.stream + one.eventId);
      assert.deepEqual([keys.length, new Set(keys).size], [120, 120]);
    },
  );

  test(
    'another node takes over when a node crashes while it sends',
    { tags: ['long'] },
    async (t) => {
      const { chat, endpoint, cluster, settings } = await openFixture(t);
      const crashing = await cluster.start(settings);
      chat.respondWith(() => undefined);
      const { type, ids } = await streamsOf(crashing, endpoint.url, 3);
      await publishAll(crashing, eventsOf(type, 2));
      await waitFor('an alert in flight', () => chat.arrivals.length > 0);
      await crashing.kill();
      chat.respondWith((response, { body }) => {
        received.push(JSON.parse(body) as StreamAlertBody);
        response.writeHead(200).end();
      });
      const received: StreamAlertBody[] = [];
      const other = await cluster.start(settings);
      const sumOf = (id: string): number =>
        newOf(received.filter(({ stream }) => stream.id === id));
      await waitFor('the rest to be reported', () => ids.every((id) => sumOf(id) >= 2));
      const { type: later, ids: others } = await streamsOf(other, endpoint.url, 1);
      await publishAll(other, eventsOf(later, 1));
      await waitFor('a marker', () => others.every((id) => sumOf(id) === 1));
      assert.deepEqual(ids.map(sumOf), [2, 2, 2]);
    },
  );
});

test('the saved state does not grow with the number of checks', { tags: ['long'] }, async (t) => {
  const { chat, endpoint, cluster, settings } = await openFixture(t);
  const node = await cluster.start(settings);
  const { type, ids } = await streamsOf(node, endpoint.url, 1);
  await publishAll(node, eventsOf(type, 3));
  await waitFor('the alert', () => sums(chat, ids)[0] === 3);
  const size = await waitFor('the end of a check', () => sizeOfState(cluster));
  assert.ok(size < 1000, `${size} characters`);
});

async function sizeOfState(cluster: Cluster): Promise<number | undefined> {
  const [row] = await cluster.query<{ state: string }>('select state from alert_states');
  return row === undefined || row.state.includes('busyUntil') ? undefined : row.state.length;
}
