import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { prepareRequest, requestTemplateOf } from '../../src/delivery/request.ts';
import { createSender } from '../helpers/sender.ts';
import {
  type ApiFixture,
  type ApiResponse,
  assertInvalid,
  assertNeedsScope,
  assertNotFound,
  assertProblem,
  openApiFixture,
} from './fixture.ts';

let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture();
});
after(() => fixture.close());

const newInspector = 'https://new.inspector.invalid/';

function destination(endpoint: string) {
  const authorization = { method: 'custom_header', header_key: 'X-Key', header_value: 'geheim' };
  const configuration = { webhook_endpoint: endpoint, webhook_authorization: authorization };
  return { type: 'webhook', configuration };
}

function create(endpoint = newInspector, own = fixture): Promise<ApiResponse> {
  return own.send('POST', '/event-streams', { destination: destination(endpoint) });
}

async function createdId(endpoint?: string, own = fixture): Promise<string> {
  const response = await create(endpoint, own);
  assert.equal(response.status, 201, response.text);
  return response.body.id;
}

/** Sends an event to a stream, as the dispatcher does. */
async function deliver(t: Parameters<typeof createSender>[0], id: string, eventId: string) {
  const { store, clock } = fixture.auth;
  const { inspector } = fixture;
  const stream = await store.streams.get(1, id);
  assert.ok(stream);
  const { transport } = createSender(t, { clock, inspector });
  const template = requestTemplateOf(stream, { userAgent: 'Leat/1', attributePrefix: 'svc' });
  const event = { id: eventId, body: '{"id":"x"}', trace: undefined };
  return transport.post(prepareRequest(template, event, clock.now())).ended;
}

describe('the endpoint of an inspector', () => {
  test('a new stream with the endpoint new.inspector.invalid gets that of its own id', async () => {
    for (const [sent, rest] of [
      [newInspector, '/'],
      ['https://NEW.inspector.invalid', '/'],
      ['https://new.inspector.invalid/hook?a=b%20c', '/hook?a=b%20c'],
    ] as const) {
      const { body } = await create(sent);
      const endpoint = `https://${body.id}.inspector.invalid${rest}`;
      assert.equal(body.destination.configuration.webhook_endpoint, endpoint);
      const read = await fixture.send('GET', `/event-streams/${body.id}`);
      assert.deepEqual(read.body, body);
    }
  });

  test('a new stream cannot have another inspector than its own', async () => {
    const other = await createdId();
    for (const endpoint of [
      `https://${other}.inspector.invalid/`,
      'https://inspector.invalid/',
      'https://new.inspector.invalid:8443/',
      'https://new.inspector.invalid./',
      'https://x.new.inspector.invalid/',
      'https://x.%69nspector.invalid/',
    ]) {
      const response = await create(endpoint);
      assertInvalid(response, 'destination.configuration.webhook_endpoint');
      assert.match(
        response.body.message,
        /'The inspector of a new event stream is https:\/\/new\.inspector\.invalid\/'/,
      );
    }
  });

  test('an update accepts the inspector of the stream and names it for any other', async () => {
    const id = await createdId('https://hooks.example.net/leat');
    const own = `https://${id}.inspector.invalid/`;
    for (const endpoint of [newInspector, `https://${await createdId()}.inspector.invalid/`]) {
      const response = await fixture.send('PATCH', `/event-streams/${id}`, {
        destination: destination(endpoint),
      });
      assertInvalid(response, 'destination.configuration.webhook_endpoint');
      assert.ok(response.body.message.includes(`'The inspector of this event stream is ${own}'`));
    }
    const updated = await fixture.send('PATCH', `/event-streams/${id}`, {
      destination: destination(own),
    });
    assert.equal(updated.body.destination.configuration.webhook_endpoint, own);
  });
});

describe('GET received', () => {
  test('GET received: requests newest first, signed, without the authorization', async (t) => {
    const id = await createdId();
    const path = `/event-streams/${id}/received`;
    assert.deepEqual((await fixture.send('GET', path)).body, {
      received: [],
      answer: { status: 204, delay_ms: 0 },
    });
    await deliver(t, id, 'evt_1');
    await deliver(t, id, 'evt_2');
    const { received } = (await fixture.send('GET', path)).body;
    const ids = received.map(({ headers }: { headers: object }) => Object(headers)['webhook-id']);
    assert.deepEqual(ids, ['evt_2', 'evt_1']);
    const { headers, ...rest } = received[0];
    const { 'webhook-signature': signature, 'webhook-timestamp': seconds, ...others } = headers;
    assert.match(signature, /^v1,/);
    assert.deepEqual(others, {
      host: `${id.toLowerCase()}.inspector.invalid`,
      'content-length': String(Buffer.byteLength(rest.body)),
      'content-type': 'application/json',
      'user-agent': 'Leat/1',
      accept: '*/*',
      'x-key': '***',
      'webhook-id': 'evt_2',
    });
    assert.deepEqual(rest, {
      received_at: new Date(fixture.auth.clock.now()).toISOString(),
      method: 'POST',
      path: '/',
      body: `{"id":"x","svcstream":"${id}"}`,
      signature: 'valid',
      status: 204,
    });
    assert.equal(Number(seconds), Math.floor(fixture.auth.clock.now() / 1000));
  });

  test('GET received: a signature is wrong once its secret is not valid any more', async (t) => {
    const id = await createdId();
    const secret = `/event-streams/${id}/signing-secret/rotate`;
    const signature = async (): Promise<string> =>
      (await fixture.send('GET', `/event-streams/${id}/received`)).body.received[0].signature;
    await deliver(t, id, 'evt_1');
    await fixture.send('POST', secret);
    assert.equal(await signature(), 'valid');
    await fixture.send('POST', secret, { force: true, overlap_seconds: 0 });
    assert.equal(await signature(), 'wrong');
  });

  test('GET received: a request without signature', async () => {
    const id = await createdId();
    const { inspector } = fixture;
    const origin = `https://${id.toLowerCase()}.inspector.invalid`;
    const bare = { tenant: 1, stream: id, origin, path: '/', headers: [], body: '{}' };
    inspector.post({ ...bare, secretHeader: 'x' }, unanswered, 1000);
    const { received } = (await fixture.send('GET', `/event-streams/${id}/received`)).body;
    assert.deepEqual([received[0].signature, 'status' in received[0]], ['missing', false]);
  });

  test('GET received: a signature of an unknown version is unchecked, and v1a needs a published key', async () => {
    const id = await createdId();
    const origin = `https://${id.toLowerCase()}.inspector.invalid`;
    const signed = ['webhook-id', 'evt_1', 'webhook-timestamp', '1', 'webhook-signature'];
    for (const more of [['v2,x'], ['v1a,x'], ['v1a,x', 'webhook-key-id', 'none']]) {
      const headers = [...signed, ...more];
      const request = { tenant: 1, stream: id, origin, path: '/', headers, body: '{}' };
      fixture.inspector.post({ ...request, secretHeader: 'x' }, unanswered, 1000);
    }
    const { received } = (await fixture.send('GET', `/event-streams/${id}/received`)).body;
    const signatures = received.map(({ signature }: { signature: string }) => signature);
    assert.deepEqual(signatures, ['unknown_key', 'unknown_key', 'unchecked']);
  });

  test('GET received requires read:events, and a stream of the tenant', async () => {
    const id = await createdId();
    await assertNeedsScope(fixture, ['GET', `/event-streams/${id}/received`, 'read:events']);
    const none = await fixture.send('GET', '/event-streams/est_MASi45ub7Qe4ZE36UT5G6c/received');
    assertNotFound(none, 'stream');
  });

  test('GET received: nothing of a stream that another tenant has', async (t) => {
    const id = await createdId();
    await deliver(t, id, 'evt_1');
    const own = await openApiFixture();
    t.after(() => own.close());
    assertNotFound(await own.send('GET', `/event-streams/${id}/received`), 'stream');
  });
});

describe('PUT received/answer', () => {
  test('PUT received/answer sets the response to the next requests and leaves an entry', async (t) => {
    const id = await createdId();
    const path = `/event-streams/${id}/received`;
    const set = await fixture.send('PUT', `${path}/answer`, {
      status: 503,
      delay_ms: 0,
      times: 2,
    });
    assert.deepEqual([set.status, set.body], [200, { status: 503, delay_ms: 0, times: 2 }]);
    const result = await deliver(t, id, 'evt_1');
    assert.ok(result.kind === 'response' && result.status === 503);
    const read = (await fixture.send('GET', path)).body;
    assert.deepEqual(read.answer, { status: 503, delay_ms: 0, times: 1 });
    assert.equal(read.received[0].status, 503);
    const logs = await fixture.send('GET', `/logs?target=${id}&types=sapi`);
    assert.equal(logs.status, 200, logs.text);
    const descriptions = logs.body.map((entry: { description: string }) => entry.description);
    assert.ok(descriptions.includes('Set how the inspector of an event stream responds'));
  });

  test('PUT received/answer: without times it is for one request, at once', async () => {
    const id = await createdId();
    const set = await fixture.send('PUT', `/event-streams/${id}/received/answer`, { status: 200 });
    assert.deepEqual(set.body, { status: 200, delay_ms: 0, times: 1 });
  });

  test('PUT received/answer rejects values out of range', async () => {
    const id = await createdId();
    for (const [body, property] of [
      [{ status: 199 }, 'status'],
      [{ status: 600 }, 'status'],
      [{ status: 204.5 }, 'status'],
      [{ status: 503, delay_ms: -1 }, 'delay_ms'],
      [{ status: 503, delay_ms: 30_001 }, 'delay_ms'],
      [{ status: 503, times: 0 }, 'times'],
      [{ status: 503, times: 1001 }, 'times'],
      [{ status: 503, body: 'x' }, 'body'],
      [{ times: 1 }, 'status'],
    ] as const) {
      const response = await fixture.send('PUT', `/event-streams/${id}/received/answer`, body);
      assertInvalid(response, property);
    }
  });

  test('PUT received/answer is 409 for a stream with another endpoint', async () => {
    const id = await createdId('https://hooks.example.net/leat');
    assertProblem(
      await fixture.send('PUT', `/event-streams/${id}/received/answer`, { status: 200 }),
      409,
      `The event stream has another endpoint: update webhook_endpoint to https://${id}.inspector.invalid/ first.`,
      'not_inspected',
    );
  });

  test('PUT received/answer requires update:event_streams', async () => {
    const id = await createdId();
    await assertNeedsScope(fixture, [
      'PUT',
      `/event-streams/${id}/received/answer`,
      'update:event_streams',
      { status: 200 },
    ]);
  });
});

describe('one of several nodes', () => {
  test('a node that does not send for a stream names the node that does', async (t) => {
    const own = await openApiFixture({}, { nodeId: 'node-b' });
    t.after(() => own.close());
    const { ownership } = own.auth.store;
    const [a, b] = [await ownership.join('node-a', 60_000), await ownership.join('node-b', 60_000)];
    const id = await createdId(newInspector, own);
    const path = `/event-streams/${id}/received`;
    const request = { claim: 1, take: 10, longestWaitMs: 60_000 };
    await ownership.claim(a, request);
    for (const response of [
      await own.send('GET', path),
      await own.send('PUT', `${path}/answer`, { status: 500 }),
    ]) {
      assertProblem(
        response,
        503,
        'The node node-a sends for this event stream and has its requests in memory: send this request to that node.',
        'received_elsewhere',
      );
      assert.equal(response.headers.get('retry-after'), '1');
    }
    await ownership.leave(a);
    await ownership.claim(b, request);
    assert.equal((await own.send('GET', path)).status, 200);
  });

  test('a node that is alone has the requests of a stream without owner', async (t) => {
    const own = await openApiFixture({}, { nodeId: 'node-b' });
    t.after(() => own.close());
    await own.auth.store.ownership.join('node-b', 60_000);
    const id = await createdId(newInspector, own);
    assert.equal((await own.send('GET', `/event-streams/${id}/received`)).status, 200);
  });
});

const unanswered = {
  ended: new Promise<never>(() => undefined),
  onRequestStart: () => undefined,
  onResponseStart: () => undefined,
  onResponseData: () => undefined,
  onResponseEnd: () => undefined,
  onResponseError: () => undefined,
};
