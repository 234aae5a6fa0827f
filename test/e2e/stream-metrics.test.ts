import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  createStream,
  eventsOf,
  freshType,
  patchStream,
  publishAll,
} from '../helpers/api-client.ts';
import { type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { createTempStore, freePort, type Running, startLeat, waitFor } from '../helpers/leat.ts';
import { type Exposition, readExposition } from '../helpers/prometheus.ts';

const metric = 'leat_stream_attempts_total';
const seriesMax = 200;

interface Fixture {
  readonly leat: Running;
  readonly healthy: Endpoint;
  readonly failing: Endpoint;
  scrape(): Promise<Exposition>;
  /** Ends the program and starts it again on the same store. */
  restart(): Promise<Fixture>;
}

async function openFixture(t: TestContext): Promise<Fixture> {
  const tempStore = await createTempStore();
  const [healthy, failing] = [await startEndpoint(), await startEndpoint()];
  healthy.respondWith(204);
  failing.respondWith(503);
  const port = await freePort();
  let leat: Running | undefined;
  t.after(async () => {
    await leat?.kill();
    await Promise.all([healthy.close(), failing.close()]);
    await tempStore.remove();
  });
  const start = async (): Promise<Fixture> => {
    leat = await startLeat(tempStore, {
      LEAT_METRICS_PORT: String(port),
      LEAT_RETRY_DELAYS_MS: '10',
    });
    const own = leat;
    return {
      leat,
      healthy,
      failing,
      scrape: async () =>
        readExposition(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()),
      restart: async () => {
        await own.stop();
        return start();
      },
    };
  };
  return start();
}

/** Returns the streams that have series, `other` included. */
function streamsIn(text: Exposition): string[] {
  return [...new Set(text.samples(metric).map(({ labels }) => labels['stream'] ?? ''))];
}

function sumOf(text: Exposition, name: string): number {
  return text.samples(name).reduce((sum, { value }) => sum + value, 0);
}

const labelsOf = (stream: string, outcome: string, code: string) => ({
  tenant: 'main',
  stream,
  outcome,
  code,
});

describe('the attempts of single streams', () => {
  test(
    'more streams than series: the series are bounded, and the stream that fails is among them',
    { tags: ['long'] },
    async (t) => {
      const { leat, healthy, failing, scrape } = await openFixture(t);
      const type = freshType();
      const healthyStreams = seriesMax + 100;
      for (let index = 0; index < healthyStreams; index++) {
        await createStream(leat, healthy.url, { types: [type] });
      }
      await publishAll(leat, eventsOf(type, 2));
      await waitFor('the deliveries', () => healthy.arrivals.length >= 2 * healthyStreams, {
        progress: () => healthy.arrivals.length,
      });
      const bad = await createStream(leat, failing.url, { types: [type] });
      await publishAll(leat, eventsOf(type, 3));
      const found = await waitFor('the series of the stream that fails', async () => {
        const text = await scrape();
        const isFound = text.has(metric, labelsOf(bad.id, 'retry', 'http_503'));
        return isFound && sumOf(text, 'leat_attempts_total') >= 5 * healthyStreams + 6 && text;
      });
      assert.ok(streamsIn(found).includes('other'));
      assert.ok(streamsIn(found).length <= seriesMax + 1, String(streamsIn(found).length));
      await publishAll(leat, eventsOf(type, 2));
      const counted = await waitFor('its failures', async () => {
        const text = await scrape();
        const outcomes = ['retry', 'failed'].map((outcome) =>
          labelsOf(bad.id, outcome, 'http_503'),
        );
        return outcomes.every(
          (labels) => text.has(metric, labels) && text.value(metric, labels) > 0,
        )
          ? text
          : false;
      });
      assert.equal(
        counted.value('leat_stream_info', { tenant: 'main', stream: bad.id, name: bad.name }),
        1,
      );
      assert.ok(streamsIn(counted).length <= seriesMax + 1);
      assert.ok(counted.samples('leat_stream_info').length <= seriesMax);
      // One quiet stream has lost its series.
      assert.ok(sumOf(counted, metric) <= sumOf(counted, 'leat_attempts_total'));
    },
  );

  test(
    'streams are renamed, deleted and created again: the series follow',
    { tags: ['long'] },
    async (t) => {
      const { leat, failing, scrape } = await openFixture(t);
      const type = freshType();
      const stream = await createStream(leat, failing.url, { types: [type] });
      await publishAll(leat, eventsOf(type, 1));
      const failed = labelsOf(stream.id, 'failed', 'http_503');
      const scrapeUntil = (
        what: string,
        holds: (text: Exposition) => boolean,
      ): Promise<Exposition> =>
        waitFor(what, async () => {
          const text = await scrape();
          return holds(text) && text;
        });
      await scrapeUntil('the failure', (text) => text.has(metric, failed));
      const name = 'x"} 1 leat_injected_total{a="\\n"} 1 # éé';
      await patchStream(leat, stream.id, { name });
      const named = await scrapeUntil('the new name', (text) =>
        text.has('leat_stream_info', { tenant: 'main', stream: stream.id, name }),
      );
      assert.equal(named.value(metric, failed), 1);
      assert.equal(named.families.has('leat_injected_total'), false);
      await leat.send('DELETE', `/api/v2/event-streams/${stream.id}`);
      const again = await createStream(leat, failing.url, { types: [type], name });
      await publishAll(leat, eventsOf(type, 1));
      const end = await scrapeUntil(
        'the series of the new stream only',
        (text) =>
          text.has(metric, labelsOf(again.id, 'failed', 'http_503')) &&
          !streamsIn(text).includes(stream.id),
      );
      assert.equal(end.value(metric, labelsOf(again.id, 'failed', 'http_503')), 1);
      assert.deepEqual(
        end.samples('leat_stream_info').map(({ labels }) => labels['stream']),
        [again.id],
      );
    },
  );

  test('a disabled stream that is deleted loses its series', async (t) => {
    const { leat, failing, scrape } = await openFixture(t);
    const type = freshType();
    const stream = await createStream(leat, failing.url, { types: [type] });
    await publishAll(leat, eventsOf(type, 1));
    const has = async (): Promise<boolean> =>
      (await scrape()).has(metric, labelsOf(stream.id, 'failed', 'http_503'));
    await waitFor('the failure', has);
    await patchStream(leat, stream.id, { status: 'disabled' });
    assert.ok(await has());
    await leat.send('DELETE', `/api/v2/event-streams/${stream.id}`);
    await waitFor('the end of the series', async () => !(await has()));
  });

  test(
    'after a restart the numbers begin again with the first attempt',
    { tags: ['long'] },
    async (t) => {
      const before = await openFixture(t);
      const type = freshType();
      const stream = await createStream(before.leat, before.failing.url, { types: [type] });
      await publishAll(before.leat, eventsOf(type, 3));
      const failed = labelsOf(stream.id, 'failed', 'http_503');
      const valueOf = async ({ scrape }: Fixture): Promise<number> => {
        const text = await scrape();
        return text.has(metric, failed) ? text.value(metric, failed) : 0;
      };
      await waitFor('the failures', async () => (await valueOf(before)) === 3);
      const after = await before.restart();
      assert.equal(await valueOf(after), 0);
      await publishAll(after.leat, eventsOf(type, 1));
      await waitFor('the next failure', async () => (await valueOf(after)) === 1);
    },
  );
});
