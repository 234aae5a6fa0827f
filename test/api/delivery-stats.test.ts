import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Histogram } from '../../src/core/histogram.ts';
import type { RecordedMinute } from '../../src/store/port/delivery-stats.ts';
import { fixtureOf, newId } from '../store/contract/fixture.ts';
import { type ApiFixture, assertNeedsScope, assertNotFound, openApiFixture } from './fixture.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

let fixture: ApiFixture;
before(async () => {
  fixture = await openApiFixture();
});
after(() => fixture.close());

const get = (query: string) => fixture.send('GET', `/stats/deliveries?${query}`);

async function addStream(): Promise<string> {
  const stream = await fixtureOf(fixture.auth.store, 1).addStream({ name: newId('est') });
  return stream.id;
}

async function record(minutes: Partial<RecordedMinute> & { at: number; latencies?: number[] }) {
  const { latencies = [], ...counts } = minutes;
  const histogram = new Histogram();
  for (const ms of latencies) histogram.add(ms);
  const [latency, duration] = [histogram.encode(), histogram.encode()];
  const none = { published: 0, delivered: latencies.length, failed: 0, retried: 0 };
  await fixture.auth.store.deliveryStats.record('node', [
    { tenant: 1, stream: undefined, ...none, latency, duration, ...counts },
  ]);
}

const nothing = { p50: null, p95: null, p99: null };
const near = (value: number, exact: number): void =>
  assert.ok(Math.abs(value - exact) <= exact / 10, `${value} instead of ${exact}`);

describe('GET /stats/deliveries', () => {
  test('every bucket of the window is listed, with the percentiles of its minutes', async () => {
    const at = Date.parse('2026-02-01T10:00:00Z');
    const stream = await addStream();
    const fast = Array.from({ length: 99 }, () => 10);
    await record({ stream, at, latencies: fast, retried: 2 });
    await record({ stream, at: at + minute, latencies: [5000, 5000], failed: 1 });
    const window = 'date_from=2026-02-01T09:30:00Z&date_to=2026-02-01T11:00:00.001Z';
    const { status, body } = await get(`event_stream_id=${stream}&${window}`);
    assert.equal(status, 200);
    assert.deepEqual(
      [body.bucket, body.date_from, body.date_to],
      ['hour', '2026-02-01T09:00:00.000Z', '2026-02-01T12:00:00.000Z'],
    );
    const [first, second, third] = body.data;
    const empty = {
      delivered: 0,
      failed: 0,
      retried: 0,
      latency_ms: nothing,
      duration_ms: nothing,
    };
    assert.deepEqual(first, { at: '2026-02-01T09:00:00.000Z', ...empty });
    assert.deepEqual(third, { at: '2026-02-01T11:00:00.000Z', ...empty });
    const { latency_ms: latency, duration_ms: duration, ...counts } = second;
    const of = { delivered: 101, failed: 1, retried: 2 };
    assert.deepEqual(counts, { at: '2026-02-01T10:00:00.000Z', ...of });
    near(latency.p95, 10);
    near(latency.p99, 5000);
    assert.deepEqual(duration, latency);
  });

  test('minutes and days have their own buckets', async () => {
    const at = Date.parse('2026-02-03T10:00:00Z');
    const stream = await addStream();
    await record({ stream, at, latencies: [1] });
    await record({ stream, at: at + minute, latencies: [1, 1] });
    const counts = async (query: string): Promise<number[]> => {
      const { body } = await get(`event_stream_id=${stream}&${query}`);
      return body.data.map(({ delivered }: { delivered: number }) => delivered);
    };
    const window = 'date_from=2026-02-03T10:00:00Z&date_to=2026-02-03T10:03:00Z';
    assert.deepEqual(await counts(`bucket=minute&${window}`), [1, 2, 0]);
    assert.deepEqual(await counts(`bucket=day&${window}`), [3]);
  });

  test('without a stream: the tenant, with the events that it published', async () => {
    const at = Date.parse('2026-02-05T10:00:00Z');
    await record({ at, published: 7, latencies: [1] });
    const { body } = await get('date_from=2026-02-05T10:00:00Z&date_to=2026-02-05T11:00:00Z');
    assert.deepEqual([body.data[0].published, body.data[0].delivered], [7, 1]);
  });

  test('windows end now by default, and begin as long before as suits the bucket', async () => {
    for (const [bucket, count] of Object.entries({ minute: 61, hour: 25, day: 31 })) {
      const { body } = await get(`bucket=${bucket}`);
      assert.equal(body.data.length, count, bucket);
      const end = Date.parse(body.date_to) - fixture.auth.clock.now();
      assert.ok(end > 0 && end <= day, `${bucket} ends ${end} ms from now`);
    }
    assert.equal((await get('')).body.bucket, 'hour');
  });

  test('a window longer than its buckets are kept: 400 with the way out', async () => {
    const to = 'date_to=2026-02-05T00:00:00Z';
    const refused = {
      [`bucket=minute&date_from=2026-02-03T23:58:59Z&${to}`]: /24 hours.*use bucket=hour/,
      [`bucket=hour&date_from=2025-11-01T00:00:00Z&${to}`]: /90 days.*use bucket=day/,
      [`bucket=day&date_from=2024-12-01T00:00:00Z&${to}`]: /400 days.*use a shorter window/,
    };
    for (const [query, message] of Object.entries(refused)) {
      const { status, body } = await get(query);
      assert.deepEqual([status, body.errorCode], [400, 'invalid_query_string'], query);
      assert.match(body.message, message);
    }
    const whole = await get(`bucket=minute&date_from=2026-02-04T00:00:00Z&${to}`);
    assert.equal(whole.body.data.length, 1440);
  });

  test('windows before 1970 and at the ends of the years have the buckets that they touch', async () => {
    const buckets = async (query: string): Promise<string[]> => {
      const { body } = await get(query);
      return body.data.map(({ at }: { at: string }) => at);
    };
    const epoch = 'date_from=1969-12-31T23:30:00Z&date_to=1970-01-01T00:00:00.001Z';
    assert.deepEqual(await buckets(epoch), [
      '1969-12-31T23:00:00.000Z',
      '1970-01-01T00:00:00.000Z',
    ]);
    const last = 'date_from=9999-12-31T22:10:00Z&date_to=9999-12-31T22:20:00Z';
    assert.deepEqual(await buckets(last), ['9999-12-31T22:00:00.000Z']);
    const none = 'date_from=2026-02-05T12:00:00Z&date_to=2026-02-05T12:00:00Z';
    assert.deepEqual(await buckets(none), []);
  });

  test('bad queries: 400 names the property', async () => {
    for (const [query, property] of [
      ['bucket=week', 'bucket'],
      ['date_from=yesterday', 'date_from'],
      ['date_from=2026-02-05T00:00:00Z&date_to=2026-02-04T00:00:00Z', 'date_from'],
      ['date_from=2999-01-01T00:00:00Z', 'date_from'],
      ['bucket=day&date_from=9999-12-31T00:00:00Z&date_to=9999-12-31T12:00:00Z', 'date_from'],
      ['date_to=0000-01-01T00:10:00Z', 'date_from'],
      ['event_stream_id=crm', 'event_stream_id'],
    ] as const) {
      const { status, body } = await get(query);
      assert.equal(status, 400, query);
      assert.ok(body.message.includes(`' on property ${property} (`), body.message);
    }
    assertNotFound(await get('event_stream_id=est_AAAAAAAAAAAAAAAAAAAAAA'), 'stream');
  });

  test('needs read:event_streams', () =>
    assertNeedsScope(fixture, ['GET', '/stats/deliveries', 'read:event_streams']));

  test('the health of a stream has the 95th percentile of its latency', async () => {
    const stream = await addStream();
    const path = `/event-streams/${stream}/health`;
    assert.equal((await fixture.send('GET', path)).body.p95_24h_ms, null);
    const now = fixture.auth.clock.now();
    const [fast, at] = [Array.from({ length: 18 }, () => 10), now - (now % minute)];
    await record({ stream, at, latencies: [...fast, 700, 700] });
    await record({ stream, at: at - 30 * hour, latencies: fast });
    near((await fixture.send('GET', path)).body.p95_24h_ms, 700);
  });
});
