import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { waitFor, type Running } from '../helpers/leat.ts';
import {
  expectBody,
  createStream,
  freshType,
  patchStream,
  publish,
  publishAll,
  readStream,
  redeliver,
  statsOf,
  waitForFailures,
  waitForStats,
  type ProblemBody,
  type StreamBody,
} from '../helpers/api-client.ts';
import type { StreamHealthShown } from '../../src/schemas/stream-health.ts';
import { runServer } from './fixture.ts';

/** The limits are the defaults; each delivery fails after one attempt. */

let leat: Running;

runServer({ LEAT_RETRY_DELAYS_MS: '0' }, (running) => {
  leat = running;
});

describe('500 failures in a row', () => {
  test('500 failures in a row disable a stream; 499 do not', async (t) => {
    const { stream, type } = await streamOf(t);
    await publishAll(leat, failing(type, 499));
    await waitForStats(leat, stream.id, { failed: 499 });
    assert.equal((await readStream(leat, stream.id)).status, 'enabled');
    await publishAll(leat, failing(type, 1));
    await waitForDisabled(stream);
    assert.deepEqual(await statsOf(leat, stream.id), { delivered: 0, failed: 500 });
    assert.ok((await readStream(leat, stream.id)).updated_at > stream.updated_at);
  });

  test('500 failures with one success between them do not disable a stream', async (t) => {
    const { stream, type } = await streamOf(t);
    await publishAll(leat, failing(type, 499));
    await waitForStats(leat, stream.id, { failed: 499 });
    await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 1 });
    await publishAll(leat, failing(type, 499));
    await waitForStats(leat, stream.id, { failed: 998 });
    assert.equal((await readStream(leat, stream.id)).status, 'enabled');
    await publishAll(leat, failing(type, 1));
    await waitForDisabled(stream);
    assert.deepEqual(await statsOf(leat, stream.id), { delivered: 1, failed: 999 });
  });

  test(
    'failures in a row: a failed redelivery counts, a successful one resets the count',
    { tags: ['long'] },
    async (t) => {
      const { stream, type, endpoint } = await streamOf(t);
      const ids = await publishAll(leat, failing(type, 499));
      await waitForStats(leat, stream.id, { failed: 499 });
      endpoint.respondWith(204);
      await expectBody(202, redeliver(leat, stream.id, ids[0] ?? ''));
      await waitForStats(leat, stream.id, { delivered: 1 });
      endpoint.respondWith(400);
      const path = `/api/v2/event-streams/${stream.id}/redeliver`;
      await expectBody(202, leat.send('POST', path));
      await waitForStats(leat, stream.id, { failed: 499 + 498 });
      assert.equal((await readStream(leat, stream.id)).status, 'enabled');
      await expectBody(202, redeliver(leat, stream.id, ids[1] ?? ''));
      await waitForStats(leat, stream.id, { failed: 499 + 499 });
      assert.equal((await readStream(leat, stream.id)).status, 'enabled');
      await expectBody(202, redeliver(leat, stream.id, ids[2] ?? ''));
      await waitForDisabled(stream);
    },
  );

  test('enabling a stream resets its failures in a row', async (t) => {
    const { stream, type } = await streamOf(t);
    await publishAll(leat, failing(type, 500));
    await waitForDisabled(stream);
    await patchStream(leat, stream.id, { status: 'enabled' });
    await publishAll(leat, failing(type, 499));
    await waitForStats(leat, stream.id, { failed: 999 });
    assert.equal((await readStream(leat, stream.id)).status, 'enabled');
    await publishAll(leat, failing(type, 1));
    await waitForDisabled(stream);
  });

  test('500 failures in a row do not affect another stream', async (t) => {
    const broken = await streamOf(t);
    const healthy = await startEndpoint();
    t.after(() => healthy.close());
    const other = await createStream(leat, healthy.url, { types: [broken.type] });
    const ids = await publishAll(leat, failing(broken.type, 500));
    await waitForDisabled(broken.stream);
    await waitForStats(leat, other.id, { delivered: 500 });
    assert.equal((await readStream(leat, other.id)).status, 'enabled');
    assert.deepEqual(healthy.arrivals.map(({ event }) => event.id).toSorted(), ids.toSorted());
  });
});

describe('a receiver that responds with 410', () => {
  const disabledOf = async ({ id }: StreamBody): Promise<unknown> => {
    const path = `/api/v2/event-streams/${id}/health`;
    const { disabled } = await expectBody<StreamHealthShown>(200, leat.send('GET', path));
    return disabled && [disabled.reason, disabled.last_error_code];
  };

  test('410: the first one disables the stream, and again when it is enabled unchanged', async (t) => {
    const { stream, type, endpoint } = await streamOf(t);
    endpoint.respondWith(410);
    const [failed] = await publishAll(leat, failing(type, 1));
    await waitForDisabled(stream);
    assert.deepEqual(await disabledOf(stream), ['gone', 'http_410']);
    await patchStream(leat, stream.id, { status: 'enabled' });
    await expectBody(202, redeliver(leat, stream.id, failed ?? ''));
    await waitForDisabled(stream);
    assert.deepEqual(await disabledOf(stream), ['gone', 'http_410']);
  });

  test('410: a test event does not disable the stream, nor where retry_4xx has it', async (t) => {
    const { stream, type, endpoint } = await streamOf(t);
    endpoint.respondWith(410);
    const path = `/api/v2/event-streams/${stream.id}`;
    await expectBody(202, leat.send('POST', `${path}/test`, { event_type: type }));
    await waitForStats(leat, stream.id, { failed: 1 });
    assert.equal(await disabledOf(stream), null);
    const retry = { delays_seconds: [86_400], retry_4xx: [410] };
    await patchStream(leat, stream.id, { delivery: { retry } });
    const [id = ''] = await publishAll(leat, failing(type, 1));
    const health = (): Promise<StreamHealthShown> =>
      expectBody(200, leat.send('GET', `${path}/health`));
    await waitFor('the retry', async () => (await health()).retrying === 1);
    assert.equal(endpoint.of(id).length, 1);
    assert.equal((await health()).disabled, null);
  });
});

describe('a stream that was disabled by its failures', () => {
  test(
    'a stream that was disabled by its failures is sent redeliveries only; later events wait',
    { tags: ['long'] },
    async (t) => {
      const { stream, type, endpoint } = await streamOf(t);
      const failed = await publishAll(leat, failing(type, 500));
      await waitForDisabled(stream);
      endpoint.respondWith(204);
      const missed = await publishAll(leat, failing(type, 3));
      const repaired = failed.slice(0, 2);
      for (const id of repaired) await expectBody(202, redeliver(leat, stream.id, id));
      await waitForStats(leat, stream.id, { delivered: 2 });
      assert.deepEqual(
        endpoint.arrivals
          .slice(500)
          .map(({ event }) => event.id)
          .toSorted(),
        repaired.toSorted(),
      );
      assert.equal((await readStream(leat, stream.id)).status, 'disabled');
      await patchStream(leat, stream.id, { status: 'enabled', resume: 'held' });
      await waitForStats(leat, stream.id, { delivered: 5 });
      assert.deepEqual(
        endpoint.arrivals
          .slice(502)
          .map(({ event }) => event.id)
          .toSorted(),
        missed.toSorted(),
      );
    },
  );

  test(
    'a stream that was disabled at 5000 open failures cannot be enabled until a redelivery leaves 4999',
    { tags: ['long'] },
    async (t) => {
      const { stream, type, endpoint } = await streamOf(t);
      // A success after every tenth failure resets the failures in a row.
      const mixed = Array.from({ length: 499 }, () => [...failing(type, 10), passing(type)]).flat();
      const ids = await publishAll(leat, [...mixed, ...failing(type, 9)]);
      await waitForStats(leat, stream.id, { delivered: 499, failed: 4999 });
      assert.equal((await readStream(leat, stream.id)).status, 'enabled');
      await publishAll(leat, failing(type, 1));
      await waitForDisabled(stream);
      assert.equal((await statsOf(leat, stream.id)).failed, 5000);

      const path = `/api/v2/event-streams/${stream.id}`;
      const another = { status: 'enabled', name: 'not-applied', subscriptions: [] };
      assert.deepEqual(await expectBody<ProblemBody>(409, leat.send('PATCH', path, another)), {
        statusCode: 409,
        error: 'Conflict',
        message:
          'The event stream has 5000 failed deliveries. ' +
          'Redeliver failed events until fewer than 5000 remain, then enable it again.',
        errorCode: 'too_many_failures',
      });
      const unchanged = await readStream(leat, stream.id);
      assert.equal(unchanged.name, stream.name);
      assert.deepEqual(unchanged.subscriptions, stream.subscriptions);

      // A redelivery that fails leaves the total where it is.
      await expectBody(202, redeliver(leat, stream.id, ids[0] ?? ''));
      await waitForStats(leat, stream.id, { failed: 5001 });
      const refused = leat.send('PATCH', path, { status: 'enabled' });
      assert.equal((await expectBody<ProblemBody>(409, refused)).errorCode, 'too_many_failures');

      endpoint.respondWith(204);
      await expectBody(202, redeliver(leat, stream.id, ids[0] ?? ''));
      await waitForStats(leat, stream.id, { delivered: 500 });
      assert.equal((await patchStream(leat, stream.id, { status: 'enabled' })).status, 'enabled');

      // 4999 are still open: the next failure is the 5000th again.
      endpoint.respondWith(400);
      await publish(leat, type);
      await waitForDisabled(stream);
      endpoint.respondWith(204);
      await expectBody(202, leat.send('POST', `${path}/redeliver`));
      await waitForFailures(leat, stream.id, 0);
      assert.equal((await patchStream(leat, stream.id, { status: 'enabled' })).status, 'enabled');
      const marker = await publish(leat, type);
      await waitFor('the stream to work again', () => endpoint.of(marker).length === 1);
    },
  );
});

/** A stream whose endpoint refuses the events of {@link failing} without a retry. */
async function streamOf(
  t: TestContext,
): Promise<{ endpoint: Endpoint; stream: StreamBody; type: string }> {
  const endpoint = await startEndpoint((response, { event }) => {
    const { fails } = event.data['object'] as { fails?: boolean };
    response.writeHead(fails === true ? 400 : 204).end();
  });
  t.after(() => endpoint.close());
  const type = freshType();
  return { endpoint, type, stream: await createStream(leat, endpoint.url, { types: [type] }) };
}

function failing(type: string, total: number): object[] {
  return Array.from({ length: total }, () => ({ type, data: { object: { fails: true } } }));
}

function passing(type: string): object {
  return { type, data: { object: {} } };
}

async function waitForDisabled({ id }: StreamBody): Promise<void> {
  const disabled = async (): Promise<boolean> => (await readStream(leat, id)).status === 'disabled';
  await waitFor('the stream to be disabled', disabled);
}
