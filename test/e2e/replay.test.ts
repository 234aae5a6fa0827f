import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { parseOffset } from '../../src/core/offset.ts';
import { type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { createTempStore, startLeat, waitFor, type Running } from '../helpers/leat.ts';
import { begin, headOf, pathOf, read, waitUntilOver } from '../helpers/replays.ts';
import {
  expectBody,
  createStream,
  eventsOf,
  freshType,
  patchStream,
  publish,
  publishAll,
  redeliver,
  streamBody,
  type StreamBody,
  waitForFailures,
  waitForStats,
} from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

let leat: Running;

runServer({ LEAT_RETRY_DELAYS_MS: '0' }, (running) => {
  leat = running;
});

/** As many slots as a stream has whose attempts are slow, as they are on a busy machine. */
const few = { concurrency: 4 };

/**
 * Attempts of a replay in progress at once: a quarter of those slots stays free for fresh events. A test
 * that changes how the endpoint responds waits until all of them have arrived.
 */
const atOnceMax = 3;

interface Past {
  readonly stream: StreamBody;
  readonly type: string;
  readonly endpoint: Endpoint;
  readonly ids: readonly string[];
  /** The end of the log before the first of them. */
  readonly from: string;
}

/** Creates a stream and waits until `count` events were sent to it and that is stored. */
async function past(t: TestContext, count: number, delivery?: object): Promise<Past> {
  const endpoint = await startEndpoint();
  t.after(() => endpoint.close());
  const type = freshType();
  const stream = await createStream(leat, endpoint.url, { types: [type], delivery });
  const from = await headOf(leat);
  const ids = await publishAll(leat, eventsOf(type, count));
  await waitFor('the events for the first time', () => endpoint.arrivals.length === count);
  await waitForStats(leat, stream.id, { delivered: count });
  return { stream, type, endpoint, ids, from };
}

const idsFrom = ({ arrivals }: Endpoint, first: number): string[] =>
  arrivals.slice(first).map(({ event }) => event.id);

describe('a replay', () => {
  test('a replay sends the same events again and reports its progress', async (t) => {
    const { stream, endpoint, ids, from } = await past(t, 300);
    const replay = await begin(leat, stream, { from });
    assert.equal(parseOffset(replay.from ?? '')?.offset, parseOffset(from)?.offset);
    const over = await waitUntilOver(leat, stream, replay);
    const { finished_at: finishedAt, ...rest } = over;
    assert.deepEqual(rest, { ...replay, status: 'done', matched: 300, sent: 300, failed: 0 });
    assert.ok((finishedAt ?? '') >= replay.created_at);
    assert.deepEqual(idsFrom(endpoint, 300).toSorted(), [...ids].toSorted());
    for (const id of ids) {
      const [first, again] = endpoint.of(id);
      assert.equal(again?.body, first?.body);
      assert.equal(again?.headers['webhook-id'], id);
    }
  });

  test('a replay of dates covers what was accepted between them', async (t) => {
    const { stream, endpoint, type, ids } = await past(t, 3);
    const early = endpoint.arrivals.map(({ event }) => event.time).toSorted();
    await waitFor('the next millisecond', () => new Date().toISOString() > (early.at(-1) ?? ''));
    const border = new Date().toISOString();
    const later = await publish(leat, type);
    await waitFor('a later event', () => endpoint.of(later)[0]);
    const first = await begin(leat, stream, { date_from: early[0], date_to: border });
    assert.equal((await waitUntilOver(leat, stream, first)).sent, 3);
    assert.deepEqual(idsFrom(endpoint, 4).toSorted(), [...ids].toSorted());
    const second = await begin(leat, stream, { date_from: border });
    assert.equal((await waitUntilOver(leat, stream, second)).sent, 1);
    assert.deepEqual(idsFrom(endpoint, 7), [later]);
  });

  test('a failed delivery of a replay is an ordinary failure, which another replay skips', async (t) => {
    const { stream, endpoint, ids, from } = await past(t, 3);
    const [bad] = ids;
    endpoint.respondWith((response, { event }) => {
      response.writeHead(event.id === bad ? 400 : 204).end();
    });
    const over = await waitUntilOver(leat, stream, await begin(leat, stream, { from }));
    assert.deepEqual([over.matched, over.sent, over.failed], [3, 2, 1]);
    const [failure] = await waitForFailures(leat, stream.id, 1);
    assert.equal(failure?.id, bad);
    const next = await waitUntilOver(leat, stream, await begin(leat, stream, { from }));
    assert.deepEqual([next.matched, next.sent, next.failed], [2, 2, 0]);
    endpoint.respondWith(204);
    await expectBody(202, redeliver(leat, stream.id, bad ?? ''));
    await waitForFailures(leat, stream.id, 0);
  });

  test('a cancelled replay lets attempts in progress end, and begins no other', async (t) => {
    const { stream, type, endpoint, from } = await past(t, 200, few);
    const held: (() => void)[] = [];
    endpoint.respondWith((response) => held.push(() => response.writeHead(204).end()));
    const replay = await begin(leat, stream, { from });
    await waitFor('attempts in progress', () => held.length === atOnceMax);
    await expectBody(204, leat.send('DELETE', `${pathOf(stream)}/${replay.id}`));
    const begun = endpoint.arrivals.length;
    endpoint.respondWith(204);
    for (const release of held) release();
    const fresh = await publish(leat, type);
    await waitFor('a fresh event', () => endpoint.of(fresh)[0]);
    const again = await begin(leat, stream, { from: await headOf(leat) });
    assert.equal(again.status, 'done');
    assert.equal((await read(leat, stream, replay)).status, 'cancelled');
    assert.deepEqual(idsFrom(endpoint, begun), [fresh]);
  });

  test('a replay pauses while the stream is disabled, and continues afterwards', async (t) => {
    const { stream, endpoint, ids, from } = await past(t, 200, few);
    const held: (() => void)[] = [];
    endpoint.respondWith((response) => held.push(() => response.writeHead(204).end()));
    const replay = await begin(leat, stream, { from });
    await waitFor('attempts in progress', () => held.length === atOnceMax);
    await patchStream(leat, stream.id, { status: 'disabled' });
    const begun = endpoint.arrivals.length;
    endpoint.respondWith(204);
    for (const release of held) release();
    assert.equal((await read(leat, stream, replay)).status, 'running');
    await waitFor('the attempts in progress to be counted', async () => {
      return (await read(leat, stream, replay)).sent === held.length;
    });
    assert.equal(endpoint.arrivals.length, begun);
    await waitForFailures(leat, stream.id, 0);
    await patchStream(leat, stream.id, { status: 'enabled' });
    const over = await waitUntilOver(leat, stream, replay);
    assert.deepEqual([over.status, over.matched, over.sent], ['done', 200, 200]);
    assert.deepEqual(new Set(idsFrom(endpoint, 200)), new Set(ids));
  });
});

describe('a replay of skipped events', () => {
  test('a replay between the times of disabling and enabling sends exactly the skipped events', async (t) => {
    const { stream, type, endpoint } = await past(t, 5);
    const disabled = await patchStream(leat, stream.id, { status: 'disabled' });
    const missed = await publishAll(leat, eventsOf(type, 20));
    const accepted = new Date().toISOString();
    await waitFor('the next millisecond', () => new Date().toISOString() > accepted);
    const path = `/api/v2/event-streams/${stream.id}`;
    const response = await leat.send('PATCH', path, { status: 'enabled' });
    assert.equal(response.headers.get('leat-skipped-events'), '20');
    const enabled = await expectBody<StreamBody>(200, response);
    const later = await publish(leat, type);
    await waitFor('an event after them', () => endpoint.of(later)[0]);
    const range = { date_from: disabled.updated_at, date_to: enabled.updated_at };
    const over = await waitUntilOver(leat, stream, await begin(leat, stream, range));
    assert.deepEqual([over.status, over.matched, over.sent, over.failed], ['done', 20, 20, 0]);
    assert.deepEqual(idsFrom(endpoint, 6).toSorted(), missed.toSorted());
  });
});

describe('a replay while its stream changes', () => {
  test('a replay continues at a changed destination, with the changed types', async (t) => {
    const { stream, type, endpoint, ids, from } = await past(t, 60);
    const other = freshType();
    const unwanted = await publishAll(leat, eventsOf(other, 10));
    const held: (() => void)[] = [];
    endpoint.respondWith((response) => held.push(() => response.writeHead(204).end()));
    const replay = await begin(leat, stream, { from });
    await waitFor('attempts in progress', () => held.length > 0);
    const next = await startEndpoint();
    t.after(() => next.close());
    const subscriptions = [type, other].map((one) => ({ event_type: one }));
    const { destination } = streamBody(next.url, { types: [type] });
    await patchStream(leat, stream.id, { destination, subscriptions });
    endpoint.respondWith(204);
    for (const release of held) release();
    const over = await waitUntilOver(leat, stream, replay);
    assert.deepEqual([over.status, over.matched, over.sent, over.failed], ['done', 70, 70, 0]);
    const sent = [...idsFrom(endpoint, 60), ...idsFrom(next, 0)];
    assert.deepEqual(sent.toSorted(), [...ids, ...unwanted].toSorted());
    assert.ok(unwanted.every((id) => next.of(id).length === 1));
  });

  test('deleting the stream ends its replay: no attempt follows, and the replay is gone', async (t) => {
    const { stream, endpoint, from } = await past(t, 100, few);
    const held: (() => void)[] = [];
    endpoint.respondWith((response) => held.push(() => response.writeHead(204).end()));
    const replay = await begin(leat, stream, { from });
    await waitFor('attempts in progress', () => held.length === atOnceMax);
    const path = `/api/v2/event-streams/${stream.id}`;
    assert.equal((await leat.send('DELETE', path)).status, 204);
    const begun = endpoint.arrivals.length;
    for (const method of ['GET', 'DELETE']) {
      assert.equal((await leat.send(method, `${pathOf(stream)}/${replay.id}`)).status, 404);
    }
    assert.equal((await leat.send('POST', pathOf(stream), { from })).status, 404);
    const { url } = endpoint;
    const mark = freshType();
    await createStream(leat, url, { types: [mark] });
    endpoint.respondWith(204);
    const id = await publish(leat, mark);
    await waitFor('an event of another stream', () => endpoint.of(id)[0]);
    assert.deepEqual(idsFrom(endpoint, begun), [id]);
  });
});

describe('kill -9 during a replay', () => {
  test(
    'kill -9 during a replay loses none of its events, and the final counts are right',
    { tags: ['long'] },
    async (t) => {
      const own = await createTempStore();
      const endpoint = await startEndpoint();
      let node: Running | undefined = await startLeat(own);
      t.after(async () => {
        await node?.kill();
        await endpoint.close();
        await own.remove();
      });
      const type = freshType();
      const stream = await createStream(node, endpoint.url, { types: [type] });
      const from = await headOf(node);
      const ids = await publishAll(node, eventsOf(type, 2000));
      await waitFor(
        'the events for the first time',
        () => new Set(idsFrom(endpoint, 0)).size === 2000,
      );
      const firstTime = endpoint.arrivals.length;
      // Slow enough that each kill falls into the replay.
      endpoint.respondWith((response) => setTimeout(() => response.writeHead(204).end(), 10));
      const replay = await begin(node, stream, { from });
      const fresh: string[] = [];
      for (const share of [0.2, 0.4, 0.6]) {
        const wanted = firstTime + 2000 * share;
        await waitFor(`${share} of the replay`, () => endpoint.arrivals.length > wanted);
        fresh.push(...(await publishAll(node, eventsOf(type, 3))));
        assert.equal((await read(node, stream, replay)).status, 'running');
        await node.kill();
        node = undefined;
        node = await startLeat(own);
      }
      const over = await waitUntilOver(node, stream, replay);
      const { status, matched, sent, failed } = over;
      assert.deepEqual([status, matched, sent, failed], ['done', 2000, 2000, 0]);
      await waitFor('the fresh events', () => fresh.every((id) => endpoint.of(id).length > 0));
      const arrived = new Set(idsFrom(endpoint, firstTime));
      assert.deepEqual(
        ids.filter((id) => !arrived.has(id)),
        [],
      );
      await waitForFailures(node, stream.id, 0);
      t.diagnostic(
        `${endpoint.arrivals.length - firstTime - 2003} requests came again after a kill`,
      );
    },
  );
});

describe('start_from of a new stream', () => {
  test('start_from of a new stream sends the retained events from there first', async (t) => {
    const { type, endpoint, ids, from } = await past(t, 50);
    const border = await headOf(leat);
    const later = await publishAll(leat, eventsOf(type, 20));
    await waitFor('the later events', () => endpoint.arrivals.length === 70);
    const time = endpoint.arrivals.map(({ event }) => event.time).toSorted()[0];
    const cases: [startFrom: string, retained: string[]][] = [
      [from, [...ids, ...later]],
      [border, later],
      [String(time), [...ids, ...later]],
      ['now', []],
    ];
    // One event after each creation, which the streams created later find in the log as well.
    const lasts: string[] = [];
    for (const [startFrom, retained] of cases) {
      const own = await startEndpoint();
      t.after(() => own.close());
      const body = { ...streamBody(own.url, { types: [type] }), start_from: startFrom };
      await expectBody(201, leat.send('POST', '/api/v2/event-streams', body));
      const last = await publish(leat, type);
      lasts.push(last);
      const expected = startFrom === 'now' ? [last] : [...retained, ...lasts];
      await waitFor(`${startFrom}: each event`, () =>
        expected.every((id) => own.of(id).length > 0),
      );
      assert.deepEqual(idsFrom(own, 0).toSorted(), expected.toSorted(), startFrom);
    }
  });

  test('start_from of a stream that is created disabled applies when it is enabled', async (t) => {
    const { type, from, ...of } = await past(t, 5);
    const ids = [...of.ids];
    for (const resume of ['held', 'latest'] as const) {
      const own = await startEndpoint();
      t.after(() => own.close());
      const options = { ...streamBody(own.url, { types: [type] }), start_from: from };
      const creation = leat.send('POST', '/api/v2/event-streams', {
        ...options,
        status: 'disabled',
      });
      const { id } = await expectBody<StreamBody>(201, creation);
      const change = { status: 'enabled', resume };
      const enabled = await leat.send('PATCH', `/api/v2/event-streams/${id}`, change);
      const skipped = resume === 'held' ? 0 : ids.length;
      assert.equal(enabled.headers.get('leat-skipped-events'), String(skipped));
      const last = await publish(leat, type);
      await waitFor('an event after it', () => own.of(last)[0]);
      const expected = resume === 'held' ? [...ids, last] : [last];
      await waitFor('all of them', () => own.arrivals.length >= expected.length);
      assert.deepEqual(idsFrom(own, 0).toSorted(), expected.toSorted());
      await expectBody(204, leat.send('DELETE', `/api/v2/event-streams/${id}`));
      ids.push(last);
    }
  });
});
