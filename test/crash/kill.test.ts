import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTempStore, startLeat, type Running } from '../helpers/leat.ts';
import {
  createStream,
  publishOn,
  slotSettings,
  startCountingReceiver,
  twiceMax,
} from '../helpers/traffic.ts';
import { createQuota } from '../helpers/quota.ts';
import { rounds } from '../helpers/rounds.ts';
import { waitFor } from '../helpers/wait.ts';

const kills = rounds({ few: 2, all: 50 });
const eventsPerRound = 300;

describe('kill -9 at random moments while publishing and delivering', () => {
  test(
    `every acknowledged event arrives, over ${kills} kills`,
    { tags: rounds({ few: [], all: ['long'] }) },
    async (t) => {
      const receiver = await startCountingReceiver(t);
      const tempStore = await createTempStore();
      const acknowledged = new Set<string>();
      let leat: Running | undefined;
      t.after(async () => {
        await leat?.kill();
        await tempStore.remove();
      });

      leat = await startLeat(tempStore, slotSettings);
      const streamId = await createStream(leat, receiver.url, 'crash');
      for (let round = 0; round < kills; round++) {
        leat ??= await startLeat(tempStore, slotSettings);
        receiver.startRound();
        const quota = createQuota(eventsPerRound);
        const publishing = publishOn(leat, acknowledged, { quota, until: t.signal });
        // Another moment each round: during start-up, full load or a checkpoint.
        const wanted = acknowledged.size + Math.random() * eventsPerRound * 0.8;
        const progress = (): number => acknowledged.size;
        await waitFor('the moment to kill', () => progress() >= wanted, {
          progress,
          intervalMsMax: 5,
        });
        await leat.kill();
        leat = undefined;
        await publishing;
      }
      receiver.startRound();
      leat = await startLeat(tempStore, slotSettings);
      await receiver.waitForAll('every acknowledged event', ['crash'], acknowledged);

      assert.ok(acknowledged.size > kills, `only ${acknowledged.size} events were published`);
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
