import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { parseOffset } from '../../src/core/offset.ts';
import { startEndpoint, type Reply, type Endpoint } from '../helpers/endpoint.ts';
import { waitFor, type Running } from '../helpers/leat.ts';
import {
  expectBody,
  createStream,
  destination,
  eventsOf,
  failuresOf,
  freshName,
  freshType,
  patchStream,
  publish,
  publishAll,
  readStream,
  redeliver,
  statsOf,
  streamBody,
  waitForFailures,
  waitForStats,
  type StreamBody,
} from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

/** Concurrent requests: nothing is lost, nothing is sent to a wrong destination, no request gets a 500. */

let leat: Running;

runServer({ LEAT_RETRY_DELAYS_MS: '5,5,5' }, (running) => {
  leat = running;
});

const together = 20;

interface Accepted {
  readonly id: string;
  readonly offset: string;
}

describe('concurrent requests', () => {
  test('two creates with one name: one stream is created', async (t) => {
    const endpoint = await endpointOf(t);
    const name = freshName();
    const responses = await all(together, () =>
      leat.send('POST', '/api/v2/event-streams', streamBody(endpoint.url, { name })),
    );
    assert.deepEqual(statusesOf(responses), [201, ...times(together - 1, 409)]);
  });

  test('two renames to one name: one stream has it', async (t) => {
    const endpoint = await endpointOf(t);
    const streams = await all(together, () => createStream(leat, endpoint.url));
    const name = freshName();
    const responses = await Promise.all(
      streams.map(({ id }) => leat.send('PATCH', `/api/v2/event-streams/${id}`, { name })),
    );
    assert.deepEqual(statusesOf(responses), [200, ...times(together - 1, 409)]);
    const named = await Promise.all(streams.map(({ id }) => readStream(leat, id)));
    assert.equal(named.filter((stream) => stream.name === name).length, 1);
  });

  test('one event published many times at once: one id, one offset, one delivery', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const event = { type, id: freshName(), data: { object: {} } };
    const stored = await all(together, async (index) => {
      // Alone, twice in a batch, and after another event.
      const bodies: object[] = [event, [event, event], [{ type, data: {} }, event]];
      const body = bodies[index % bodies.length];
      const accepted = await expectBody<Accepted | Accepted[]>(
        202,
        leat.send('POST', '/api/v2/events', body),
      );
      return Array.isArray(accepted) ? (accepted.at(-1) ?? { id: '', offset: '' }) : accepted;
    });
    assert.equal(new Set(stored.map(({ id, offset }) => `${id} ${offset}`)).size, 1);
    const neighbours = Array.from({ length: together }, (_, index) => index % 3).filter(
      (kind) => kind === 2,
    ).length;
    await waitForStats(leat, stream.id, { delivered: 1 + neighbours });
    const marker = await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 2 + neighbours });
    assert.equal(endpoint.of(marker).length, 1);
    assert.equal(endpoint.of(stored[0]?.id ?? '').length, 1);
  });

  test('offsets of many publishers have no gap and no duplicate', async () => {
    const type = freshType();
    const sizes = [1, 7, 40, 100];
    const stored = await all(together, (index) =>
      expectBody<{ id: string; offset: string }[]>(
        202,
        leat.send('POST', '/api/v2/events', eventsOf(type, sizes[index % sizes.length] ?? 1)),
      ),
    );
    const positionOf = ({ offset }: { offset: string }): number => parseOffset(offset)?.offset ?? 0;
    const offsets = stored
      .flat()
      .map(positionOf)
      .toSorted((a, b) => a - b);
    const [first = 0] = offsets;
    assert.deepEqual(
      offsets,
      offsets.map((_, index) => first + index),
    );
    for (const batch of stored) {
      const own = batch.map(positionOf);
      assert.deepEqual(
        own,
        own.toSorted((a, b) => a - b),
      );
    }
    assert.equal(new Set(stored.flat().map(({ id }) => id)).size, offsets.length);
  });

  test('many redeliveries of one failure: one is accepted, one is sent', async (t) => {
    const endpoint = await endpointOf(t, 400);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const id = await publish(leat, type);
    await waitForFailures(leat, stream.id, 1);
    const release = hold(endpoint);
    const responses = await all(together, () => redeliver(leat, stream.id, id));
    assert.deepEqual(statusesOf(responses), [202, ...times(together - 1, 409)]);
    await endpoint.arrival(2);
    release();
    await waitForFailures(leat, stream.id, 0);
    assert.equal(endpoint.of(id).length, 2);
  });

  test('redeliveries of one and of all at once send each failure once', async (t) => {
    const endpoint = await endpointOf(t, 400);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const ids = await publishAll(leat, eventsOf(type, 40));
    await waitForStats(leat, stream.id, { failed: 40 });
    const release = hold(endpoint);
    const path = `/api/v2/event-streams/${stream.id}/redeliver`;
    const responses = await Promise.all([
      ...ids.slice(0, 20).map((id) => redeliver(leat, stream.id, id)),
      ...times(5, path).map((at) => leat.send('POST', at)),
    ]);
    assert.ok(responses.every(({ status }) => status === 202 || status === 409));
    // Not all of them: a receiver that does not respond for a while gets few requests at once.
    await endpoint.arrival(41);
    release();
    await waitForFailures(leat, stream.id, 0);
    assert.deepEqual(await statsOf(leat, stream.id), { delivered: 40, failed: 40 });
    assert.ok(ids.every((id) => endpoint.of(id).length === 2));
  });

  test('disable and enable at random end in a working state', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const path = `/api/v2/event-streams/${stream.id}`;
    const bodies = [
      { status: 'disabled' },
      { status: 'enabled' },
      { status: 'enabled', resume: 'held' },
    ];
    const responses = await all(together * 2, (index) =>
      leat.send('PATCH', path, bodies[index % bodies.length]),
    );
    assert.deepEqual(statusesOf(responses), times(together * 2, 200));
    await patchStream(leat, stream.id, { status: 'enabled' });
    const marker = await publish(leat, type);
    await waitFor('the stream to work', () => endpoint.of(marker).length === 1);
  });

  test('deletes, reads and patches of one stream end in 404, never in 500', async (t) => {
    const endpoint = await endpointOf(t);
    const stream = await createStream(leat, endpoint.url);
    const path = `/api/v2/event-streams/${stream.id}`;
    const requests: (() => Promise<Response>)[] = [
      () => leat.send('GET', path),
      () => leat.send('PATCH', path, { status: 'disabled' }),
      () => leat.send('PATCH', path, { status: 'enabled', resume: 'held' }),
      () => leat.send('DELETE', path),
      () => leat.send('GET', `${path}/deliveries`),
      () => leat.send('GET', `${path}/stats`),
      () => leat.send('POST', `${path}/test`, { event_type: 'user.created' }),
      () => leat.send('POST', `${path}/redeliver`),
      () => leat.send('POST', `${path}/signing-secret/rotate`),
    ];
    const responses = await all(
      requests.length * 5,
      (index) =>
        (requests[(index * 7) % requests.length] ?? requests[0])?.() ?? leat.send('GET', path),
    );
    for (const response of responses) {
      const possible = [200, 202, 204, 404, 409].includes(response.status);
      assert.ok(possible, `${response.status} ${await response.text()}`);
    }
    await expectBody(404, leat.send('GET', path));
  });
});

describe('changes while events are delivered', () => {
  test(
    'changes of every kind while events are delivered lose and duplicate nothing',
    { tags: ['long'] },
    async (t) => {
      const [first, second] = [await endpointOf(t), await endpointOf(t)];
      const type = freshType();
      const stream = await createStream(leat, first.url, { types: [type] });
      const ids: string[] = [];
      const publishing = (async () => {
        for (let batch = 0; batch < 30; batch++) {
          ids.push(...(await publishAll(leat, eventsOf(type, 50))));
        }
      })();
      const ending = new AbortController();
      const changing = (async () => {
        for (let round = 0; !ending.signal.aborted; round++) {
          const { url } = round % 2 === 0 ? second : first;
          await patchStream(leat, stream.id, { destination: destination(url) });
          await patchStream(leat, stream.id, { name: freshName() });
          const subscriptions = [{ event_type: type }, { event_type: `${type}.more` }];
          await patchStream(leat, stream.id, {
            subscriptions: subscriptions.slice(0, 1 + (round % 2)),
          });
          await expectBody(
            200,
            leat.send('POST', `/api/v2/event-streams/${stream.id}/signing-secret/rotate`, {
              force: true,
            }),
          );
        }
      })();
      await publishing;
      await waitForStats(leat, stream.id, { delivered: ids.length });
      ending.abort();
      await changing;
      assert.deepEqual(await failuresOf(leat, stream.id), []);
      const got = [...first.arrivals, ...second.arrivals].map(({ event }) => event.id);
      assert.equal(new Set(got).size, ids.length);
      assert.deepEqual(got.toSorted(), ids.toSorted());
      assert.deepEqual(await statsOf(leat, stream.id), { delivered: ids.length, failed: 0 });
    },
  );

  test(
    'changes while an endpoint sometimes fails: every delivery ends once',
    { tags: ['long'] },
    async (t) => {
      let number = 0;
      const endpoint = await endpointOf(t, (response) => {
        number++;
        response.writeHead(number % 3 === 0 ? 503 : number % 7 === 0 ? 400 : 204).end();
      });
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type] });
      const path = `/api/v2/event-streams/${stream.id}`;
      const ids = await publishAll(leat, eventsOf(type, 1500));
      await waitFor('every event to have ended once', async () => {
        await leat.send('POST', `${path}/redeliver`);
        const { delivered } = await statsOf(leat, stream.id);
        return delivered >= ids.length;
      });
      assert.equal((await statsOf(leat, stream.id)).delivered, ids.length);
      assert.deepEqual(await failuresOf(leat, stream.id), []);
      assert.deepEqual(
        [...new Set(endpoint.arrivals.map(({ event }) => event.id))].toSorted(),
        ids.toSorted(),
      );
    },
  );

  test('disabling and resuming with held loses no event', { tags: ['long'] }, async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const ids: string[] = [];
    const ending = new AbortController();
    const publishing = (async () => {
      for (let batch = 0; batch < 30; batch++) {
        ids.push(...(await publishAll(leat, eventsOf(type, 30))));
      }
    })();
    const toggling = (async () => {
      while (!ending.signal.aborted) {
        await patchStream(leat, stream.id, { status: 'disabled' });
        await patchStream(leat, stream.id, { status: 'enabled', resume: 'held' });
      }
    })();
    await publishing;
    ending.abort();
    await toggling;
    await waitFor('every event', () => {
      const got = new Set(endpoint.arrivals.map(({ event }) => event.id));
      return ids.every((id) => got.has(id));
    });
    assert.deepEqual(await failuresOf(leat, stream.id), []);
    assert.equal((await readStream(leat, stream.id)).status, 'enabled');
  });

  test('nothing is sent to a destination after it was changed', async (t) => {
    const [old, next] = [await endpointOf(t), await endpointOf(t)];
    const type = freshType();
    const stream = await createStream(leat, old.url, { types: [type] });
    await publishAll(leat, eventsOf(type, 500));
    await old.arrival(10);
    await patchStream(leat, stream.id, { destination: destination(next.url) });
    const later = await publishAll(leat, eventsOf(type, 50));
    await waitForStats(leat, stream.id, { delivered: 550 });
    assert.ok(later.every((id) => old.of(id).length === 0 && next.of(id).length === 1));
  });

  test('a deleted stream is sent nothing more, another stream everything', async (t) => {
    const [gone, stays] = [await endpointOf(t), await endpointOf(t)];
    const type = freshType();
    const stream = await createStream(leat, gone.url, { types: [type] });
    const other = await createStream(leat, stays.url, { types: [type] });
    await publishAll(leat, eventsOf(type, 500));
    await gone.arrival(10);
    await expectBody(204, leat.send('DELETE', `/api/v2/event-streams/${stream.id}`));
    const later = await publishAll(leat, eventsOf(type, 100));
    await waitForStats(leat, other.id, { delivered: 600 });
    assert.ok(later.every((id) => gone.of(id).length === 0));
    assert.equal(stays.arrivals.length, 600);
  });
});

describe('concurrent streams', () => {
  test(
    'streams are served while another one hangs and one fails',
    { tags: ['long'] },
    async (t) => {
      const hanging = await endpointOf(t, () => undefined);
      const failing = await endpointOf(t, 503);
      const healthy = await endpointOf(t);
      const type = freshType();
      const created: StreamBody[] = [];
      for (const { url } of [hanging, failing, healthy]) {
        created.push(await createStream(leat, url, { types: [type] }));
      }
      const ids = await publishAll(leat, eventsOf(type, 400));
      await waitForStats(leat, created[2]?.id ?? '', { delivered: 400 });
      assert.equal(new Set(healthy.arrivals.map(({ event }) => event.id)).size, ids.length);
      await waitForStats(leat, created[1]?.id ?? '', { failed: 400 });
      assert.equal(failing.arrivals.length, 1600);
      assert.ok(hanging.arrivals.length <= 64, `${hanging.arrivals.length} at once`);
      for (const { id } of created) {
        await expectBody(204, leat.send('DELETE', `/api/v2/event-streams/${id}`));
      }
    },
  );
});

async function endpointOf(t: TestContext, first: Reply = 204): Promise<Endpoint> {
  const endpoint = await startEndpoint(first);
  t.after(() => endpoint.close());
  return endpoint;
}

/** Holds requests until the returned function is called; then they and later ones succeed. */
function hold(endpoint: Endpoint): () => void {
  const waiting: (() => void)[] = [];
  endpoint.respondWith((response) => {
    waiting.push(() => response.writeHead(204).end());
  });
  return () => {
    endpoint.respondWith(204);
    for (const respond of waiting.splice(0)) respond();
  };
}

function all<T>(count: number, ask: (index: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => ask(index)));
}

function times<T>(count: number, value: T): T[] {
  return Array.from({ length: count }, () => value);
}

function statusesOf(responses: readonly Response[]): number[] {
  return responses.map(({ status }) => status).toSorted((a, b) => a - b);
}
