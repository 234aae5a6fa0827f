import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import type { OwnedStream } from '../../src/store/port/ownership.ts';
import {
  claimDue,
  delivered,
  failed,
  newEvent,
  fixtureOf,
  retry,
  start,
  type Fixture,
} from '../store/contract/fixture.ts';
import { openApiFixture, type ApiResponse, type ApiFixture } from './fixture.ts';

let fixture: ApiFixture;
let storeFixture: Fixture;

before(async () => {
  fixture = await openApiFixture();
  storeFixture = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
});
after(() => fixture.close());

interface Failing {
  readonly stream: Stream;
  readonly owned: OwnedStream;
  readonly path: string;
  /** Ids of the failed events, in the order in which they failed. */
  readonly ids: string[];
}

/** Creates a stream, and lets deliveries of events of these types fail, one per second. */
async function failing(...types: string[]): Promise<Failing> {
  const stream = await storeFixture.addStream({ types: [...new Set(types)] });
  const owned = await storeFixture.own(stream);
  const ids: string[] = [];
  for (const type of types) {
    storeFixture.now += 1000;
    const [event] = await storeFixture.publish(type);
    assert.ok(event);
    await storeFixture.settle(owned, { outcomes: [failed(event)] });
    ids.push(event.id);
  }
  return { stream, owned, path: `/event-streams/${stream.id}`, ids };
}

function idsOf(records: readonly { id: string }[]): string[] {
  return records.map(({ id }) => id);
}

async function list(path: string, query = ''): Promise<ApiResponse> {
  return fixture.send('GET', `${path}/deliveries${query}`);
}

describe('the list of failures', () => {
  test('the list is an empty array for a stream without failures', async () => {
    const { path } = await failing();
    const response = await list(path);
    assert.equal(response.text, '[]');
    assert.equal(response.headers.get('link'), null);
  });

  test('the list of failures shows a failure with its attempts and the envelope as sent', async () => {
    const { stream, path, ids } = await failing('user.created');
    const [record] = (await list(path)).body;
    const at = new Date(storeFixture.now).toISOString();
    assert.deepEqual(record, {
      id: ids[0],
      event_stream_id: stream.id,
      event_type: 'user.created',
      status: 'failed',
      attempts: [{ status: 'failed', timestamp: at, duration: 35.25, error_message: '503 - busy' }],
      event: { id: ids[0], type: 'user.created', data: {}, svcstream: stream.id },
    });
    assert.deepEqual((await fixture.send('GET', `${path}/deliveries/${ids[0]}`)).body, record);
  });

  test('the list of failures keeps numbers that exceed the precision of a double', async () => {
    const stream = await storeFixture.addStream({ types: ['a.b'] });
    const owned = await storeFixture.own(stream);
    const event = newEvent({ type: 'a.b', body: '{"n":12345678901234567890,"m":1.10}' });
    const [appended] = await storeFixture.store.log.append(storeFixture.tenant, [event]);
    assert.ok(appended);
    await storeFixture.settle(owned, { outcomes: [failed({ ...event, offset: appended.offset })] });
    assert.match(
      (await list(`/event-streams/${stream.id}`)).text,
      /"n":12345678901234567890,"m":1.10/,
    );
  });

  test('the list of failures pages newest first, without next on the last page', async () => {
    const { path, ids } = await failing(...Array<string>(5).fill('a.b'));
    const first = (await list(path, '?take=2')).body;
    assert.deepEqual(idsOf(first.deliveries), [ids[4], ids[3]]);
    const second = (await list(path, `?take=2&from=${first.next}`)).body;
    assert.deepEqual(idsOf(second.deliveries), [ids[2], ids[1]]);
    const last = (await list(path, `?from=${second.next}`)).body;
    assert.deepEqual(idsOf(last.deliveries), [ids[0]]);
    assert.equal('next' in last, false);
  });

  test('the bare array has a Link to the next page, with the same filters', async () => {
    const { path, ids } = await failing(...Array<string>(101).fill('a.b'));
    const query = '?event_types=a.b,c.d&statuses=failed&date_from=2026-01-01T00:00:00%2B01:00';
    const response = await list(path, query);
    assert.deepEqual(idsOf(response.body), ids.slice(1).toReversed());
    const link = response.headers.get('link') ?? '';
    const url = new URL(/^<(https:\/\/leat\.example\.com\/.+)>; rel="next"$/.exec(link)?.[1] ?? '');
    assert.equal(url.pathname, `/api/v2${path}/deliveries`);
    assert.equal(url.searchParams.get('take'), '100');
    assert.equal(url.searchParams.get('event_types'), 'a.b,c.d');
    assert.equal(url.searchParams.get('statuses'), 'failed');
    assert.equal(url.searchParams.get('date_from'), '2026-01-01T00:00:00+01:00');
    const rest = (await list(path, url.search)).body;
    assert.deepEqual(idsOf(rest.deliveries), [ids[0]]);
    assert.equal('next' in rest, false);
  });

  test('the list of failures filters by type and by the time of the event', async () => {
    const { path, ids } = await failing('a.b', 'c.d', 'a.b');
    const [first, second, third] = ids.map(
      (_, index) => new Date(storeFixture.now - 2000 + 1000 * index),
    );
    assert.ok(first && second && third);
    const shown = async (query: string): Promise<string[]> => idsOf((await list(path, query)).body);
    assert.deepEqual(await shown('?event_types=c.d'), [ids[1]]);
    assert.deepEqual(await shown('?event_types=c.d,a.b&statuses=failed'), ids.toReversed());
    assert.deepEqual(await shown('?event_types=e.f'), []);
    assert.deepEqual(await shown(`?date_from=${second.toISOString()}`), [ids[2], ids[1]]);
    assert.deepEqual(await shown(`?date_to=${second.toISOString()}`), [ids[0]]);
    const both = `?date_from=${first.toISOString()}&date_to=${third.toISOString()}&event_types=a.b`;
    assert.deepEqual(await shown(both), [ids[0]]);
  });

  const bad = [
    'take=0',
    'take=101',
    'from=nonsense',
    'from=MS4y',
    'statuses=delivered',
    'statuses=failed,',
    'statuses=',
    'event_types=user',
    'event_types=a.b,',
    'date_from=yesterday',
    'date_from=2026-02-30T00:00:00Z',
    'date_to=2026-01-01',
    'date_from=2026-01-02T00:00:00Z&date_to=2026-01-01T00:00:00Z',
    'date_from=2026-01-02T00:00:00Z&date_from=2026-01-02T00:00:00Z',
  ];
  for (const query of bad) {
    test(`the list of failures rejects ?${query}`, async () => {
      const response = await list('/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA', `?${query}`);
      if (query === 'from=MS4y') {
        assert.equal(response.status, 404, 'the cursor is valid, but the stream is unknown');
        return;
      }
      assert.equal(response.status, 400);
      assert.equal(response.body.errorCode, 'invalid_query_string');
    });
  }

  test('list and failure are 404 for an unknown stream, the failure also for an unknown event', async () => {
    const { path } = await failing();
    const unknown = '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA';
    const event = 'evt_AAAAAAAAAAAAAAAAAAAAAA';
    const responses: [ApiResponse, string][] = [
      [await list(unknown), 'The requested stream does not exist: est_AAAAAAAAAAAAAAAAAAAAAA'],
      [
        await list(unknown, `/${event}`),
        'The requested stream does not exist: est_AAAAAAAAAAAAAAAAAAAAAA',
      ],
      [await list(path, `/${event}`), 'The event does not exist: evt_AAAAAAAAAAAAAAAAAAAAAA'],
    ];
    for (const [response, message] of responses) {
      assert.equal(response.status, 404);
      assert.equal(response.body.message, message);
    }
    const malformed = await list(path, '/evt_1');
    assert.equal(
      malformed.body.message,
      "Path validation error: 'Object didn't pass validation for format event-id: evt_1' on property event_id (Unique identifier for the event).",
    );
  });
});

describe('redelivery of one', () => {
  test('a redelivery is accepted once, marked in the record, and accepted again after it failed', async () => {
    const { path, ids, owned } = await failing('a.b');
    const redeliver = (body?: unknown): Promise<ApiResponse> =>
      fixture.send('POST', `${path}/redeliver/${ids[0]}`, body);
    const accepted = await redeliver();
    assert.equal(accepted.status, 202);
    assert.equal(accepted.text, '{}');
    const [record] = (await list(path)).body;
    assert.equal(record.status, 'failed');
    assert.deepEqual(record.attempts[1], {
      status: 'retrying',
      timestamp: new Date(storeFixture.now).toISOString(),
    });
    const again = await redeliver({});
    assert.equal(again.status, 409);
    assert.equal(again.body.message, 'The event is not in a state that allows redelivery.');
    assert.equal(again.body.errorCode, 'not_redeliverable');
    const due = await claimDue(storeFixture, owned);
    const [row] = due.rows;
    assert.ok(row);
    const fields = { kind: 'redelivery', hasRow: true } as const;
    await storeFixture.settle(owned, { outcomes: [failed(row.event, fields)] });
    assert.equal((await redeliver()).status, 202);
  });

  test('a redelivery of a delivered event is 409, of an unknown one 404', async () => {
    const { path, owned } = await failing();
    const [event] = await storeFixture.publish('a.b');
    assert.ok(event);
    await storeFixture.settle(owned, { outcomes: [delivered(event)] });
    const post = (id: string): Promise<ApiResponse> =>
      fixture.send('POST', `${path}/redeliver/${id}`);
    assert.equal((await post(event.id)).status, 409);
    const unknown = await post('evt_AAAAAAAAAAAAAAAAAAAAAA');
    assert.equal(unknown.status, 404);
    assert.equal(unknown.body.message, 'The event does not exist: evt_AAAAAAAAAAAAAAAAAAAAAA');
    const nowhere = await fixture.send(
      'POST',
      `/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA/redeliver/${event.id}`,
    );
    assert.equal(
      nowhere.body.message,
      'The requested stream does not exist: est_AAAAAAAAAAAAAAAAAAAAAA',
    );
  });

  test('a redelivery accepts no fields', async () => {
    const { path, ids } = await failing('a.b');
    const response = await fixture.send('POST', `${path}/redeliver/${ids[0]}`, { statuses: [] });
    assert.equal(response.body.errorCode, 'invalid_body');
  });
});

describe('retry now', () => {
  test('retry now: makes what waits for a retry due, and returns the number', async () => {
    const { stream, owned, path } = await failing('a.b');
    const [waits] = await storeFixture.publish('a.b');
    assert.ok(waits);
    storeFixture.now = Math.max(storeFixture.now, fixture.auth.clock.now());
    await storeFixture.settle(owned, { outcomes: [retry(waits, { delayMs: 30_000 })] });
    const response = await fixture.send('POST', `${path}/retry-now`);
    assert.deepEqual([response.status, response.body], [202, { due: 1 }]);
    const again = await fixture.send('POST', `${path}/retry-now`, {});
    assert.deepEqual([again.status, again.body], [202, { due: 0 }]);
    const { rows } = await claimDue(storeFixture, owned);
    assert.deepEqual(
      rows.map(({ event }) => event.id),
      [waits.id],
    );
    assert.equal((await storeFixture.health(stream)).total, 1);
  });

  test('retry now: accepts no fields, and returns 404 for an unknown stream', async () => {
    const { path } = await failing();
    assert.equal((await fixture.send('POST', `${path}/retry-now`, { all: true })).status, 400);
    const unknown = '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA/retry-now';
    assert.equal((await fixture.send('POST', unknown)).status, 404);
  });
});

describe('redelivery of many', () => {
  async function due(owned: OwnedStream): Promise<string[]> {
    storeFixture.now += 1;
    const { rows } = await claimDue(storeFixture, owned);
    return rows.map(({ event }) => event.id).toSorted();
  }

  test('redelivers all failures without a body, and returns the fields sent', async () => {
    const { path, ids, owned } = await failing('a.b', 'c.d');
    storeFixture.now = Math.max(storeFixture.now, fixture.auth.clock.now());
    const response = await fixture.send('POST', `${path}/redeliver`);
    assert.equal(response.status, 202);
    assert.equal(response.text, '{}');
    assert.deepEqual(await due(owned), ids.toSorted());
    for (const body of [{}, 'null']) {
      const again = await fixture.send('POST', `${path}/redeliver`, body);
      assert.deepEqual([again.status, again.text], [202, '{}'], 'nothing to do');
    }
    assert.deepEqual(await due(owned), []);
  });

  test('redelivers the failures that match every field', async () => {
    const { path, ids, owned } = await failing('a.b', 'c.d', 'a.b');
    const date_from = new Date(storeFixture.now - 1500).toISOString();
    const body = { statuses: ['failed'], event_types: ['a.b'], date_from };
    const response = await fixture.send('POST', `${path}/redeliver`, body);
    assert.deepEqual(response.body, body);
    assert.deepEqual(await due(owned), [ids[2]]);
  });

  test('redelivers nothing for an empty list of statuses or types', async () => {
    const { path, owned } = await failing('a.b');
    assert.equal((await fixture.send('POST', `${path}/redeliver`, { statuses: [] })).status, 202);
    assert.equal(
      (await fixture.send('POST', `${path}/redeliver`, { event_types: [] })).status,
      202,
    );
    assert.deepEqual(await due(owned), []);
  });

  const bad: object[] = [
    { date_from: '2026' },
    { date_from: 1 },
    { date_from: '2026-01-02T00:00:00Z', date_to: '2026-01-01T00:00:00Z' },
    { statuses: ['delivered'] },
    { statuses: 'failed' },
    { event_types: ['user'] },
    { other: 1 },
    [],
  ];
  for (const body of bad) {
    test(`redelivery of many rejects ${JSON.stringify(body)}`, async () => {
      const { path } = await failing();
      const response = await fixture.send('POST', `${path}/redeliver`, body);
      assert.equal(response.status, 400);
      assert.equal(response.body.errorCode, 'invalid_body');
    });
  }

  test('redelivery of many returns 404 for an unknown stream', async () => {
    const path = '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA/redeliver';
    assert.equal((await fixture.send('POST', path)).status, 404);
  });
});

describe('a test event', () => {
  test('a test event is pending, marked as a test, due immediately, and not in the log', async () => {
    const { path, stream, owned } = await failing();
    const head = await storeFixture.store.log.head(storeFixture.tenant);
    const response = await fixture.send('POST', `${path}/test`, { event_type: 'user.created' });
    assert.equal(response.status, 202);
    const { id, event, ...rest } = response.body;
    assert.deepEqual(rest, {
      event_stream_id: stream.id,
      event_type: 'user.created',
      status: 'pending',
      attempts: [],
    });
    assert.equal(event.id, id);
    assert.equal(event.svcpurpose, 'test');
    assert.equal(event.svcstream, stream.id);
    assert.equal(event.data.object.user_id, 'leat|65e1a0b2c3d4e5f60718293a');
    assert.equal(await storeFixture.store.log.head(storeFixture.tenant), head);
    storeFixture.now = Math.max(storeFixture.now, fixture.auth.clock.now()) + 1;
    const { rows } = await claimDue(storeFixture, owned);
    assert.deepEqual(
      rows.map((row) => [row.kind, row.event.id]),
      [['test', id]],
    );
  });

  test('a test event contains the data sent, or an empty object for a type outside the catalogue', async () => {
    const { path } = await failing();
    const text = '{"event_type":"a.b","data":{"n":1.10,"__proto__":{"x":1}}}';
    const response = await fixture.send('POST', `${path}/test`, text);
    assert.match(response.text, /"data":\{"n":1\.10,"__proto__":\{"x":1\}\}/);
    const sample = await fixture.send('POST', `${path}/test`, { event_type: 'a.b' });
    assert.deepEqual(sample.body.event.data, { object: {} });
  });

  test('a test event for a disabled stream is 409, for an unknown one 404', async () => {
    const { path, stream } = await failing();
    await storeFixture.retire();
    await fixture.send('PATCH', path, { status: 'disabled' });
    const response = await fixture.send('POST', `${path}/test`, { event_type: 'a.b' });
    assert.equal(response.status, 409);
    assert.equal(response.body.message, 'The event stream is disabled.');
    assert.equal(response.body.errorCode, 'stream_disabled');
    await fixture.send('DELETE', `/event-streams/${stream.id}`);
    assert.equal((await fixture.send('POST', `${path}/test`, { event_type: 'a.b' })).status, 404);
  });

  test('a test event is validated and limited to 256 KiB', async () => {
    const { path } = await failing();
    const post = async (body: unknown): Promise<number> =>
      (await fixture.send('POST', `${path}/test`, body)).status;
    assert.equal(await post({ event_type: 'a.b', data: { x: 'x'.repeat(262_144) } }), 413);
    const bad = [
      {},
      { event_type: 'a' },
      { event_type: 'a.b', data: [] },
      { event_type: 'a.b', x: 1 },
    ];
    for (const body of [
      ...bad,
      { event_type: 'a.b', data: null },
      '{"event_type":"a.b","data":1e400}',
    ]) {
      assert.equal(await post(body), 400, JSON.stringify(body));
    }
  });
});

describe('statistics', () => {
  test('statistics count by hour and by day', async () => {
    const { path, owned, stream } = await failing();
    const [event] = await storeFixture.publish('a.b');
    assert.ok(event);
    storeFixture.now = start + 600_000;
    await storeFixture.settle(owned, { outcomes: [delivered(event), delivered(event)] });
    storeFixture.now = start + 3_600_000;
    await storeFixture.settle(owned, { outcomes: [failed(event), delivered(event)] });
    const window = 'date_from=2026-03-01T09:10:00Z&date_to=2026-03-01T10:30:00Z';
    const { body } = await fixture.send('GET', `${path}/stats?${window}`);
    assert.deepEqual(body, {
      id: stream.id,
      name: stream.name,
      window: {
        date_from: '2026-03-01T09:00:00.000Z',
        date_to: '2026-03-01T10:00:00.000Z',
        bucket_interval: { scale_factor: 3600 },
      },
      buckets: ['2026-03-01T09:00:00.000Z', '2026-03-01T10:00:00.000Z'],
      metrics: [
        {
          name: 'leat.event_streams.successful_deliveries',
          window_total: 3,
          type: 'sum',
          data: [2, 1],
        },
        {
          name: 'leat.event_streams.failed_deliveries',
          window_total: 1,
          type: 'sum',
          data: [0, 1],
        },
      ],
    });
    const days = (await fixture.send('GET', `${path}/stats`)).body;
    assert.equal(days.buckets.length, 15);
    assert.equal(days.window.bucket_interval.scale_factor, 86_400);
    assert.deepEqual(days.metrics[0].data.at(-1), 3);
  });

  test('statistics reject an invalid window, and one of more than 366 days', async () => {
    const { path } = await failing();
    for (const query of [
      'date_from=x',
      'date_from=2026-03-02T00:00:00Z&date_to=2026-03-01T00:00:00Z',
      'date_from=0001-01-01T00:00:00Z&date_to=9999-01-01T00:00:00Z',
    ]) {
      const response = await fixture.send('GET', `${path}/stats?${query}`);
      assert.equal(response.status, 400, query);
      assert.equal(response.body.errorCode, 'invalid_query_string');
    }
    const unknown = await fixture.send('GET', '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA/stats');
    assert.equal(unknown.status, 404);
  });
});
