import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { makePlace, startLeat, waitFor, type Running } from '../helpers/leat.ts';
import {
  createStream,
  publishOn,
  slotSettings,
  startCountingReceiver,
  twiceMax,
} from '../helpers/traffic.ts';

const rounds = 50;

describe('kill -9 at random moments while publishing and delivering', () => {
  test(
    `every acknowledged event arrives, over ${rounds} kills`,
    { timeout: 280_000 },
    async (t) => {
      const receiver = await startCountingReceiver(t);
      const place = await makePlace();
      const acknowledged = new Set<string>();
      let leat: Running | undefined;
      t.after(async () => {
        await leat?.kill();
        await place.remove();
      });

      leat = await startLeat(place, slotSettings);
      const streamId = await createStream(leat, receiver.url, 'crash');
      for (let round = 0; round < rounds; round++) {
        leat ??= await startLeat(place, slotSettings);
        receiver.startRound();
        const publishing = publishOn(leat, acknowledged, { until: t.signal });
        // A moment that falls into start-up, full load or a checkpoint, differently each round.
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 300));
        await leat.kill();
        leat = undefined;
        await publishing;
      }
      receiver.startRound();
      leat = await startLeat(place, slotSettings);
      await waitFor(
        'every acknowledged event',
        () => receiver.sawAll(['crash'], acknowledged),
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
