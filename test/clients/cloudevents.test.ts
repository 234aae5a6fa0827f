import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { CloudEvent, HTTP, type Message } from 'cloudevents';
import { catalogue } from '../../src/core/catalogue.ts';
import { startEndpoint, type Arrival, type Endpoint } from '../helpers/endpoint.ts';
import {
  expectBody,
  createStream,
  failuresOf,
  type FailureBody,
  freshName,
  freshType,
  publish,
  redeliver,
  type StreamBody,
  waitForFailures,
} from '../helpers/api-client.ts';
import { type Fixture, openFixture } from './fixture.ts';
import { openReader } from './reader.ts';

/** The CloudEvents library in strict mode, on every kind of envelope of the real program. */

let fixture: Fixture;
let endpoint: Endpoint;
let stream: StreamBody;
let type: string;

before(async () => {
  fixture = await openFixture();
});
after(() => fixture?.close());
beforeEach(async () => {
  endpoint = await startEndpoint();
  type = freshType();
  stream = await createStream(fixture, endpoint.url, { types: [type] });
});
// Streams of other tests must not receive the users of the next one.
afterEach(async () => {
  await fixture.send('DELETE', `/api/v2/event-streams/${stream.id}`);
  await endpoint?.close();
});

/** Parses in both ways of the library, and checks that nothing is lost. */
function parse(body: string): CloudEvent<unknown> {
  const sent = JSON.parse(body) as Record<string, unknown>;
  const built = new CloudEvent<unknown>(sent, true);
  assert.equal(built.validate(), true);
  assert.deepEqual(JSON.parse(built.toString()), sent);
  const read = HTTP.toEvent<unknown>({
    headers: { 'content-type': 'application/cloudevents+json' },
    body,
  });
  assert.ok(read instanceof CloudEvent);
  assert.equal(read.validate(), true);
  assert.deepEqual(JSON.parse(read.toString()), sent);
  return built;
}

/** Creates a user and returns the id. */
async function createUser(): Promise<string> {
  const body = {
    connection: 'Username-Password-Authentication',
    email: `${freshName()}@example.com`,
    password: 'a long word and 4711',
    user_metadata: { a: [1, null, { b: 'ü' }] },
  };
  const creation = fixture.send('POST', '/api/v2/users', body);
  return (await expectBody<{ user_id: string }>(201, creation)).user_id;
}

async function testEvent(body: object): Promise<FailureBody> {
  return expectBody(202, fixture.send('POST', `/api/v2/event-streams/${stream.id}/test`, body));
}

async function send(message: Message<unknown>): Promise<{ id: string; offset: string }[]> {
  const headers = message.headers as Record<string, string>;
  const response = fixture.send('POST', '/api/v2/events', message.body, headers);
  const stored = await expectBody<
    { id: string; offset: string } | { id: string; offset: string }[]
  >(202, response);
  return [stored].flat();
}

describe('a delivery is a CloudEvent', () => {
  test('a delivery is a CloudEvent: a user who is created, changed and deleted', async () => {
    const subscriptions = ['user.created', 'user.updated', 'user.deleted'].map((event_type) => ({
      event_type,
    }));
    await expectBody(
      200,
      fixture.send('PATCH', `/api/v2/event-streams/${stream.id}`, { subscriptions }),
    );
    const path = `/api/v2/users/${encodeURIComponent(await createUser())}`;
    await expectBody(200, fixture.send('PATCH', path, { given_name: 'Ada' }));
    await expectBody(204, fixture.send('DELETE', path));
    await endpoint.arrival(3);
    const events = endpoint.arrivals.map(({ body }) => parse(body));
    assert.deepEqual(
      new Set(events.map((event) => event.type)),
      new Set(['user.created', 'user.updated', 'user.deleted']),
    );
    for (const event of events) {
      assert.equal(event.source, 'urn:leat:');
      assert.deepEqual([event['svctenant'], event['svcstream']], ['main', stream.id]);
    }
  });

  test('a delivery is a CloudEvent: a test event of each type of the catalogue, and of an own type', async () => {
    const types = [...catalogue, type];
    for (const event_type of types) {
      const { event } = await testEvent({ event_type });
      assert.equal(parse(JSON.stringify(event)).type, event_type);
    }
    await endpoint.arrival(types.length);
    const events = endpoint.arrivals.map(({ body }) => parse(body));
    assert.deepEqual(new Set(events.map((event) => event.type)), new Set(types));
    for (const event of events) assert.equal(event['svcpurpose'], 'test');
  });

  test('a delivery is a CloudEvent: an own event at the first attempt, as a failure, and redelivered', async () => {
    endpoint.respondWith(500);
    const id = await publish(fixture, type, { number: 1.5, nothing: null, text: '\u2028' });
    const [failure] = await waitForFailures(fixture, stream.id, 1);
    assert.equal(parse(JSON.stringify(failure?.event)).id, id);
    endpoint.respondWith(204);
    assert.equal((await redeliver(fixture, stream.id, id)).status, 202);
    await waitForFailures(fixture, stream.id, 0);
    const bodies = new Set(endpoint.arrivals.map(({ body }) => body));
    assert.equal(bodies.size, 1);
    for (const body of bodies) assert.equal(parse(body).id, id);
    assert.deepEqual(await failuresOf(fixture, stream.id), []);
  });
});

describe('a pulled event is a CloudEvent', () => {
  test('a pulled event is a CloudEvent without a stream: of a user, an own event and a published CloudEvent', async (t) => {
    const types = ['user.created', type];
    const { url, token } = fixture;
    const reader = await openReader(t, { url, query: '', types, token: () => token });
    const own = await publish(fixture, type, { text: 'ü\u2028' });
    const source = 'https://shop.example.com/orders';
    const data = { object: { order_id: '42' } };
    const event = new CloudEvent({ source, type, subject: 'orders/42', sequence: 7, data });
    const [published] = await send(HTTP.structured(event));
    await createUser();

    const events = (await reader.read(3)).map((message) =>
      parse(JSON.stringify(message.data.event)),
    );
    assert.deepEqual(
      events.map((one) => [one.type, one['svctenant'], one['svcstream']]),
      [type, type, 'user.created'].map((name) => [name, 'main', undefined]),
    );
    assert.deepEqual(
      events.slice(0, 2).map(({ id }) => id),
      [own, published?.id],
    );
    const [, second] = events;
    assert.deepEqual([second?.subject, second?.['sequence']], ['orders/42', 7]);
  });
});

describe('CloudEvents of the library are published', () => {
  test('a CloudEvent with all attributes and extensions of every kind is published', async () => {
    const event = new CloudEvent({
      id: 'order-42',
      source: 'https://shop.example.com/orders',
      type,
      subject: 'orders/42',
      time: '2026-03-01T09:30:00.123Z',
      datacontenttype: 'application/json',
      dataschema: 'https://shop.example.com/schemas/order.json',
      region: 'eu',
      sequence: 7,
      urgent: true,
      data: { object: { order_id: '42' } },
    });
    const [stored] = await send(HTTP.structured(event));
    const asSent = JSON.parse(event.toString()) as Record<string, unknown>;
    const arrival = await endpoint.arrival(1);
    const { id, source, svctenant, svcstream, ...rest } = asObject(arrival);
    assert.equal(id, stored?.id);
    assert.deepEqual([source, svctenant, svcstream], ['urn:leat:', 'main', stream.id]);
    assert.deepEqual({ ...rest, id, source }, { ...asSent, id, source });

    assert.deepEqual(await send(HTTP.structured(event)), [{ ...stored, repeated: true }]);
  });

  test('null attributes, which other encoders send, are absent in the delivery', async () => {
    const sent = { specversion: '1.0', id: 'n', source: '/shop', type, data: {} };
    const unset = { subject: null, time: null, dataschema: null, datacontenttype: null };
    const headers = { 'content-type': 'application/cloudevents+json' };
    await send({ headers, body: JSON.stringify({ ...sent, ...unset }) });
    const received = asObject(await endpoint.arrival(1));
    assert.deepEqual(
      Object.keys(unset).filter((name) => name in received),
      ['time'],
    );
  });

  test('what the library refuses is refused', async () => {
    const sent = { specversion: '1.0', id: 'r', source: '/shop', type, data: {} };
    const headers = { 'content-type': 'application/cloudevents+json' };
    const bad = [{ subject: '' }, { dataschema: '' }, { dataschema: 'no uri' }, { source: 'a b' }];
    for (const dataschema of ['http:', 'urn:', 'http:?', 'a:?b', 'a:#f']) bad.push({ dataschema });
    for (const part of bad) {
      assert.throws(() => new CloudEvent({ ...sent, ...part }, true));
      const body = JSON.stringify({ ...sent, ...part });
      const response = await fixture.send('POST', '/api/v2/events', body, headers);
      assert.equal(response.status, 400);
    }
  });

  test('a dataschema that the library takes is taken', async () => {
    for (const dataschema of ['http://', 'http:/', 'a:b', 'urn:a', 'http://?x', 'mailto:a@b.c']) {
      const event = new CloudEvent(
        { id: dataschema, source: '/s', type, dataschema, data: {} },
        true,
      );
      await send(HTTP.structured(event));
    }
  });

  test('a source that the library takes is taken, and the same event is repeated', async () => {
    for (const source of [
      '/shop',
      'shop',
      '//shop/',
      '#1',
      'urn:uuid:1',
      'https://[::1]:8/a%20b?c',
    ]) {
      const event = new CloudEvent({ id: 'r', source, type, data: {} }, true);
      const [stored] = await send(HTTP.structured(event));
      assert.deepEqual(await send(HTTP.structured(event)), [{ ...stored, repeated: true }], source);
    }
  });

  test('a batch of CloudEvents is published in its order', async () => {
    const events = [1, 2, 3].map(
      (number) => new CloudEvent({ source: '/shop', type, data: { object: { number } } }),
    );
    const stored = await send({
      headers: { 'content-type': 'application/cloudevents-batch+json' },
      body: JSON.stringify(events),
    });
    await endpoint.arrival(3);
    const numbers = new Map(
      endpoint.arrivals.map((arrival) => {
        const { id, data } = parse(arrival.body) as CloudEvent<{ object: { number: number } }>;
        return [id, data?.object.number];
      }),
    );
    assert.deepEqual(
      stored.map(({ id }) => numbers.get(id)),
      [1, 2, 3],
    );
  });
});

/** Returns the envelope as an object, once the library has accepted it. */
function asObject({ body }: Arrival): Record<string, unknown> {
  return JSON.parse(parse(body).toString()) as Record<string, unknown>;
}
