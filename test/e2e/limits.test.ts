import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Running } from '../helpers/leat.ts';
import { expectBody, bearer, streamBody, type ProblemBody } from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

/** A small bucket that refills slowly, so that it is soon empty and stays empty during the test. */

const burst = 30;

let leat: Running;

runServer(
  {
    LEAT_RATE_LIMIT_BURST: String(burst),
    LEAT_RATE_LIMIT_PER_SECOND: '1',
    LEAT_PUBLISH_LIMIT_PER_SECOND: '10',
    LEAT_MAX_STREAMS: '2',
    LEAT_TRUST_PROXY: '127.0.0.1',
    LEAT_TENANT_DOMAIN: 'leat.example.com',
    LEAT_EGRESS_ALLOW: '',
  },
  (running) => {
    leat = running;
  },
);

const message =
  'Too many requests. Check the X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset headers.';

describe('an empty bucket', () => {
  test('an empty bucket refuses unauthenticated requests of its address, before 404, 405 and 401, but no client', async () => {
    const from = address();
    for (const [method, path] of [
      ['GET', '/api/v2/event-streams'],
      ['GET', '/api/v2/nowhere'],
      ['PUT', '/api/v2/event-streams'],
    ] as const) {
      const refused = await drained(() => fetch(leat.url + path, { method, headers: from }));
      assertTooMany(refused);
      assert.deepEqual(await refused.json(), {
        statusCode: 429,
        error: 'Too Many Requests',
        message,
        errorCode: 'too_many_requests',
      });
    }
    const client = await newToken();
    const other = await leat.send('GET', '/api/v2/event-streams', undefined, {
      ...bearer(client),
      ...from,
    });
    assert.equal(other.status, 200);
    assert.equal(other.headers.get('x-ratelimit-limit'), String(burst));
    const neighbour = await fetch(`${leat.url}/api/v2/event-streams`, { headers: address() });
    assert.equal(neighbour.status, 401);
  });

  test('an empty bucket refuses a client at any address, and forged tokens do not drain it', async () => {
    const client = await newToken();
    const forged = `${client.slice(0, -8)}AAAAAAAA`;
    const from = address();
    const refused = await drained(() => get({ ...bearer(forged), ...from }));
    assertTooMany(refused);
    const first = await get(bearer(client));
    assert.equal(first.status, 200);
    assert.equal(first.headers.get('x-ratelimit-remaining'), String(burst - 1));
    assertTooMany(await drained(() => get({ ...bearer(client), ...address() })));
  });

  test('an empty bucket of the token endpoint responds with an OAuth error', async () => {
    const from = address();
    const ask = (): Promise<Response> =>
      fetch(`${leat.url}/oauth/token`, { method: 'POST', headers: from });
    const first = await ask();
    assert.equal(first.status, 400);
    for (const name of ['limit', 'remaining', 'reset']) {
      assert.ok(first.headers.has(`x-ratelimit-${name}`), name);
    }
    const refused = await drained(ask);
    assertTooMany(refused);
    assert.equal(refused.headers.get('cache-control'), 'no-store');
    assert.deepEqual(await refused.json(), {
      error: 'too_many_requests',
      error_description: 'Too many requests',
    });
  });

  test('the address of a bucket: X-Forwarded-For from right to left, as far as proxies are trusted', async () => {
    const real = '203.0.113.77';
    const forge = (left: string): Record<string, string> => ({
      'x-forwarded-for': `${left}, ${real}`,
    });
    let count = 0;
    const refused = await drained(() => {
      count++;
      return fetch(`${leat.url}/api/v2/event-streams`, { headers: forge(`198.51.100.${count}`) });
    });
    assertTooMany(refused);
  });

  test('the address of a bucket: an IPv6 network of 64 bits counts as one', async () => {
    let count = 0;
    const refused = await drained(() => {
      count++;
      const headers = { 'x-forwarded-for': `2001:db8:1:2::${count.toString(16)}` };
      return fetch(`${leat.url}/api/v2/event-streams`, { headers });
    });
    assertTooMany(refused);
    const neighbour = { 'x-forwarded-for': '2001:db8:1:3::1' };
    const other = await fetch(`${leat.url}/api/v2/event-streams`, { headers: neighbour });
    assert.equal(other.status, 401);
  });
});

describe('the bucket of published events', () => {
  test('the bucket of published events admits a request while it is above zero, then takes all its events', async () => {
    const client = await newToken();
    const event = { type: 'order.paid', data: {} };
    const many = Array.from({ length: 1000 }, () => event);
    const publish = (body: object): Promise<Response> =>
      leat.send('POST', '/api/v2/events', body, bearer(client));
    const admitted = await publish(many);
    assert.equal(admitted.status, 202);
    assert.equal(admitted.headers.get('x-ratelimit-limit'), '10');
    assert.equal(admitted.headers.get('x-ratelimit-remaining'), '0');
    const refused = await publish(event);
    assertTooMany(refused, '10');
    assert.ok(Number(refused.headers.get('retry-after')) > 60);
    const read = await get(bearer(client));
    assert.equal(read.headers.get('x-ratelimit-remaining'), String(burst - 1));
  });
});

describe('the streams of a tenant', () => {
  test('the streams of a tenant are limited in number, and deleting one makes room', async () => {
    const client = bearer(await newToken());
    const create = (): Promise<Response> =>
      leat.send('POST', '/api/v2/event-streams', streamBody('https://example.com/'), client);
    const first = await expectBody<{ id: string }>(201, create());
    await expectBody(201, create());
    assert.deepEqual(await expectBody<ProblemBody>(409, create()), {
      statusCode: 409,
      error: 'Conflict',
      message: 'You have reached the maximum number of event streams.',
      errorCode: 'too_many_streams',
    });
    const path = `/api/v2/event-streams/${first.id}`;
    await expectBody(204, leat.send('DELETE', path, undefined, client));
    await expectBody(201, create());
  });
});

let addresses = 0;

/** Returns another remote address each time, as a trusted proxy names it. */
function address(): Record<string, string> {
  addresses++;
  return { 'x-forwarded-for': `192.0.2.${addresses}` };
}

/** Returns a token of a new client with the scopes of these tests; its bucket is full. */
async function newToken(): Promise<string> {
  const operator = await leat.send('POST', '/api/v2/clients', { name: 'new', global: true });
  const created = await expectBody<{ client_id: string; client_secret: string }>(201, operator);
  const { client_id, client_secret } = created;
  await expectBody(
    201,
    leat.send('POST', '/api/v2/client-grants', {
      client_id,
      audience: 'https://leat.example.com/api/v2/',
      scope: [
        'read:event_streams',
        'create:event_streams',
        'delete:event_streams',
        'create:events',
      ],
    }),
  );
  const response = await fetch(`${leat.url}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...address() },
    body: JSON.stringify({
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id,
      client_secret,
    }),
  });
  return (await expectBody<{ access_token: string }>(200, response)).access_token;
}

function get(headers: Record<string, string>): Promise<Response> {
  return leat.send('GET', '/api/v2/event-streams', undefined, headers);
}

/** Sends requests until a 429, which must come before the bucket can refill. */
async function drained(ask: () => Promise<Response>): Promise<Response> {
  for (let count = 0; count < 10 * burst; count++) {
    const response = await ask();
    if (response.status === 429) return response;
    await response.body?.cancel();
  }
  throw new Error('never refused');
}

function assertTooMany({ status, headers }: Response, limit = String(burst)): void {
  assert.equal(status, 429);
  assert.equal(headers.get('x-ratelimit-limit'), limit);
  assert.equal(headers.get('x-ratelimit-remaining'), '0');
  assert.match(headers.get('retry-after') ?? '', /^[1-9][0-9]*$/);
  assert.ok(Number(headers.get('x-ratelimit-reset')) * 1000 > Date.now());
}
