import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { tagOf } from '../../../src/api/http/etag.ts';
import type { ApiSettings } from '../../../src/api/settings.ts';
import { newId } from '../../store/contract/fixture.ts';
import { limits, openApiFixture, type ApiFixture, type ApiResponse } from '../fixture.ts';

async function openFixture(
  t: TestContext,
  settings: Partial<ApiSettings> = {},
): Promise<ApiFixture> {
  const fixture = await openApiFixture(settings);
  t.after(() => fixture.close());
  return fixture;
}

async function createStream({ send }: ApiFixture, name: string): Promise<string> {
  const { status, text, body } = await send('POST', '/event-streams', {
    name,
    subscriptions: [{ event_type: 'user.created' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: 'https://receiver.example/',
        webhook_authorization: { method: 'bearer', token: 'secret-of-the-receiver' },
      },
    },
  });
  assert.equal(status, 201, text);
  return body.id;
}

const etagOf = ({ headers }: ApiResponse): string => headers.get('etag') ?? '';
const remaining = ({ headers }: ApiResponse): string | null => headers.get('x-ratelimit-remaining');

describe('ETags of the management API', () => {
  test('what has not changed is 304 without a body, what has is sent with another ETag', async (t) => {
    const fixture = await openFixture(t);
    const id = await createStream(fixture, 'crm');
    for (const path of ['/event-streams', `/event-streams/${id}`]) {
      const first = await fixture.send('GET', path);
      assert.equal(first.status, 200);
      assert.match(etagOf(first), /^W\/"[\w-]{43}"$/);
      const known = { 'if-none-match': etagOf(first) };
      for (const method of ['GET', 'HEAD']) {
        const again = await fixture.send(method, path, undefined, known);
        assert.deepEqual([again.status, again.text], [304, ''], method);
        assert.equal(etagOf(again), etagOf(first));
        assert.equal(again.headers.get('cache-control'), 'no-store');
      }
      await fixture.send('PATCH', `/event-streams/${id}`, { name: `renamed ${path.length}` });
      const changed = await fixture.send('GET', path, undefined, known);
      assert.equal(changed.status, 200);
      assert.notEqual(etagOf(changed), etagOf(first));
    }
  });

  test('an event, which is stored as text, has one, too', async (t) => {
    const fixture = await openFixture(t);
    const { body } = await fixture.send('POST', '/events', { type: 'order.paid', data: {} });
    const first = await fixture.send('GET', `/event-log/${body.id}`);
    const again = await fixture.send('GET', `/event-log/${body.id}`, undefined, {
      'if-none-match': etagOf(first),
    });
    assert.deepEqual([first.status, again.status], [200, 304]);
  });

  test('the ETag stays where as_of alone is another one, also of a long list', async (t) => {
    const fixture = await openFixture(t, { limits: { ...limits, recentMs: 0, pagesMs: 0 } });
    for (let i = 0; i < 3; i++) await createStream(fixture, `stream ${i}`);
    for (const path of ['/stream-health', '/delivery-groups', '/overview']) {
      const first = await fixture.send('GET', path);
      fixture.auth.clock.move(1);
      const second = await fixture.send('GET', path);
      assert.notEqual(second.body.as_of, first.body.as_of, path);
      assert.equal(etagOf(second), etagOf(first), path);
    }
  });

  test('the ETag is over everything else, also a field as_of of an item', async () => {
    const pieces = (asOf: string, item = 'kept'): Buffer[] => [
      Buffer.from(`{"items":[{"data":{"as_of":"${item}"}}`),
      Buffer.from(`],"as_of":"${asOf}"}`),
    ];
    const tag = await tagOf(pieces('one'), 'one');
    assert.equal(await tagOf(pieces('other'), 'other'), tag);
    assert.equal(await tagOf(Buffer.concat(pieces('one')).toString(), 'one'), tag);
    assert.notEqual(await tagOf(pieces('one', 'changed'), 'one'), tag);
    assert.notEqual(await tagOf(pieces('one'), undefined), tag);
  });

  test('what is refused, created or changed has none', async (t) => {
    const fixture = await openFixture(t);
    const id = await createStream(fixture, 'crm');
    const all = { 'if-none-match': '*' };
    for (const [method, path, body, status] of [
      ['GET', `/event-streams/${newId('est')}`, undefined, 404],
      ['PATCH', `/event-streams/${id}`, { name: 'crm 2' }, 200],
      ['DELETE', `/event-streams/${id}`, undefined, 204],
    ] as const) {
      const response = await fixture.send(method, path, body, all);
      assert.deepEqual([response.status, etagOf(response)], [status, ''], `${method} ${path}`);
    }
  });
});

describe('the rate of 304', () => {
  test('a 304 takes 0.2 of a token', async (t) => {
    const fixture = await openFixture(t, { rateLimitBurst: 3, rateLimitPerSecond: 1 });
    const first = await fixture.send('GET', '/event-streams');
    assert.equal(remaining(first), '2');
    const headers = { 'if-none-match': etagOf(first) };
    for (const left of ['1', '1', '1', '1', '1', '0']) {
      const again = await fixture.send('GET', '/event-streams', undefined, headers);
      assert.deepEqual([again.status, remaining(again)], [304, left]);
    }
    // 0.8 of a token is left: admission takes a whole one.
    assert.equal((await fixture.send('GET', '/event-streams', undefined, headers)).status, 429);
    fixture.auth.clock.move(200);
    assert.equal((await fixture.send('GET', '/event-streams', undefined, headers)).status, 304);
  });

  test('the bucket of the tenant gets the rest back, too', async (t) => {
    const fixture = await openFixture(t, { tenantRateBurst: 2, tenantRatePerSecond: 1 });
    const first = await fixture.send('GET', '/event-streams');
    const headers = { 'if-none-match': etagOf(first) };
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) {
      statuses.push((await fixture.send('GET', '/event-streams', undefined, headers)).status);
    }
    assert.deepEqual(statuses, [304, 429, 429]);
    fixture.auth.clock.move(1000);
    for (let i = 0; i < 3; i++) {
      statuses.push((await fixture.send('GET', '/event-streams', undefined, headers)).status);
    }
    assert.deepEqual(statuses.slice(3), [304, 304, 304]);
  });
});
