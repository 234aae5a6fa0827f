import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, test, type TestContext } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { startEndpoint, text, type Reply, type Endpoint } from '../helpers/endpoint.ts';
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
  token,
  waitForFailures,
  waitForStats,
  type FailureBody,
  type ProblemBody,
  type StreamBody,
} from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

let leat: Running;

runServer({ LEAT_RETRY_DELAYS_MS: '10,20,30' }, (running) => {
  leat = running;
});

describe('an event on its way to a webhook', () => {
  test('a created user arrives signed, and nothing is listed', async (t) => {
    const endpoint = await endpointOf(t);
    const stream = await createStream(leat, endpoint.url, { types: ['user.created'] });
    const user = await createUser();

    const { method, headers, body, event } = await endpoint.arrival(1);
    assert.equal(method, 'POST');
    assert.equal(headers['content-type'], 'application/json');
    assert.equal(headers['accept'], '*/*');
    assert.match(headers['user-agent'] ?? '', /^Leat\/[0-9]+\.[0-9]+\.[0-9]+$/);
    assert.equal(headers['authorization'], `Bearer ${token}`);
    assert.equal(headers['webhook-id'], event.id);
    assert.match(event.id, /^evt_[1-9A-HJ-NP-Za-km-z]{22}$/);
    assert.deepEqual(new Webhook(await secretOf(stream)).verify(body, signed(headers)), event);
    const { id, time, ...rest } = event;
    assert.ok(id !== '' && new Date(time).toISOString() === time);
    assert.deepEqual(rest, {
      source: 'urn:leat:',
      specversion: '1.0',
      type: 'user.created',
      data: { object: user },
      svctenant: 'main',
      svcstream: stream.id,
    });
    await waitForStats(leat, stream.id, { delivered: 1 });
    assert.deepEqual(await failuresOf(leat, stream.id), []);
  });

  test('a signature does not fit another body, another id or another key', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const other = await createStream(leat, endpoint.url);
    await publish(leat, type);
    const { headers, body } = await endpoint.arrival(1);
    const verifier = new Webhook(await secretOf(stream));

    assert.ok(verifier.verify(body, signed(headers)));
    assert.throws(() => verifier.verify(`${body} `, signed(headers)));
    assert.throws(() => verifier.verify(body, { ...signed(headers), 'webhook-id': 'evt_1' }));
    const stranger = new Webhook(await secretOf(other));
    assert.throws(() => stranger.verify(body, signed(headers)));
  });

  test('each way of authorization sets its header and returns no secret', async (t) => {
    const endpoint = await endpointOf(t);
    const basic = { method: 'basic', username: 'ada', password: 'pass:word' };
    const custom = { method: 'custom_header', header_key: 'X-Api-Key', header_value: 'k-1' };
    const cases = [
      [basic, 'authorization', `Basic ${Buffer.from('ada:pass:word').toString('base64')}`],
      [{ method: 'bearer', token }, 'authorization', `Bearer ${token}`],
      [custom, 'x-api-key', 'k-1'],
      [{ ...custom, header_key: 'AUTHORIZATION' }, 'authorization', 'k-1'],
    ] as const;
    for (const [authorization, header, value] of cases) {
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type], authorization });
      const id = await publish(leat, type);
      const [arrival] = await waitFor('the event', () => atLeastOne(endpoint.of(id)));
      assert.equal(arrival?.headers[header], value);
      const shown = JSON.stringify([stream, await readStream(leat, stream.id)]);
      for (const secret of ['pass:word', token, 'k-1']) assert.ok(!shown.includes(secret), shown);
    }
  });

  test('an event reaches a stream once, however often its type is listed', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type, type, type] });
    assert.deepEqual(
      stream.subscriptions.map((subscription) => subscription.event_type),
      [type, type, type],
    );
    const ids = await publishAll(leat, eventsOf(type, 3));
    await waitForStats(leat, stream.id, { delivered: 3 });
    assert.deepEqual(endpoint.arrivals.map(({ event }) => event.id).toSorted(), ids.toSorted());
  });

  test('a CloudEvent is delivered with its own attributes', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const cloudEvent = {
      specversion: '1.0',
      id: 'order-42',
      source: '/shop',
      type,
      subject: 'orders/42',
      region: 'eu',
      data: { object: { order_id: '42' } },
    };
    const contentType = { 'content-type': 'application/cloudevents+json' };
    const stored = await expectBody<{ id: string }>(
      202,
      leat.send('POST', '/api/v2/events', cloudEvent, contentType),
    );
    const { event } = await endpoint.arrival(1);
    const { time, ...rest } = event;
    assert.ok(time !== '');
    assert.deepEqual(rest, {
      id: stored.id,
      source: 'urn:leat:',
      specversion: '1.0',
      type,
      subject: 'orders/42',
      region: 'eu',
      data: { object: { order_id: '42' } },
      svctenant: 'main',
      svcstream: stream.id,
    });
  });

  test('a repeated idempotency key returns the first event and delivers nothing', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const key = `key of ${type}`;
    const send = (object: object): Promise<Response> =>
      leat.send('POST', '/api/v2/events', { type, id: key, data: { object } });
    const first = await expectBody<object>(202, send({ first: true }));
    assert.deepEqual(await expectBody(202, send({ first: true })), { ...first, repeated: true });
    const other = await expectBody<{ errorCode: string }>(409, send({ first: false }));
    assert.equal(other.errorCode, 'event_id_in_use');
    const marker = await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 2 });
    assert.deepEqual(
      endpoint.arrivals.map(({ event }) => event.data),
      [{ object: { first: true } }, { object: {} }],
    );
    assert.equal(endpoint.of(marker).length, 1);
  });
});

describe('a webhook that breaks', () => {
  test('a webhook that breaks gets four attempts with one id and body; then the failure is listed', async (t) => {
    const endpoint = await endpointOf(t, text(503, 'busy'));
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const id = await publish(leat, type, { nested: { text: 'ä€😀' } });
    const [failure] = await waitForFailures(leat, stream.id, 1);
    assert.ok(failure !== undefined);

    assert.equal(endpoint.arrivals.length, 4);
    assert.equal(new Set(endpoint.arrivals.map(({ body }) => body)).size, 1);
    assert.deepEqual(Object.keys(failure).toSorted(), [
      'attempts',
      'event',
      'event_stream_id',
      'event_type',
      'id',
      'status',
    ]);
    assert.equal(failure.id, id);
    assert.equal(failure.event_stream_id, stream.id);
    assert.equal(failure.event_type, type);
    assert.equal(failure.status, 'failed');
    assert.deepEqual(failure.event, JSON.parse(endpoint.arrivals[0]?.body ?? ''));
    assert.equal(failure.attempts.length, 4);
    for (const attempt of failure.attempts) {
      assert.deepEqual(
        [attempt.status, attempt.error_message, typeof attempt.duration],
        ['failed', '503 - busy', 'number'],
      );
      assert.equal(new Date(attempt.timestamp).toISOString(), attempt.timestamp);
    }
    const timestamps = failure.attempts.map(({ timestamp }) => timestamp);
    assert.deepEqual(timestamps, timestamps.toSorted());
    assert.deepEqual(
      await expectBody(
        200,
        leat.send('GET', `/api/v2/event-streams/${stream.id}/deliveries/${id}`),
      ),
      failure,
    );
  });

  test('a retry that succeeds leaves no failure', async (t) => {
    const statuses = [500, 502, 408, 204];
    const endpoint = await endpointOf(t, (response) => {
      response.writeHead(statuses.shift() ?? 500).end();
    });
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 1 });
    assert.equal(endpoint.arrivals.length, 4);
    assert.deepEqual(await failuresOf(leat, stream.id), []);
    assert.deepEqual(await statsOf(leat, stream.id), { delivered: 1, failed: 0 });
  });
});

describe('redelivery', () => {
  test('a successful redelivery has the same id and body and removes the failure', async (t) => {
    const { endpoint, stream, ids } = await brokenStream(t, 1);
    const [id = ''] = ids;
    endpoint.respondWith(204);
    assert.deepEqual(await expectBody(202, redeliver(leat, stream.id, id)), {});
    await waitForFailures(leat, stream.id, 0);
    assert.deepEqual(await statsOf(leat, stream.id), { delivered: 1, failed: 1 });
    const [first, last] = [endpoint.arrivals[0], endpoint.arrivals.at(-1)];
    assert.equal(last?.body, first?.body);
    assert.equal(endpoint.arrivals.length, 2);
    const one = `/api/v2/event-streams/${stream.id}/deliveries/${id}`;
    const gone = await expectBody<ProblemBody>(404, leat.send('GET', one));
    assert.equal(gone.message, `The event does not exist: ${id}`);
  });

  test('a redelivery that fails again keeps one failure with every attempt', async (t) => {
    const { endpoint, stream, ids } = await brokenStream(t, 1);
    const [id = ''] = ids;
    endpoint.respondWith(503);
    await expectBody(202, redeliver(leat, stream.id, id));
    await waitForStats(leat, stream.id, { failed: 2 });
    const [failure, ...others] = await failuresOf(leat, stream.id);
    assert.deepEqual(others, []);
    assert.deepEqual(
      failure?.attempts.map(({ status }) => status),
      ['failed', 'retrying', 'failed', 'failed', 'failed', 'failed'],
    );
    const marker = failure.attempts[1] ?? {};
    assert.deepEqual(Object.keys(marker).toSorted(), ['status', 'timestamp']);
  });

  test('a redelivery is refused while one is in progress, after a success, and for an unknown event', async (t) => {
    const { endpoint, stream, ids } = await brokenStream(t, 1);
    const [id = ''] = ids;
    const held = hold(endpoint);
    await expectBody(202, redeliver(leat, stream.id, id));
    await endpoint.arrival(2);
    const refusal = {
      statusCode: 409,
      error: 'Conflict',
      message: 'The event is not in a state that allows redelivery.',
      errorCode: 'not_redeliverable',
    };
    assert.deepEqual(await expectBody(409, redeliver(leat, stream.id, id)), refusal);
    const [open] = await failuresOf(leat, stream.id);
    assert.equal(open?.attempts.at(-1)?.status, 'retrying');
    held.release(204);
    await waitForFailures(leat, stream.id, 0);
    assert.deepEqual(await expectBody(409, redeliver(leat, stream.id, id)), refusal);

    const unknown = 'evt_AAAAAAAAAAAAAAAAAAAAAA';
    const none = await expectBody<ProblemBody>(404, redeliver(leat, stream.id, unknown));
    assert.equal(none.message, `The event does not exist: ${unknown}`);
    const nowhere = 'est_AAAAAAAAAAAAAAAAAAAAAA';
    const noStream = await expectBody<ProblemBody>(404, redeliver(leat, nowhere, id));
    assert.equal(noStream.message, `The requested stream does not exist: ${nowhere}`);
  });

  test('a redelivery of all failures skips those in progress', async (t) => {
    const { endpoint, stream } = await brokenStream(t, 3);
    const held = hold(endpoint);
    const path = `/api/v2/event-streams/${stream.id}/redeliver`;
    assert.deepEqual(await expectBody(202, leat.send('POST', path)), {});
    await endpoint.arrival(6);
    assert.deepEqual(await expectBody(202, leat.send('POST', path, {})), {});
    held.release(204);
    await waitForFailures(leat, stream.id, 0);
    assert.equal(endpoint.arrivals.length, 6);
  });

  test('a redelivery of all failures combines its filters and returns the number of events', async (t) => {
    const endpoint = await endpointOf(t, 400);
    const types = [freshType(), freshType()] as const;
    const stream = await createStream(leat, endpoint.url, { types });
    const at = (type: string, time: string): object => ({ type, time, data: { object: {} } });
    const [wanted = '', ...others] = await publishAll(leat, [
      at(types[0], '2026-03-01T00:00:00Z'),
      at(types[0], '2026-03-02T00:00:00Z'),
      at(types[0], '2026-02-28T23:59:59.999Z'),
      at(types[1], '2026-03-01T12:00:00Z'),
    ]);
    await waitForFailures(leat, stream.id, 4);
    endpoint.respondWith(204);
    const filters = {
      date_from: '2026-03-01T01:00:00+01:00',
      date_to: '2026-03-02T00:00:00Z',
      statuses: ['failed'],
      event_types: [types[0], 'never.seen'],
    };
    const path = `/api/v2/event-streams/${stream.id}/redeliver`;
    assert.deepEqual(await expectBody(202, leat.send('POST', path, filters)), filters);
    const left = await waitForFailures(leat, stream.id, 3);
    assert.deepEqual(left.map(({ id }) => id).toSorted(), others.toSorted());
    assert.equal(endpoint.of(wanted).length, 2);
    const nothing = { event_types: ['never.seen'] };
    assert.deepEqual(await expectBody(202, leat.send('POST', path, nothing)), nothing);
    await expectBody(202, leat.send('POST', path, '', { 'content-type': 'text/plain' }));
    await waitForFailures(leat, stream.id, 0);
    assert.equal(endpoint.arrivals.length, 8);
  });
});

describe('a stream that changes', () => {
  test('a stream with a changed destination sends the next attempt there', async (t) => {
    const [old, next] = [await endpointOf(t), await endpointOf(t)];
    const type = freshType();
    const stream = await createStream(leat, old.url, { types: [type] });
    const held = hold(old);
    const id = await publish(leat, type);
    await old.arrival(1);
    const authorization = { method: 'custom_header', header_key: 'X-Key', header_value: 'new' };
    await patchStream(leat, stream.id, { destination: destination(next.url, authorization) });
    held.release(503);
    const arrival = await next.arrival(1);
    assert.equal(arrival.event.id, id);
    assert.equal(arrival.headers['x-key'], 'new');
    assert.equal(arrival.headers['authorization'], undefined);
    assert.equal(old.arrivals.length, 1);
  });

  test('a change of a stream without the secret keeps the secret; a changed destination requires it', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    await patchStream(leat, stream.id, { destination: stream.destination });
    await publish(leat, type);
    assert.equal((await endpoint.arrival(1)).headers['authorization'], `Bearer ${token}`);
    const moved = destination(`${endpoint.url}/elsewhere`, { method: 'bearer' });
    const path = `/api/v2/event-streams/${stream.id}`;
    const refused = await expectBody<ProblemBody>(
      400,
      leat.send('PATCH', path, { destination: moved }),
    );
    assert.equal(refused.errorCode, 'invalid_body');
    assert.match(
      refused.message,
      /^Payload validation error: 'Missing required property: token \(required because the destination changes\)' on property /,
    );
    assert.deepEqual((await readStream(leat, stream.id)).destination, stream.destination);
  });

  test('changed subscriptions apply from the next event on', async (t) => {
    const endpoint = await endpointOf(t);
    const [former, later] = [freshType(), freshType()];
    const stream = await createStream(leat, endpoint.url, { types: [former] });
    const first = await publish(leat, former);
    await publish(leat, later);
    await patchStream(leat, stream.id, { subscriptions: [{ event_type: later }] });
    await publish(leat, former);
    const second = await publish(leat, later);
    await waitForStats(leat, stream.id, { delivered: 2 });
    const got = endpoint.arrivals.map(({ event }) => event.id);
    assert.deepEqual(got.toSorted(), [first, second].toSorted());
  });
});

describe('a stream disabled by hand', () => {
  test('a disabled stream is sent nothing; latest skips the events of that time', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    await patchStream(leat, stream.id, { status: 'disabled' });
    await publishAll(leat, eventsOf(type, 3));
    await publish(leat, freshType());
    assert.equal(await enable(stream, {}), '3');
    const marker = await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 1 });
    assert.deepEqual(
      endpoint.arrivals.map(({ event }) => event.id),
      [marker],
    );
    assert.deepEqual(await failuresOf(leat, stream.id), []);
  });

  test('held sends the events that were published while the stream was disabled', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type], status: 'disabled' });
    assert.equal(stream.status, 'disabled');
    const held = await publishAll(leat, eventsOf(type, 5));
    assert.equal(await enable(stream, { resume: 'held' }), '0');
    const later = await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 6 });
    const got = endpoint.arrivals.map(({ event }) => event.id);
    assert.deepEqual(got.toSorted(), [...held, later].toSorted());
  });

  test('disabling turns waiting retries into failures; an attempt in progress still counts', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const held = hold(endpoint);
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    await publishAll(leat, eventsOf(type, 2));
    await endpoint.arrival(2);
    await patchStream(leat, stream.id, { status: 'disabled' });
    held.releaseOne(204);
    held.release(503);
    const [failure] = await waitForFailures(leat, stream.id, 1);
    await waitForStats(leat, stream.id, { delivered: 1, failed: 1 });
    assert.equal(endpoint.arrivals.length, 2);
    assert.match(failure?.attempts.at(-1)?.error_message ?? '', /^503\b/);
  });

  test('retries that disabling ends have an error message of their own', async (t) => {
    const endpoint = await endpointOf(t, (response) => {
      response.writeHead(503, { 'retry-after': '60' }).end();
    });
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const id = await publish(leat, type);
    await endpoint.arrival(1);
    endpoint.respondWith(204);
    // Results are settled in order: the retry is waiting once this one counts.
    await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 1 });
    await patchStream(leat, stream.id, { status: 'disabled' });
    const [failure] = await waitForFailures(leat, stream.id, 1);
    assert.equal(failure?.id, id);
    assert.equal(failure.attempts.at(-1)?.error_message, 'The event stream is disabled');
    assert.equal(endpoint.of(id).length, 1);
    await expectBody(202, redeliver(leat, stream.id, id));
    await waitForFailures(leat, stream.id, 0);
    assert.equal((await readStream(leat, stream.id)).status, 'disabled');
    assert.equal(endpoint.of(id).length, 2);
  });
});

describe('a stream that is deleted during an attempt', () => {
  test('deleting a stream cancels its attempt in progress, none follows, and its data is gone', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    let cutOff = false;
    endpoint.respondWith((response) => {
      response.on('close', () => {
        cutOff = true;
      });
    });
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const id = await publish(leat, type);
    await endpoint.arrival(1);
    const path = `/api/v2/event-streams/${stream.id}`;
    await expectBody(204, leat.send('DELETE', path));
    await waitFor('the attempt to be cut off', () => cutOff);
    await expectBody(204, leat.send('DELETE', path));
    const gone: [string, string, object?][] = [
      ['GET', ''],
      ['PATCH', '', { name: 'another' }],
      ['GET', '/deliveries'],
      ['GET', `/deliveries/${id}`],
      ['POST', `/redeliver/${id}`],
      ['POST', '/redeliver'],
      ['POST', '/test', { event_type: type }],
      ['GET', '/stats'],
      ['GET', '/signing-secret'],
      ['POST', '/signing-secret/rotate'],
    ];
    for (const [method, rest, body] of gone) {
      const none = await expectBody<ProblemBody>(404, leat.send(method, path + rest, body));
      assert.deepEqual(none, {
        statusCode: 404,
        error: 'Not Found',
        message: `The requested stream does not exist: ${stream.id}`,
      });
    }
    const heir = await createStream(leat, endpoint.url, { types: [type], name: stream.name });
    endpoint.respondWith(204);
    const marker = await publish(leat, type);
    await waitForStats(leat, heir.id, { delivered: 1 });
    assert.deepEqual(
      endpoint.arrivals.map(({ event }) => event.id),
      [id, marker],
    );
  });
});

describe('a test event', () => {
  test('a test event is sent to its stream alone, is marked, and needs no subscription', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: ['user.updated'] });
    const other = await createStream(leat, endpoint.url, { types: [type] });
    const data = { object: { sample: [1, null, 'ä'] } };
    const record = await testEvent(stream, { event_type: type, data });
    assert.deepEqual(
      { ...record, event: undefined },
      {
        id: record.id,
        event_stream_id: stream.id,
        event_type: type,
        status: 'pending',
        attempts: [],
        event: undefined,
      },
    );
    const { event } = await endpoint.arrival(1);
    assert.deepEqual(event, record.event);
    assert.equal(event['svcpurpose'], 'test');
    assert.deepEqual(event.data, data);
    const marker = await publish(leat, type);
    await waitForStats(leat, other.id, { delivered: 1 });
    assert.deepEqual(
      endpoint.arrivals.map((arrival) => arrival.event.id),
      [record.id, marker],
    );
  });

  test('a test event that fails is a failure like any other and can be redelivered', async (t) => {
    const endpoint = await endpointOf(t, 503);
    const stream = await createStream(leat, endpoint.url);
    const record = await testEvent(stream, { event_type: 'user.deleted' });
    const [failure] = await waitForFailures(leat, stream.id, 1);
    assert.equal(failure?.id, record.id);
    assert.deepEqual(failure.event, record.event);
    assert.equal(failure.event['svcpurpose'], 'test');
    assert.equal(failure.attempts.length, 4);
    endpoint.respondWith(204);
    await expectBody(202, redeliver(leat, stream.id, record.id));
    await waitForFailures(leat, stream.id, 0);
    assert.equal(endpoint.arrivals.at(-1)?.body, endpoint.arrivals[0]?.body);
  });
});

describe('the signing secret', () => {
  test('a rotated signing secret: two signatures, newest first, and at most two valid secrets', async (t) => {
    const endpoint = await endpointOf(t);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const first = await secretBody('GET', stream, '');
    assert.deepEqual(Object.keys(first).toSorted(), ['created_at', 'secret']);
    const second = await secretBody('POST', stream, '/rotate');
    assert.notEqual(second.secret, first.secret);
    assert.match(second.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    const livesOnMs = Date.parse(second.previous_expires_at) - Date.parse(second.created_at);
    assert.equal(livesOnMs, 24 * 3_600_000);
    assert.deepEqual(await secretBody('GET', stream, ''), second);

    await publish(leat, type);
    const { headers, body } = await endpoint.arrival(1);
    assert.ok(new Webhook(first.secret).verify(body, signed(headers)));
    assert.ok(new Webhook(second.secret).verify(body, signed(headers)));
    const signatures = (headers['webhook-signature'] as string).split(' ');
    assert.equal(signatures.length, 2);
    const newest = { ...signed(headers), 'webhook-signature': signatures[0] ?? '' };
    assert.ok(new Webhook(second.secret).verify(body, newest));

    // The first secret is still valid.
    const third = await secretBody('POST', stream, '/rotate', { force: true });
    await publish(leat, type);
    const later = await endpoint.arrival(2);
    assert.throws(() => new Webhook(first.secret).verify(later.body, signed(later.headers)));
    assert.ok(new Webhook(second.secret).verify(later.body, signed(later.headers)));
    assert.ok(new Webhook(third.secret).verify(later.body, signed(later.headers)));
  });
});

describe('statistics', () => {
  test('statistics count delivered and failed events, by day by default', async (t) => {
    const endpoint = await endpointOf(t, (response, { event }) => {
      const { number } = event.data['object'] as { number: number };
      response.writeHead(number < 3 ? 204 : 400).end();
    });
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    await publishAll(leat, eventsOf(type, 5));
    await waitForStats(leat, stream.id, { delivered: 3, failed: 2 });
    const stats = await expectBody<Stats>(200, leat.send('GET', statsPath(stream)));
    assert.deepEqual([stats.id, stats.name], [stream.id, stream.name]);
    assert.equal(stats.buckets.length, 15);
    assert.equal(stats.window.bucket_interval.scale_factor, 86_400);
    assert.deepEqual(
      stats.metrics.map(({ name, type: kind, window_total }) => [name, kind, window_total]),
      [
        ['leat.event_streams.successful_deliveries', 'sum', 3],
        ['leat.event_streams.failed_deliveries', 'sum', 2],
      ],
    );
    for (const { data, window_total } of stats.metrics) {
      assert.equal(data.length, stats.buckets.length);
      assert.equal(
        data.reduce((sum, value) => sum + value, 0),
        window_total,
      );
    }
  });

  test('statistics of a requested window round both ends down to the hour and list its hours', async (t) => {
    const endpoint = await endpointOf(t);
    const stream = await createStream(leat, endpoint.url);
    const query = '?date_from=2026-03-01T09:30:00Z&date_to=2026-03-01T12:10:00Z';
    const stats = await expectBody<Stats>(200, leat.send('GET', statsPath(stream) + query));
    assert.deepEqual(stats.window, {
      date_from: '2026-03-01T09:00:00.000Z',
      date_to: '2026-03-01T12:00:00.000Z',
      bucket_interval: { scale_factor: 3600 },
    });
    assert.deepEqual(stats.buckets, [
      '2026-03-01T09:00:00.000Z',
      '2026-03-01T10:00:00.000Z',
      '2026-03-01T11:00:00.000Z',
      // The requested window includes this one.
      '2026-03-01T12:00:00.000Z',
    ]);
    assert.deepEqual(
      stats.metrics.map(({ data }) => data),
      [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
      ],
    );
  });
});

interface Stats {
  readonly id: string;
  readonly name: string;
  readonly buckets: readonly string[];
  readonly window: {
    readonly date_from: string;
    readonly date_to: string;
    readonly bucket_interval: { readonly scale_factor: number };
  };
  readonly metrics: readonly {
    readonly name: string;
    readonly type: string;
    readonly window_total: number;
    readonly data: readonly number[];
  }[];
}

interface SecretBody {
  readonly secret: string;
  readonly created_at: string;
  readonly previous_expires_at: string;
}

async function endpointOf(t: TestContext, first: Reply = 204): Promise<Endpoint> {
  const endpoint = await startEndpoint(first);
  t.after(() => endpoint.close());
  return endpoint;
}

/** Creates a stream with `total` failures of one attempt each. */
async function brokenStream(
  t: TestContext,
  total: number,
): Promise<{ endpoint: Endpoint; stream: StreamBody; ids: string[] }> {
  const endpoint = await endpointOf(t, 400);
  const type = freshType();
  const stream = await createStream(leat, endpoint.url, { types: [type] });
  const ids = await publishAll(leat, eventsOf(type, total));
  await waitForStats(leat, stream.id, { failed: total });
  return { endpoint, stream, ids };
}

/** Holds requests until they are released; later requests get the same response. */
function hold(endpoint: Endpoint): {
  release(status: number): void;
  releaseOne(status: number): void;
} {
  const waiting: ServerResponse[] = [];
  endpoint.respondWith((response) => {
    waiting.push(response);
  });
  return {
    releaseOne: (status) => waiting.shift()?.writeHead(status).end(),
    release: (status) => {
      endpoint.respondWith(status);
      for (const response of waiting.splice(0)) response.writeHead(status).end();
    },
  };
}

/** Enables a stream and returns how many events the response reports as skipped. */
async function enable(stream: StreamBody, extra: object): Promise<string | null> {
  const path = `/api/v2/event-streams/${stream.id}`;
  const response = await leat.send('PATCH', path, { status: 'enabled', ...extra });
  assert.equal(response.status, 200);
  assert.equal(((await response.json()) as StreamBody).status, 'enabled');
  return response.headers.get('leat-skipped-events');
}

async function createUser(): Promise<object> {
  return expectBody(
    201,
    leat.send('POST', '/api/v2/users', {
      email: `${freshName()}@example.com`,
      password: 'correct-horse-battery',
      connection: 'Username-Password-Authentication',
    }),
  );
}

async function testEvent(stream: StreamBody, body: object): Promise<FailureBody> {
  return expectBody(202, leat.send('POST', `/api/v2/event-streams/${stream.id}/test`, body));
}

async function secretBody(
  method: string,
  stream: StreamBody,
  rest: string,
  body?: object,
): Promise<SecretBody> {
  const path = `/api/v2/event-streams/${stream.id}/signing-secret${rest}`;
  return expectBody(200, leat.send(method, path, body));
}

async function secretOf(stream: StreamBody): Promise<string> {
  return (await secretBody('GET', stream, '')).secret;
}

function statsPath(stream: StreamBody): string {
  return `/api/v2/event-streams/${stream.id}/stats`;
}

function signed(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
  return Object.fromEntries(names.map((name) => [name, String(headers[name])]));
}

function atLeastOne<T>(items: readonly T[]): readonly T[] | undefined {
  return items.length > 0 ? items : undefined;
}
