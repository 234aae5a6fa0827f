import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { ApiSettings } from '../../../src/api/settings.ts';
import { limits, openApiFixture, type ApiResponse, type ApiFixture } from '../fixture.ts';

async function openTight(t: TestContext, settings: Partial<ApiSettings> = {}): Promise<ApiFixture> {
  const fixture = await openApiFixture({ rateLimitBurst: 3, rateLimitPerSecond: 1, ...settings });
  t.after(() => fixture.close());
  return fixture;
}

function bucketOf({ headers }: ApiResponse): (string | null)[] {
  return ['limit', 'remaining', 'reset'].map((name) => headers.get(`x-ratelimit-${name}`));
}

/** 2026-03-01T09:30:00Z, where the clock of the fixture starts. */
const start = 1_772_357_400;

describe('the bucket of a client', () => {
  test('a client gets as many requests as the bucket holds, then 429 until it refills', async (t) => {
    const fixture = await openTight(t);
    for (const remaining of [2, 1, 0]) {
      const response = await fixture.send('GET', '/event-streams');
      assert.equal(response.status, 200);
      assert.deepEqual(bucketOf(response), ['3', String(remaining), String(start + 3 - remaining)]);
    }
    const rejected = await fixture.send('GET', '/event-streams');
    assert.equal(rejected.status, 429);
    assert.deepEqual(rejected.body, {
      statusCode: 429,
      error: 'Too Many Requests',
      message:
        'Too many requests. Check the X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset headers.',
      errorCode: 'too_many_requests',
    });
    assert.equal(rejected.headers.get('retry-after'), '1');
    assert.deepEqual(bucketOf(rejected), ['3', '0', String(start + 3)]);
    fixture.auth.clock.move(1000);
    assert.equal((await fixture.send('GET', '/event-streams')).status, 200);
  });

  test('the bucket is checked before route, body and scope', async (t) => {
    const fixture = await openTight(t);
    for (let i = 0; i < 3; i++) await fixture.send('GET', '/nowhere');
    assert.equal((await fixture.send('GET', '/nowhere')).status, 429);
    assert.equal((await fixture.send('PUT', '/event-streams')).status, 429);
    assert.equal((await fixture.send('POST', '/event-streams', '{')).status, 429);
  });

  test('a request with a forged token counts against its address', async (t) => {
    const fixture = await openTight(t);
    const forged = `${fixture.token.slice(0, -8)}AAAAAAAA`;
    const responses: number[] = [];
    for (let i = 0; i < 5; i++) {
      const authorization = `Bearer ${forged}`;
      const response = await fixture.raw('GET', '/api/v2/event-streams', undefined, {
        authorization,
      });
      responses.push(response.status);
    }
    assert.deepEqual(responses, [401, 401, 401, 429, 429]);
    assert.equal((await fixture.send('GET', '/event-streams')).status, 200);
  });

  test('each client has a bucket of its own', async (t) => {
    const fixture = await openTight(t);
    for (let i = 0; i < 4; i++) await fixture.send('GET', '/event-streams');
    const headers = { authorization: `Bearer ${await fixture.tokenWith('read:event_streams')}` };
    assert.equal((await fixture.send('GET', '/event-streams', undefined, headers)).status, 200);
  });

  test('token requests count against the bucket of the address', async (t) => {
    const fixture = await openTight(t);
    const responses: number[] = [];
    for (let i = 0; i < 4; i++)
      responses.push((await fixture.raw('POST', '/oauth/token', '')).status);
    assert.deepEqual(responses, [400, 400, 400, 429]);
    assert.equal((await fixture.raw('GET', '/api/v2/event-streams')).status, 429);
    assert.equal((await fixture.send('GET', '/event-streams')).status, 200);
  });
});

describe('the bucket of published events', () => {
  const one = { type: 'order.paid', data: {} };

  test('the bucket counts events, and one request may overdraw it', async (t) => {
    const fixture = await openTight(t, { publishLimitPerSecond: 10 });
    const first = await fixture.send(
      'POST',
      '/events',
      Array.from({ length: 9 }, () => one),
    );
    assert.equal(first.status, 202);
    assert.deepEqual(bucketOf(first).slice(0, 2), ['10', '1']);
    const second = await fixture.send(
      'POST',
      '/events',
      Array.from({ length: 20 }, () => one),
    );
    assert.equal(second.status, 202);
    assert.deepEqual(bucketOf(second).slice(0, 2), ['10', '0']);
    const third = await fixture.send('POST', '/events', one);
    assert.equal(third.status, 429);
    assert.equal(third.headers.get('retry-after'), '2');
    fixture.auth.clock.move(1901);
    assert.equal((await fixture.send('POST', '/events', one)).status, 202);
  });

  test('publishing takes nothing off the bucket of the client, and 401 nothing off that of events', async (t) => {
    const fixture = await openTight(t, { publishLimitPerSecond: 10 });
    for (let i = 0; i < 5; i++) {
      assert.equal((await fixture.send('POST', '/events', one)).status, 202);
    }
    for (let i = 0; i < 10; i++) await fixture.raw('POST', '/api/v2/events', '[]');
    assert.equal((await fixture.send('POST', '/events', one)).status, 202);
    assert.equal((await fixture.send('GET', '/event-streams')).status, 200);
  });

  test('a client that may not publish draws on its own bucket, not on that of events', async (t) => {
    const fixture = await openTight(t, { publishLimitPerSecond: 2 });
    const headers = await fixture.headersWith('read:users');
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) {
      statuses.push((await fixture.send('POST', '/events', one, headers)).status);
    }
    assert.deepEqual(statuses, [403, 403, 403, 429]);
    assert.equal((await fixture.send('POST', '/events', one)).status, 202);
  });

  test('a rejected request counts as one event', async (t) => {
    const fixture = await openTight(t, { publishLimitPerSecond: 2 });
    assert.equal((await fixture.send('POST', '/events', '{')).status, 400);
    assert.equal((await fixture.send('POST', '/events', '{')).status, 400);
    assert.equal((await fixture.send('POST', '/events', one)).status, 429);
  });
});

describe('the bucket of a tenant', () => {
  const settings = { rateLimitBurst: 3, tenantRateBurst: 4, tenantRatePerSecond: 1 };

  test('all clients of a tenant share the bucket, and the headers show the emptier one', async (t) => {
    const fixture = await openTight(t, settings);
    const list = async (token: string): Promise<ApiResponse> =>
      fixture.send('GET', '/event-streams', undefined, { authorization: `Bearer ${token}` });
    const other = await fixture.tokenWith('read:event_streams');
    const buckets: (string | null)[][] = [];
    for (let i = 0; i < 3; i++) buckets.push(bucketOf(await list(fixture.token)).slice(0, 2));
    buckets.push(bucketOf(await list(other)).slice(0, 2));
    assert.deepEqual(buckets, [
      ['3', '2'],
      ['3', '1'],
      ['3', '0'],
      ['4', '0'],
    ]);
    const rejected = await list(other);
    assert.equal(rejected.status, 429);
    assert.equal(rejected.headers.get('retry-after'), '1');
    assert.deepEqual(bucketOf(rejected), ['4', '0', String(start + 4)]);
    fixture.auth.clock.move(1000);
    assert.equal((await list(other)).status, 200);
  });

  test('a client whose own bucket is empty takes nothing off that of the tenant', async (t) => {
    const fixture = await openTight(t, settings);
    for (let i = 0; i < 10; i++) await fixture.send('GET', '/event-streams');
    const authorization = `Bearer ${await fixture.tokenWith('read:event_streams')}`;
    const response = await fixture.send('GET', '/event-streams', undefined, { authorization });
    assert.equal(response.status, 200);
  });

  test('a client that is revoked or not global draws on the bucket of its address alone', async (t) => {
    const fixture = await openTight(t, { ...settings, publishLimitPerSecond: 2 });
    const { auth } = fixture;
    const credentials = await auth.client({}, ['read:event_streams', 'create:events']);
    const revoked = { authorization: `Bearer ${await auth.token(credentials)}` };
    const rotation = `/clients/${credentials.clientId}/rotate-secret`;
    assert.equal((await fixture.send('POST', rotation)).status, 200);
    const other = await auth.client({ global: false }, ['read:event_streams', 'create:events']);
    const local = { authorization: `Bearer ${await auth.token(other)}` };
    const statuses: number[] = [];
    for (const headers of [revoked, local]) {
      statuses.push((await fixture.send('GET', '/event-streams', undefined, headers)).status);
      const event = { type: 'order.paid', data: {} };
      statuses.push((await fixture.send('POST', '/events', event, headers)).status);
    }
    assert.deepEqual(statuses, [401, 401, 401, 429]);
    const response = await fixture.send('GET', '/event-streams');
    assert.deepEqual(bucketOf(response).slice(0, 2), ['3', '1']);
    assert.equal((await fixture.raw('GET', '/api/v2/event-streams')).status, 429);
  });

  test('publishing and token requests do not count against the bucket of the tenant', async (t) => {
    const fixture = await openTight(t, { ...settings, rateLimitBurst: 100, tenantRateBurst: 1 });
    const publish = (): Promise<ApiResponse> =>
      fixture.send('POST', '/events', { type: 'order.paid', data: {} });
    for (let i = 0; i < 5; i++) assert.equal((await publish()).status, 202);
    assert.equal((await fixture.send('GET', '/event-streams')).status, 200);
    assert.equal((await fixture.send('GET', '/event-streams')).status, 429);
    assert.equal((await publish()).status, 202);
    const token = await fixture.raw('POST', '/oauth/token', '{}', {
      'content-type': 'application/json',
    });
    assert.equal(token.headers.get('x-ratelimit-limit'), '100');
    assert.notEqual(token.status, 429);
  });
});

describe('the bucket of published bytes', () => {
  const bytes = (length: number): string =>
    JSON.stringify({ type: 'order.paid', data: {} }).padEnd(length);

  test('a body is admitted while anything is left, then none until the bucket refills', async (t) => {
    const fixture = await openTight(t, { publishLimitBytesPerSecond: 1000 });
    assert.equal((await fixture.send('POST', '/events', bytes(999))).status, 202);
    assert.equal((await fixture.send('POST', '/events', bytes(5001))).status, 202);
    const rejected = await fixture.send('POST', '/events', bytes(100));
    assert.equal(rejected.status, 429);
    assert.equal(rejected.body.errorCode, 'too_many_requests');
    assert.equal(rejected.headers.get('retry-after'), '5');
    assert.deepEqual(bucketOf(rejected).slice(0, 2), ['1000', '0']);
    fixture.auth.clock.move(5001);
    assert.equal((await fixture.send('POST', '/events', bytes(100))).status, 202);
  });

  test('the bucket is checked after the size of the body and before its JSON', async (t) => {
    const fixture = await openTight(t, { publishLimitBytesPerSecond: 10 });
    assert.equal((await fixture.send('POST', '/events', '{'.repeat(5_000_000))).status, 413);
    assert.equal((await fixture.send('POST', '/events', '{'.repeat(100))).status, 400);
    assert.equal((await fixture.send('POST', '/events', '{'.repeat(100))).status, 429);
  });

  test('a body without a length counts as it is read', async (t) => {
    const fixture = await openTight(t, { publishLimitBytesPerSecond: 1000 });
    const headers = {
      authorization: `Bearer ${fixture.token}`,
      'content-type': 'application/json',
    };
    const chunked = (text: string): Promise<ApiResponse> =>
      fixture.raw('POST', '/api/v2/events', new Blob([text]).stream(), headers);
    assert.equal((await chunked(bytes(2001))).status, 202);
    const rejected = await chunked(bytes(100));
    assert.equal(rejected.status, 429);
    assert.equal(rejected.headers.get('retry-after'), '2');
  });

  test('each tenant has a bucket of bytes, and only publishing takes from it', async (t) => {
    const fixture = await openTight(t, { publishLimitBytesPerSecond: 10 });
    const name = { name: 'x'.repeat(1000) };
    assert.equal((await fixture.send('POST', '/event-streams', name)).status, 400);
    assert.equal((await fixture.send('POST', '/events', bytes(100))).status, 202);
  });
});

describe('the bucket of an address behind a proxy', () => {
  test('a trusted proxy names the client address', async (t) => {
    const fixture = await openTight(t, { trustProxy: ['127.0.0.0/8'] });
    const statusOf = async (forwarded: string): Promise<number> => {
      const headers = { 'x-forwarded-for': forwarded };
      return (await fixture.raw('GET', '/api/v2/event-streams', undefined, headers)).status;
    };
    for (let i = 0; i < 3; i++) assert.equal(await statusOf(`198.51.100.${i}, 192.0.2.7`), 401);
    assert.equal(await statusOf('192.0.2.7'), 429, 'entries of the client do not count');
    assert.equal(await statusOf('192.0.2.8'), 401);
    for (let i = 0; i < 3; i++) assert.equal(await statusOf(`2001:db8::${i}`), 401);
    assert.equal(await statusOf('2001:db8::ffff'), 429, 'a /64 is one client');
  });

  test('the bucket of an address behind a proxy without a trusted proxy X-Forwarded-For is ignored', async (t) => {
    const fixture = await openTight(t, { limits });
    const responses: number[] = [];
    for (let i = 0; i < 4; i++) {
      const headers = { 'x-forwarded-for': `192.0.2.${i}` };
      responses.push(
        (await fixture.raw('GET', '/api/v2/event-streams', undefined, headers)).status,
      );
    }
    assert.deepEqual(responses, [401, 401, 401, 429]);
  });
});
