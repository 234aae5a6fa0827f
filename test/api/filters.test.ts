import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { openApiFixture, type ApiFixture, type ApiResponse } from './fixture.ts';

let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture({ maxStreams: 2000 });
});
after(() => fixture.close());

type Json = Readonly<Record<string, unknown>>;

const body = (fields: Json = {}): Json => ({
  destination: {
    type: 'webhook',
    configuration: {
      webhook_endpoint: 'https://hooks.example.net/leat',
      webhook_authorization: { method: 'bearer', token: 'kept' },
    },
  },
  subscriptions: [{ event_type: 'order.paid' }],
  ...fields,
});

async function create(fields: Json = {}): Promise<ApiResponse['body']> {
  const response = await fixture.send('POST', '/event-streams', body(fields));
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const patch = (id: string, change: Json): Promise<ApiResponse> =>
  fixture.send('PATCH', `/event-streams/${id}`, change);

const tried = (id: string, sent: unknown): Promise<ApiResponse> =>
  fixture.send('POST', `/event-streams/${id}/filter/test`, sent);

const filter = { 'data.object.plan': { $in: ['pro', 'team'] } };

describe('the filter of an event stream', () => {
  test('a filter is shown as it was sent, with or without other options', async () => {
    const { id, delivery } = await create({ delivery: { filter } });
    assert.deepEqual(delivery, { filter });
    const options = { filter: { $or: [filter, { type: 'a.b' }] }, concurrency: 2 };
    assert.deepEqual((await patch(id, { delivery: options })).body.delivery, options);
    assert.deepEqual((await fixture.send('GET', `/event-streams/${id}`)).body.delivery, options);
    const list = await fixture.send('GET', '/event-streams?take=100');
    const found = list.body.eventStreams.find((each: { id: string }) => each.id === id);
    assert.deepEqual(found.delivery, options);
  });

  test('an update without delivery keeps the filter; options without a filter remove it', async () => {
    const made = await create({ delivery: { filter } });
    const types = { subscriptions: [{ event_type: 'a.b' }] };
    assert.deepEqual((await patch(made.id, types)).body.delivery, { filter });
    assert.deepEqual((await patch(made.id, { delivery: { concurrency: 1 } })).body.delivery, {
      concurrency: 1,
    });
    await patch(made.id, { delivery: { filter } });
    assert.ok(!Object.hasOwn((await patch(made.id, { delivery: null })).body, 'delivery'));
  });

  test('the same filter again changes nothing', async () => {
    const made = await create({ delivery: { filter } });
    fixture.auth.clock.move(1000);
    assert.deepEqual((await patch(made.id, { delivery: { filter } })).body, made);
  });

  test('a condition that is no filter is 400 with its path', async () => {
    const { id } = await create();
    const unknown = { delivery: { filter: { $or: [{ a: 1 }, { b: { $regex: 'x' } }] } } };
    for (const response of [
      await fixture.send('POST', '/event-streams', body(unknown)),
      await patch(id, unknown),
      await tried(id, unknown.delivery),
    ]) {
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.errorCode, 'invalid_body');
      assert.match(
        response.body.message,
        /'Unknown operator: .*' on property .*\$or\.1\.b\.\$regex \(/,
      );
    }
    for (const path of ['#/data/x', 'data/x']) {
      const { status, body: problem } = await patch(id, { delivery: { filter: { [path]: 1 } } });
      assert.equal(status, 400, path);
      assert.match(
        problem.message,
        /'No field of an event: begin with .* on property delivery\.filter\./,
      );
    }
    for (const wrong of ['{}', [], 5, null]) {
      const response = await patch(id, { delivery: { filter: wrong } });
      assert.equal(response.status, 400, JSON.stringify(wrong));
    }
    const large = await patch(id, {
      delivery: { filter: { a: { $in: Array.from({ length: 200_000 }, () => 1) } } },
    });
    assert.match(
      large.body.message,
      /More than 16384 bytes as JSON' on property delivery\.filter /,
    );
  });

  test('a number that would be rounded is 400, in a filter and in its test', async () => {
    const { id } = await create();
    for (const number of ['1546130668394913822', '1e400', '0.12345678901234567890']) {
      const condition = `{"filter":{"data.n":${number}}}`;
      const path = `/event-streams/${id}`;
      const set = await fixture.send('PATCH', path, `{"delivery":${condition}}`);
      assert.equal(set.status, 400, set.text);
      assert.match(set.body.message, /would be rounded.* on property delivery\.filter\.data\.n /);
      assert.equal((await tried(id, condition)).status, 400);
    }
  });

  test('a tenant has at most 1,000 streams with a filter', { tags: ['long'] }, async () => {
    const own = await openApiFixture({ maxStreams: 2000 });
    try {
      const send = (sent: Json): Promise<ApiResponse> =>
        own.send('POST', '/event-streams', body(sent));
      const plain = (await send({})).body;
      const ids: string[] = [];
      for (let count = 0; count < 1000; count += 1) {
        ids.push((await send({ delivery: { filter } })).body.id);
      }
      const code = async (response: Promise<ApiResponse>) => (await response).body.errorCode;
      assert.equal(await code(send({ delivery: { filter } })), 'too_many_filters');
      const patchOwn = (id: string | undefined, change: Json): Promise<ApiResponse> =>
        own.send('PATCH', `/event-streams/${id}`, change);
      assert.equal(await code(patchOwn(plain.id, { delivery: { filter } })), 'too_many_filters');
      assert.equal((await patchOwn(ids[0], { delivery: { filter: { a: 1 } } })).status, 200);
      assert.equal((await patchOwn(ids[0], { delivery: null })).status, 200);
      assert.equal((await patchOwn(plain.id, { delivery: { filter } })).status, 200);
    } finally {
      await own.close();
    }
  });
});

describe('a test of a filter', () => {
  const envelope = (n: number): Json => ({ type: 'order.paid', data: { object: { n } } });

  test('events that are sent are filtered, and the first ones that match are returned', async () => {
    const { id } = await create();
    const events = Array.from({ length: 50 }, (_, n) => envelope(n));
    const sent = { filter: { 'data.object.n': { $gte: 30 } }, events };
    const response = await tried(id, sent);
    assert.equal(response.status, 200, response.text);
    assert.deepEqual(response.body, { read: 50, matched: 20, sample: events.slice(30, 40) });
  });

  test('the newest events of the types of the stream are filtered, newest first', async () => {
    const { id } = await create({ subscriptions: [{ event_type: 'order.tried' }] });
    const events = Array.from({ length: 900 }, (_, n) => ({
      type: n % 3 === 0 ? 'order.other' : 'order.tried',
      data: { object: { n } },
    }));
    assert.equal((await fixture.send('POST', '/events', events)).status, 202);
    const { body: result } = await tried(id, { filter: { 'data.object.n': { $lt: 20 } } });
    assert.deepEqual([result.read, result.matched], [600, 13]);
    assert.deepEqual(
      result.sample.map((event: { data: { object: { n: number } } }) => event.data.object.n),
      [19, 17, 16, 14, 13, 11, 10, 8, 7, 5],
    );
    assert.equal(result.sample[0].svcstream, undefined);
    const none = await tried(id, { filter: { 'data.object.n': 'none' } });
    assert.deepEqual(none.body, { read: 600, matched: 0, sample: [] });
  });

  test('no more than some thousand events are filtered', async () => {
    const { id } = await create({ subscriptions: [{ event_type: 'order.many' }] });
    const events = Array.from({ length: 1000 }, (_, n) => ({ type: 'order.many', data: { n } }));
    for (let count = 0; count < 2; count += 1) await fixture.send('POST', '/events', events);
    const { body: result } = await tried(id, { filter: {} });
    assert.deepEqual([result.read, result.matched, result.sample.length], [1000, 1000, 10]);
    assert.equal(result.sample[0].data.n, 999);
  });

  test('a stream without types has no events to filter', async () => {
    const { id } = await create({ subscriptions: undefined });
    assert.deepEqual((await tried(id, { filter: {} })).body, { read: 0, matched: 0, sample: [] });
  });

  test('numbers of events that are sent come back as they were', async () => {
    const { id } = await create();
    const event = '{"type":"order.paid","data":{"id":1546130668394913822,"price":1.10}}';
    const sent = `{"filter":{"data.price":1.1},"events":[${event}]}`;
    const response = await tried(id, sent);
    assert.equal(response.text, `{"read":1,"matched":1,"sample":[${event}]}`);
  });

  test('an unknown stream is 404, a wrong body 400', async () => {
    const unknown = await tried('est_AAAAAAAAAAAAAAAAAAAAAA', { filter: {} });
    assert.equal(unknown.status, 404);
    const { id } = await create();
    const events = Array.from({ length: 101 }, () => ({}));
    for (const wrong of [
      {},
      { filter: {}, events },
      { filter: {}, events: [] },
      { filter, a: 1 },
    ]) {
      assert.equal((await tried(id, wrong)).status, 400, JSON.stringify(wrong).slice(0, 50));
    }
  });

  test('a test of much work lets other requests be served, and ends', async () => {
    const { id } = await create();
    const row = (last: number): number[] => [...Array.from({ length: 40 }, () => 1), last];
    const parts = Array.from({ length: 60 }, (_, n) => ({ rows: row(n + 10) }));
    const events = Array.from({ length: 8 }, () => ({
      rows: Array.from({ length: 1000 }, () => row(2)),
    }));
    const state = { isOver: false };
    const trial = tried(id, { filter: { $or: parts }, events }).finally(() => {
      state.isOver = true;
    });
    let served = 0;
    while (!state.isOver) {
      assert.equal((await fixture.send('GET', `/event-streams/${id}`)).status, 200);
      served += 1;
    }
    assert.deepEqual((await trial).body, { read: 8, matched: 0, sample: [] });
    assert.ok(served > 20, `${served} requests were served meanwhile`);
  });
});
