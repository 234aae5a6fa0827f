import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { startEndpoint, type Arrival, type Endpoint } from '../helpers/endpoint.ts';
import {
  expectBody,
  createStream,
  freshType,
  publish,
  redeliver,
  type StreamBody,
  waitForFailures,
} from '../helpers/api-client.ts';
import { type Fixture, openFixture } from './fixture.ts';

/** The verifier that receivers use, on every kind of delivery of the real program. */

let fixture: Fixture;
let endpoint: Endpoint;
let stream: StreamBody;
let type: string;

before(async () => {
  // Long enough for another second at the second attempt.
  fixture = await openFixture({ LEAT_RETRY_DELAYS_MS: '1100,10' });
});
after(() => fixture?.close());
beforeEach(async () => {
  endpoint = await startEndpoint();
  type = freshType();
  stream = await createStream(fixture, endpoint.url, { types: [type] });
});
afterEach(() => endpoint?.close());

const secretPath = (): string => `/api/v2/event-streams/${stream.id}/signing-secret`;

async function secret(): Promise<string> {
  const body = await expectBody<{ secret: string }>(200, fixture.send('GET', secretPath()));
  return body.secret;
}

async function rotate(): Promise<string> {
  const rotated = fixture.send('POST', `${secretPath()}/rotate`, { force: true });
  return (await expectBody<{ secret: string }>(200, rotated)).secret;
}

function signed({ headers }: Arrival): Record<string, string> {
  const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
  return Object.fromEntries(names.map((name) => [name, String(headers[name])]));
}

/** Returns the event that the verifier reads from the received bytes. */
function verify(key: string, arrival: Arrival): unknown {
  return new Webhook(key).verify(Buffer.from(arrival.body), signed(arrival));
}

describe('the verifier of Standard Webhooks', () => {
  test('the verifier of Standard Webhooks accepts a first attempt, its retry and a redelivery, each with its own time', async () => {
    endpoint.respondWith(503);
    const key = await secret();
    // Letters of several bytes, and values that JSON can write in several ways.
    const id = await publish(fixture, type, { text: 'Grüße – 你好 🎉 \u2028 </script> "\\/"' });
    await waitForFailures(fixture, stream.id, 1);
    endpoint.respondWith(204);
    assert.equal((await redeliver(fixture, stream.id, id)).status, 202);
    await waitForFailures(fixture, stream.id, 0);

    const [first, retry, ...others] = endpoint.arrivals;
    assert.ok(first !== undefined && retry !== undefined && others.length === 2);
    for (const arrival of endpoint.arrivals) {
      assert.deepEqual(verify(key, arrival), arrival.event);
      assert.equal(arrival.headers['webhook-id'], id);
      assert.equal(arrival.body, first.body);
    }
    const secondsOf = (arrival: Arrival): number => Number(arrival.headers['webhook-timestamp']);
    assert.ok(secondsOf(retry) > secondsOf(first));
  });

  test('the verifier of Standard Webhooks accepts a test event and the event of a user', async () => {
    const key = await secret();
    const sent = { event_type: 'user.created', data: { object: { name: 'Ådå' } } };
    await expectBody(202, fixture.send('POST', `/api/v2/event-streams/${stream.id}/test`, sent));
    const probe = await endpoint.arrival(1);
    assert.equal((verify(key, probe) as Record<string, unknown>)['svcpurpose'], 'test');

    const subscriptions = [{ event_type: 'user.created' }];
    await expectBody(
      200,
      fixture.send('PATCH', `/api/v2/event-streams/${stream.id}`, { subscriptions }),
    );
    const user = {
      connection: 'Username-Password-Authentication',
      email: 'ada@example.com',
      password: 'a long word and 4711',
    };
    await expectBody(201, fixture.send('POST', '/api/v2/users', user));
    const real = await endpoint.arrival(2);
    assert.deepEqual(verify(key, real), real.event);
  });

  test('the verifier of Standard Webhooks accepts the old secret and the new one while both are valid, but no third one', async () => {
    const oldest = await secret();
    const old = await rotate();
    await publish(fixture, type);
    const between = await endpoint.arrival(1);
    assert.equal(String(between.headers['webhook-signature']).split(' ').length, 2);
    for (const key of [oldest, old]) assert.deepEqual(verify(key, between), between.event);

    const newest = await rotate();
    await publish(fixture, type);
    const last = await endpoint.arrival(2);
    for (const key of [old, newest]) assert.deepEqual(verify(key, last), last.event);
    assert.throws(() => verify(oldest, last), /No matching signature/);
  });

  test('the verifier of Standard Webhooks refuses a changed body, another id, another time and another key', async () => {
    const key = await secret();
    await publish(fixture, type);
    const arrival = await endpoint.arrival(1);
    const verifier = new Webhook(key);
    assert.deepEqual(verifier.verify(arrival.body, signed(arrival)), arrival.event);

    const noMatch = /No matching signature/;
    const changed = arrival.body.replace(arrival.event.id, 'evt_1111111111111111111111');
    assert.throws(() => verifier.verify(changed, signed(arrival)), noMatch);
    const seconds = Number(arrival.headers['webhook-timestamp']);
    for (const forged of [
      { 'webhook-id': 'evt_1111111111111111111111' },
      { 'webhook-timestamp': String(seconds + 1) },
    ]) {
      assert.throws(
        () => verifier.verify(arrival.body, { ...signed(arrival), ...forged }),
        noMatch,
      );
    }
    const stranger = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
    assert.throws(() => verify(stranger, arrival), noMatch);
  });

  test('the verifier of Standard Webhooks refuses a request that is repeated later', async (t) => {
    const key = await secret();
    await publish(fixture, type);
    const arrival = await endpoint.arrival(1);
    assert.deepEqual(verify(key, arrival), arrival.event);
    const sentMillis = Number(arrival.headers['webhook-timestamp']) * 1000;
    t.mock.timers.enable({ apis: ['Date'], now: sentMillis + 4 * 60_000 });
    assert.deepEqual(verify(key, arrival), arrival.event);
    t.mock.timers.setTime(sentMillis + 6 * 60_000);
    assert.throws(() => verify(key, arrival), /timestamp too old/);
  });
});
