import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Fixture, fixtureOf, retry } from '../store/contract/fixture.ts';
import { type FailingStream, failingStream } from './failure-work.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

let fixture: ApiFixture;
let storeFixture: Fixture;

before(async () => {
  fixture = await openApiFixture();
  storeFixture = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
});
after(() => fixture.close());

const failing = (...statuses: readonly number[]): Promise<FailingStream> =>
  failingStream(storeFixture, statuses);

const get = (path: string) => fixture.send('GET', path);

describe('GET /deliveries', () => {
  test('a failure has the record of its stream, and code, time and next attempt', async () => {
    const { stream, owned, ids } = await failing(503);
    const path = `/deliveries?event_stream_ids=${stream.id}`;
    const { status, body } = await get(path);
    assert.equal(status, 200);
    const [shown] = body.deliveries;
    const { error_code: code, failed_at: failedAt, next_attempt_at: next, ...record } = shown;
    assert.deepEqual(
      [code, failedAt, next],
      ['http_503', new Date(storeFixture.now).toISOString(), null],
    );
    const one = await get(`/event-streams/${stream.id}/deliveries/${ids[0]}`);
    assert.deepEqual(record, one.body);
    const [waits] = await storeFixture.publish('user.created');
    assert.ok(waits);
    await storeFixture.settle(owned, { outcomes: [retry(waits, { delayMs: 5000 })] });
    const both = await get(`${path}&statuses=retrying,failed`);
    assert.deepEqual(
      both.body.deliveries.map((each: Record<string, unknown>) => [
        each['status'],
        each['failed_at'] === null,
        each['next_attempt_at'],
      ]),
      [
        ['retrying', true, new Date(storeFixture.now + 5000).toISOString()],
        ['failed', false, null],
      ],
    );
  });

  test('filters and pages: every failure that matches, once', async () => {
    const one = await failing(503, 404, 503);
    const two = await failing(503);
    const wanted = [...two.ids, one.ids[2], one.ids[0]];
    const seen: string[] = [];
    let from = '';
    do {
      const streams = `${one.stream.id},${two.stream.id}`;
      const query = `event_stream_ids=${streams}&error_codes=http_5xx&take=2`;
      const { body } = await get(`/deliveries?${query}${from}`);
      seen.push(...body.deliveries.map(({ id }: { id: string }) => id));
      from = body.next === undefined ? '' : `&from=${body.next}`;
    } while (from !== '');
    assert.deepEqual(seen, wanted);
  });

  test('an invalid stream, status, code, type, time or cursor is 400 and names the parameter', async () => {
    for (const [name, value] of [
      ['event_stream_ids', 'crm'],
      ['statuses', 'open'],
      ['error_codes', 'http_099'],
      ['event_types', 'User'],
      ['failed_from', 'yesterday'],
      ['date_to', 'now'],
      ['from', 'bm8'],
    ] as const) {
      const { status, body } = await get(`/deliveries?${name}=${value}`);
      assert.equal(status, 400);
      assert.ok(body.message.includes(`on property ${name} (`), body.message);
    }
    const times = 'failed_from=2026-03-02T00:00:00Z&failed_to=2026-03-01T00:00:00Z';
    const reversed = await get(`/deliveries?${times}`);
    assert.equal(reversed.status, 400);
    assert.ok(reversed.body.message.includes('failed_from is later than failed_to'));
  });
});

describe('GET /delivery-groups', () => {
  test('groups by stream and code with names, sample and total', async () => {
    const { stream, ids } = await failing(503, 404, 503);
    const { status, body } = await get(`/delivery-groups?event_stream_ids=${stream.id}`);
    assert.equal(status, 200);
    assert.equal(body.total, 2);
    assert.equal(body.as_of, new Date(storeFixture.now).toISOString());
    const [largest, other] = body.groups;
    assert.deepEqual(largest, {
      event_stream_id: stream.id,
      name: stream.name,
      error_code: 'http_503',
      count: 2,
      first_failed_at: new Date(storeFixture.now - 2000).toISOString(),
      last_failed_at: new Date(storeFixture.now).toISOString(),
      last_attempt_at: new Date(storeFixture.now).toISOString(),
      sample: { event_id: ids[2], event_type: 'user.created', error_message: '503 - no' },
    });
    assert.deepEqual([other.error_code, other.count], ['http_404', 1]);
    const query = `event_stream_ids=${stream.id}&take=1`;
    const first = await get(`/delivery-groups?${query}`);
    const second = await get(`/delivery-groups?${query}&from=${first.body.next}`);
    assert.deepEqual([first.body.groups, second.body.groups], [[largest], [other]]);
    assert.equal((await get('/delivery-groups?error_codes=busy')).status, 400);
    assert.equal((await get('/delivery-groups?from=bm8')).status, 400);
  });
});
