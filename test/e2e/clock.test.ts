import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { startAlertReceiver } from '../helpers/alerts.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { createTempStore, startLeat, waitFor } from '../helpers/leat.ts';
import { createShiftedClock } from '../helpers/shifted-clock.ts';
import { createStream, eventsOf, freshType, publishAll } from '../helpers/api-client.ts';

const hour = 3_600_000;

describe('a server on SQLite whose clock is wrong for a moment', () => {
  for (const [how, aheadMs] of [
    ['ahead by an hour', hour],
    ['behind by an hour', -hour],
    ['ahead by 60 days', 60 * 24 * hour],
  ] as const) {
    test(
      `${how}: every event is delivered once the clock and the receiver are right`,
      { tags: ['long'] },
      async (t) => {
        const clock = createShiftedClock(t);
        const chat = await startAlertReceiver();
        const endpoint = await startEndpoint(503);
        const tempStore = await createTempStore();
        t.after(() => Promise.all([chat.close(), endpoint.close(), tempStore.remove()]));
        const leat = await startLeat(tempStore, {
          ...clock.settings,
          LEAT_ALERT_WEBHOOK_URL: chat.url,
          LEAT_RETRY_DELAYS_MS: '500,1000,2000,4000,8000,8000',
        });
        t.after(() => leat.kill());
        const type = freshType();
        await createStream(leat, endpoint.url, { types: [type] });
        // Waits for a valid token: none is valid while the clock is far ahead.
        const ids = await publishAll(leat, eventsOf(type, 30));
        clock.shift(aheadMs);
        const failed = (): number => ids.filter((id) => endpoint.of(id).length > 1).length;
        await waitFor('two failed attempts of each event', () => failed() === ids.length, {
          progress: () => String(failed()),
        });
        await waitFor('the log to say so', () => leat.output().includes('was set by more than'));
        clock.shift(0);
        const accepted = new Set<string>();
        endpoint.respondWith((response, { event }) => {
          accepted.add(event.id);
          response.writeHead(204).end();
        });
        await waitFor('every event', () => ids.every((id) => accepted.has(id)), {
          progress: () => String(accepted.size),
        });
        await waitFor('an alert', () => chat.system().length > 0);
        assert.equal(chat.system()[0]?.alert, 'clock_step');
        const later = await publishAll(leat, eventsOf(type, 3));
        await waitFor('later events', () => later.every((id) => accepted.has(id)));
        await leat.stop();
        assert.ok(
          farthestStampMs(tempStore.file) < hour / 2,
          'no instant of the wrong clock is stored',
        );
      },
    );
  }
});

/** Returns the largest difference of an instant of an event or attempt from the real time. */
function farthestStampMs(file: string): number {
  using db = new DatabaseSync(file, { readOnly: true });
  const row = db
    .prepare(
      `select max(abs(at - ?)) as ms from
         (select published_at as at from events union all select at from attempts)`,
    )
    .get(Date.now());
  return Number(row?.['ms']);
}
