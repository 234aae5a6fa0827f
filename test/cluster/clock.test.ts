import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { startAlertReceiver } from '../helpers/alerts.ts';
import { nodesOf, startCluster } from '../helpers/cluster.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { freePort, waitFor } from '../helpers/leat.ts';
import { createShiftedClock } from '../helpers/shifted-clock.ts';
import { createStream, eventsOf, freshType, publishAll } from '../helpers/api-client.ts';

const day = 86_400_000;

for (const [how, days] of [
  ['ahead', 30],
  ['behind', -30],
] as const) {
  test(
    `a node whose clock is 30 days ${how} removes nothing, writes no wrong instant, and reports it`,
    { tags: ['long'] },
    async (t) => {
      const clock = createShiftedClock(t, Math.max(0, days * day));
      const chat = await startAlertReceiver();
      const endpoint = await startEndpoint();
      t.after(() => Promise.all([chat.close(), endpoint.close()]));
      const { start, query } = await startCluster(t);
      const count = async (table: 'events' | 'attempts'): Promise<number> => {
        // A delivery that was delayed for long may have been retried.
        const rows = table === 'events' ? table : `${table} where outcome = 1`;
        const [row] = await query<{ count: number }>(`select count(*)::int as count from ${rows}`);
        return row?.count ?? 0;
      };
      const leaders = async (): Promise<number> =>
        (await query('select 1 from upkeep where lease_until > clock_timestamp()')).length;
      const right = await start();
      const type = freshType();
      await createStream(right, endpoint.url, { types: [type] });
      await publishAll(right, eventsOf(type, 20));
      await waitFor('their deliveries', async () => (await count('attempts')) === 20);
      await right.stop();

      // As the only node it leads the upkeep of the store, if it does any.
      const port = await freePort();
      const wrong = await start({
        ...clock.settings,
        LEAT_ALERT_WEBHOOK_URL: chat.url,
        LEAT_METRICS_PORT: String(port),
      });
      // A node that starts behind has no valid signing key by its clock: this one falls behind later,
      // with attempts in progress that it records then.
      const held: ServerResponse[] = [];
      if (days < 0) endpoint.respondWith((response) => held.push(response));
      const published = days < 0 ? (await publishAll(wrong, eventsOf(type, 5))).length : 0;
      await waitFor('its attempts', () => held.length >= published);
      clock.shift(days * day);
      await waitFor('an alert', () => chat.system().length > 0);
      assert.equal(chat.system()[0]?.alert, 'clock_skew');
      assert.match(wrong.output(), /that of the database/);
      // There is no other node.
      await waitFor('200', async () => (await fetch(`${wrong.url}/readyz`)).ok);
      const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      const shown = Number(/^leat_clock_skew_seconds (\S+)$/m.exec(metrics)?.[1]);
      assert.ok(Math.abs(shown - days * 86_400) < 60, `${shown} s`);
      endpoint.respondWith(204);
      for (const response of held) response.writeHead(204).end();
      if (days > 0) {
        await publishAll(wrong, eventsOf(type, 5));
        // A node that is behind has led while its clock was right.
        assert.equal(await leaders(), 0, 'it does no upkeep');
      }
      await waitFor('their deliveries', async () => (await count('attempts')) === 25);

      const other = await start();
      await waitFor('the other node to lead', async () => (await leaders()) > 0);
      await waitFor('503', async () => (await fetch(`${wrong.url}/readyz`)).status === 503);
      await waitFor('the streams of the node whose clock is right', async () => {
        const nodes = await nodesOf(other);
        return (
          nodes
            .map(({ streams }) => streams)
            .toSorted((a, b) => a - b)
            .at(-1) === 1 &&
          nodes.some((node) => node.streams === 1 && Math.abs(node.clock_skew_ms) < 60_000)
        );
      });
      await publishAll(other, eventsOf(type, 5));
      await waitFor('their deliveries', async () => (await count('attempts')) === 30);
      assert.equal(await count('events'), 30);
      const [stamps] = await query<{ wrong: number }>(`
      select (select count(*) from events where abs(published_at - leat_now()) > 3600000)::int
        + (select count(*) from attempts where abs(at - leat_now()) > 3600000)::int as wrong`);
      assert.equal(stamps?.wrong, 0);
    },
  );
}
