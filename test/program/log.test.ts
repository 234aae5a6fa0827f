import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createStream, eventsOf, freshType, publishAll } from '../helpers/api-client.ts';
import { startEndpoint, text } from '../helpers/endpoint.ts';
import { createTempStore, type Running, startLeat, waitFor } from '../helpers/leat.ts';

/** Starts a server and lets deliveries fail; returns it after the first of them is in its log. */
async function failing(
  t: TestContext,
  settings: Readonly<Record<string, string>>,
): Promise<Running> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const endpoint = await startEndpoint(text(404, 'body-of-the-receiver'));
  t.after(() => endpoint.close());
  const leat = await startLeat(tempStore, { LEAT_RETRY_DELAYS_MS: '0', ...settings });
  t.after(() => leat.kill());
  const type = freshType();
  await createStream(leat, endpoint.url, { types: [type] });
  await publishAll(leat, eventsOf(type, 20));
  await waitFor('a failure in the log', () => /failed/.test(leat.output()));
  return leat;
}

describe('the log of the service', { concurrency: 2 }, () => {
  test(
    'the log is JSON where the output is no terminal, with number and name of the tenant',
    { tags: ['long'] },
    async (t) => {
      const leat = await failing(t, {});
      const lines = leat
        .output()
        .split('\n')
        .filter((line) => line.startsWith('{'));
      const failure = lines
        .map((line) => JSON.parse(line) as Record<string, unknown>)
        .find(({ msg }) => msg === 'delivery failed');
      assert.deepEqual(
        [
          typeof failure?.['time'],
          failure?.['level'],
          failure?.['tenant'],
          failure?.['tenantName'],
          failure?.['error'],
        ],
        ['number', 40, 1, 'main', '404'],
      );
    },
  );

  test(
    'LEAT_LOG_FORMAT=text: the log is text with one line for the failures of a second',
    { tags: ['long'] },
    async (t) => {
      const leat = await failing(t, { LEAT_LOG_FORMAT: 'text' });
      await leat.stop();
      assert.match(
        leat.output(),
        /^\d\d:\d\d:\d\dZ {2}warn {3}(?:delivery failed {2}tenant=main|\d+ deliveries failed {2}main) /m,
      );
      assert.ok(
        leat
          .output()
          .split('\n')
          .filter((line) => line.includes(' failed ')).length < 20,
      );
      assert.doesNotMatch(leat.output(), /^\{|body-of-the-receiver/m);
    },
  );
});
