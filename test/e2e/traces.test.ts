import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { waitFor, type Running } from '../helpers/leat.ts';
import { expectBody, createStream, failuresOf, freshType } from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

/** A publisher's `traceparent` reaches the destination (W3C Trace Context, docs/http-api.md#trace-context). */

const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

let leat: Running;
let endpoint: Endpoint;

runServer({ LEAT_RETRY_DELAYS_MS: '10' }, (running) => {
  leat = running;
});
before(async () => {
  endpoint = await startEndpoint();
});
after(async () => {
  await endpoint.close();
});

describe('the traceparent of a request', () => {
  test('the traceparent of a request is sent with every attempt and redelivery of its events only', async () => {
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    endpoint.respondWith(500);
    const traced = await publishWith({ traceparent: trace }, [event(type), event(type)]);
    const [plain = ''] = await publishWith({}, [event(type)]);
    await waitFor('the failures', async () => {
      const failures = await failuresOf(leat, stream.id);
      return failures.length === 3 ? failures : undefined;
    });
    endpoint.respondWith(204);
    await leat.send('POST', `/api/v2/event-streams/${stream.id}/redeliver`);
    const sent = async (id: string): Promise<unknown[]> =>
      waitFor(`three attempts of ${id}`, () => {
        const arrivals = endpoint.of(id);
        return arrivals.length === 3
          ? arrivals.map(({ headers }) => headers['traceparent'])
          : undefined;
      });
    for (const id of traced) assert.deepEqual(await sent(id), [trace, trace, trace]);
    assert.deepEqual(await sent(plain), [undefined, undefined, undefined]);
  });

  test('the tracestate of a request is sent along with it, with every attempt, from one and from several headers', async () => {
    const type = freshType();
    await createStream(leat, endpoint.url, { types: [type] });
    endpoint.respondWith(500);
    const states: readonly (readonly [sent: string | string[], arrives: string | undefined])[] = [
      ['rojo=00f067aa0ba902b7,congo=t61rcWkgMzE', 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'],
      [['a=1', 'b=2'], 'a=1,b=2'],
      ['a=1,a=2', undefined],
    ];
    for (const [tracestate, arrives] of states) {
      const headers = {
        authorization: `Bearer ${leat.token}`,
        'content-type': 'application/json',
        traceparent: trace,
        tracestate,
      };
      const sent = request(`${leat.url}/api/v2/events`, { method: 'POST', headers });
      sent.end(JSON.stringify(event(type)));
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      const { id } = JSON.parse((await response.toArray()).join('')) as { id: string };
      const arrivals = await waitFor('an attempt', () => {
        const found = endpoint.of(id);
        return found.length >= 2 ? found : undefined;
      });
      for (const arrival of arrivals) {
        assert.equal(arrival.headers['traceparent'], trace);
        assert.equal(arrival.headers['tracestate'], arrives);
      }
    }
    endpoint.respondWith(204);
  });

  test('the traceparent of a request is ignored when it is not valid', async () => {
    const type = freshType();
    await createStream(leat, endpoint.url, { types: [type] });
    const [id = ''] = await publishWith({ traceparent: trace.toUpperCase() }, [event(type)]);
    const arrival = await waitFor('the event', () => endpoint.of(id)[0]);
    assert.equal(arrival.headers['traceparent'], undefined);
  });

  test('the traceparent of a request is ignored when it was sent twice, even with the same value', async () => {
    const type = freshType();
    await createStream(leat, endpoint.url, { types: [type] });
    const headers = {
      authorization: `Bearer ${leat.token}`,
      'content-type': 'application/json',
      traceparent: [trace, trace],
    };
    const sent = request(`${leat.url}/api/v2/events`, { method: 'POST', headers });
    sent.end(JSON.stringify(event(type)));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    assert.equal(response.statusCode, 202);
    const arrival = await waitFor('the event', () =>
      endpoint.arrivals.find((one) => one.event.type === type),
    );
    assert.equal(arrival.headers['traceparent'], undefined);
  });

  test('the traceparent of a request is sent with the events of a user and with test events', async () => {
    const stream = await createStream(leat, endpoint.url, {
      types: ['user.created', 'user.updated'],
    });
    const headers = { traceparent: trace };
    const user = {
      email: 'ada@example.com',
      password: 'correct-horse-battery',
      connection: 'Username-Password-Authentication',
    };
    const creation = leat.send('POST', '/api/v2/users', user, headers);
    const { user_id: id } = await expectBody<{ user_id: string }>(201, creation);
    const change = leat.send('PATCH', `/api/v2/users/${id}`, { name: 'Ada' }, headers);
    await expectBody(200, change);
    const path = `/api/v2/event-streams/${stream.id}/test`;
    await expectBody(202, leat.send('POST', path, { event_type: 'user.created' }, headers));
    const arrivals = await waitFor('the events', () => {
      const found = endpoint.arrivals.filter(({ event: { type } }) => type.startsWith('user.'));
      return found.length === 3 ? found : undefined;
    });
    assert.deepEqual(
      arrivals.map((arrival) => arrival.headers['traceparent']),
      [trace, trace, trace],
    );
  });

  test('the traceparent of a request is not part of the envelope', async () => {
    const type = freshType();
    await createStream(leat, endpoint.url, { types: [type] });
    await publishWith({ traceparent: trace }, [event(type)]);
    const arrival = await waitFor('the event', () =>
      endpoint.arrivals.find((one) => one.event.type === type),
    );
    assert.equal(arrival.headers['traceparent'], trace);
    assert.doesNotMatch(arrival.body, /traceparent|4bf92f/);
  });
});

const event = (type: string): object => ({ type, data: { object: {} } });

async function publishWith(headers: object, events: readonly object[]): Promise<string[]> {
  const stored = await expectBody<{ id: string }[]>(
    202,
    leat.send('POST', '/api/v2/events', events, headers),
  );
  return stored.map(({ id }) => id);
}
