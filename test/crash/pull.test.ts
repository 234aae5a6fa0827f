import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatOffset } from '../../src/core/offset.ts';
import { createTempStore, type Running, startLeat } from '../helpers/leat.ts';
import { eventsOf, openPull, positionOf } from '../helpers/pull.ts';

const rounds = 5;

describe('kill -9 while events are published and read', () => {
  test(
    `a reader that continues after its last id sees each event once, over ${rounds} kills`,
    { tags: ['long'] },
    async (t) => {
      const tempStore = await createTempStore();
      let leat: Running | undefined;
      t.after(async () => {
        await leat?.kill();
        await tempStore.remove();
      });
      const acknowledged: string[] = [];
      const seen: string[] = [];
      for (let round = 0; round < rounds; round += 1) {
        leat = await startLeat(tempStore);
        const headers = { 'last-event-id': seen.at(-1) ?? formatOffset(0) };
        const pull = await openPull(`${leat.url}/api/v2/events`, leat.token, headers);
        const publishing = publishOn(leat, acknowledged);
        await pull.events(100 * (round + 1));
        await leat.kill();
        await Promise.all([publishing, pull.ended]);
        seen.push(...eventsOf(pull).map(({ id }) => id ?? ''));
      }
      leat = await startLeat(tempStore);
      const last = await leat.send('POST', '/api/v2/events', { type: 'a.last', data: {} });
      const { offset } = (await last.json()) as { offset: string };
      const headers = { 'last-event-id': seen.at(-1) ?? '' };
      const pull = await openPull(`${leat.url}/api/v2/events`, leat.token, headers);
      await pull.until(() => eventsOf(pull).at(-1)?.id === offset, 'the last event');
      pull.close();
      seen.push(...eventsOf(pull).map(({ id }) => id ?? ''));

      const all = seen.map((_, index) => formatOffset(index + 1));
      assert.deepEqual(seen.map(positionOf), all);
      const missed = acknowledged.filter((each) => !seen.includes(each));
      assert.deepEqual(missed, []);
      assert.ok(acknowledged.length > 100 * rounds);
    },
  );
});

/** Publishes until the server has ended, and notes the acknowledged offsets. */
async function publishOn(leat: Running, acknowledged: string[]): Promise<void> {
  for (;;) {
    const events = Array.from({ length: 10 }, (_, n) => ({ type: 'a.made', data: { n } }));
    try {
      const response = await leat.send('POST', '/api/v2/events', events);
      const appended = (await response.json()) as { offset: string }[];
      acknowledged.push(...appended.map(({ offset }) => offset));
    } catch {
      return;
    }
  }
}
