import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Reply, startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { waitFor, type Running } from '../helpers/leat.ts';
import {
  expectBody,
  createStream,
  eventsOf,
  freshName,
  freshType,
  publishAll,
  waitForStats,
  type ProblemBody,
} from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

/** A service with another name, as after a migration from another product. */

let leat: Running;
let endpoint: Endpoint;

runServer(
  {
    LEAT_SERVICE_NAME: 'acme',
    LEAT_ATTRIBUTE_PREFIX: 'a0',
    LEAT_TENANT_NAME: 'shop-1',
    LEAT_STREAM_CONCURRENCY: '2',
    LEAT_CONCURRENCY: '3',
  },
  (running) => {
    leat = running;
  },
);
before(async () => {
  endpoint = await startEndpoint();
});
after(async () => {
  await endpoint.close();
});

describe('the name of the service and the prefix', () => {
  test('the name of the service and the prefix are in envelopes, user ids and error codes', async () => {
    const stream = await createStream(leat, endpoint.url, { types: ['user.created'] });
    const body = {
      email: `${freshName()}@example.com`,
      password: 'correct-horse-battery',
      connection: 'Username-Password-Authentication',
    };
    const user = await expectBody<{ user_id: string }>(
      201,
      leat.send('POST', '/api/v2/users', body),
    );
    assert.match(user.user_id, /^acme\|[0-9a-f]{24}$/);
    const twice = leat.send('POST', '/api/v2/users', body);
    assert.equal((await expectBody<ProblemBody>(409, twice)).errorCode, 'acme_idp_error');
    const { event } = await endpoint.arrival(1);
    assert.equal(event.source, 'urn:acme:');
    assert.deepEqual([event['a0tenant'], event['a0stream']], ['shop-1', stream.id]);
    assert.ok(!('svctenant' in event));
    const path = `/api/v2/event-streams/${stream.id}/test`;
    await expectBody(202, leat.send('POST', path, { event_type: 'user.created' }));
    assert.equal((await endpoint.arrival(2)).event['a0purpose'], 'test');
    const stats = await expectBody<{ metrics: { name: string }[] }>(
      200,
      leat.send('GET', `/api/v2/event-streams/${stream.id}/stats`),
    );
    assert.deepEqual(
      stats.metrics.map(({ name }) => name),
      ['acme.event_streams.successful_deliveries', 'acme.event_streams.failed_deliveries'],
    );
    await expectBody(204, leat.send('DELETE', `/api/v2/event-streams/${stream.id}`));
  });

  test('the name of the service and the prefix cannot be forged by a CloudEvent', async () => {
    const event = { specversion: '1.0', id: '1', source: '/x', type: freshType(), data: {} };
    const contentType = { 'content-type': 'application/cloudevents+json' };
    for (const attribute of ['a0tenant', 'a0stream', 'a0purpose', 'a0anything']) {
      const forged = { ...event, [attribute]: 'test' };
      const refused = await expectBody<ProblemBody>(
        400,
        leat.send('POST', '/api/v2/events', forged, contentType),
      );
      assert.equal(refused.errorCode, 'invalid_body', attribute);
    }
    const other = { ...event, svctenant: 'not ours here' };
    await expectBody(202, leat.send('POST', '/api/v2/events', other, contentType));
  });
});

describe('the slots', () => {
  test('slots bound the concurrent attempts, per stream and in total', async (t) => {
    const type = freshType();
    const waiting: { stream: string; respond: () => void }[] = [];
    const hold: Reply = (response, { event }) => {
      const respond = (): unknown => response.writeHead(204).end();
      waiting.push({ stream: String(event['a0stream']), respond });
    };
    const busy = await startEndpoint(hold);
    t.after(() => busy.close());
    const streams = [
      await createStream(leat, busy.url, { types: [type] }),
      await createStream(leat, busy.url, { types: [type] }),
    ];
    // Only streams that are known to be quick get all slots.
    busy.respondWith(204);
    await publishAll(leat, eventsOf(type, 1));
    for (const { id } of streams) await waitForStats(leat, id, { delivered: 1 });
    busy.respondWith(hold);
    await publishAll(leat, eventsOf(type, 10));
    for (let left = 20; left > 0; left--) {
      const atOnce = Math.min(3, left);
      await waitFor(`${atOnce} attempts at once`, () => {
        const perStream = streams.map(({ id }) => waiting.filter((one) => one.stream === id));
        assert.ok(waiting.length <= 3, `${waiting.length} in all`);
        assert.ok(perStream.every((own) => own.length <= 2));
        return waiting.length > 0 && (waiting.length === atOnce || left <= 3);
      });
      waiting.shift()?.respond();
    }
    for (const { id } of streams) await waitForStats(leat, id, { delivered: 11 });
    assert.equal(busy.arrivals.length, 22);
  });
});
