import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import { dayMs } from '../../src/core/units.ts';
import { delivered, failed, type Fixture, fixtureOf, retry } from '../store/contract/fixture.ts';
import { type ApiFixture, type ApiResponse, openApiFixture } from './fixture.ts';

let fixture: ApiFixture;
let storeFixture: Fixture;
/** Each test publishes events of a type of its own. */
let type = 'order.paid';
let types = 0;

before(async () => {
  fixture = await openApiFixture();
  storeFixture = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
});
after(() => fixture.close());
beforeEach(() => {
  types += 1;
  type = `order.paid${types}`;
});

type Json = Readonly<Record<string, unknown>>;

async function publish(data: Json, fields: Json = {}): Promise<string> {
  const response = await fixture.send('POST', '/events', { type, data, ...fields });
  assert.equal(response.status, 202, response.text);
  return response.body.id;
}

const get = (path: string): Promise<ApiResponse> => fixture.send('GET', path);

const list = (query: Readonly<Record<string, string>>): Promise<ApiResponse> =>
  get(`/event-log?${new URLSearchParams(query).toString()}`);

const idsIn = ({ body }: ApiResponse): string[] =>
  body.events.map(({ event }: { event: { id: string } }) => event.id);

/** Returns the ids of all pages. */
async function allIds(query: Readonly<Record<string, string>>): Promise<string[]> {
  const ids: string[] = [];
  let from: string | undefined;
  do {
    const response = await list({ ...query, ...(from === undefined ? {} : { from }) });
    assert.equal(response.status, 200, response.text);
    ids.push(...idsIn(response));
    from = response.body.next;
  } while (from !== undefined);
  return ids;
}

describe('GET /event-log', () => {
  test('newest first, with offset and time of acceptance; the data as it was published', async () => {
    const first = await publish({ object: { big: 1 } });
    const response = await fixture.send('POST', '/events', `{"type":"${type}","data":{"n":1.0e2}}`);
    const { id: second, offset } = response.body;
    const page = await list({ event_types: type });
    assert.deepEqual(idsIn(page), [second, first]);
    const [newest] = page.body.events;
    assert.equal(newest.offset, offset);
    assert.match(newest.accepted_at, /^\d{4}-.*Z$/);
    assert.ok(page.text.includes('"data":{"n":1.0e2}'), page.text);
    assert.equal(newest.event.type, type);
  });

  test('pages by take and from: every event once; scanned_to is where the page ends', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 7; n += 1) ids.unshift(await publish({ n }));
    assert.deepEqual(await allIds({ event_types: type, take: '3' }), ids);
    const page = await list({ take: '3' });
    assert.equal(page.body.scanned_to, page.body.events.at(-1).offset);
    assert.deepEqual(idsIn(page), ids.slice(0, 3));
  });

  test('date_from and date_to bound the time of acceptance', async () => {
    const early = await publish({});
    storeFixture.now += 60_000;
    const middle = await publish({});
    const at = new Date(storeFixture.now).toISOString();
    storeFixture.now += 60_000;
    const late = await publish({});
    assert.deepEqual(await allIds({ event_types: type, date_from: at }), [late, middle]);
    assert.deepEqual(await allIds({ event_types: type, date_to: at }), [early]);
    const reversed = await list({ date_from: at, date_to: '2020-01-01T00:00:00Z' });
    assert.equal(reversed.status, 400);
  });

  test('filter selects by the payload', async () => {
    await publish({ plan: 'free' });
    const pro = await publish({ plan: 'pro' });
    const team = await publish({ plan: 'team' });
    const filter = JSON.stringify({ type, 'data.plan': { $in: ['pro', 'team'] } });
    assert.deepEqual(await allIds({ filter }), [team, pro]);
    assert.deepEqual(await allIds({ filter, take: '1' }), [team, pro]);
    assert.deepEqual(await allIds({ filter, event_types: 'a.none' }), []);
  });

  test('an invalid filter, type, date or cursor is 400 and names the parameter', async () => {
    const refused: readonly (readonly [Readonly<Record<string, string>>, string])[] = [
      [{ filter: '{' }, 'filter'],
      [{ filter: '{"data.a":{"$regex":"x"}}' }, 'filter.data.a.$regex'],
      [{ filter: `{"type":"${'x'.repeat(2048)}"}` }, 'filter'],
      [{ filter: '{"data.id":1546130668394913822}' }, 'filter.data.id'],
      [
        { filter: '{"$and":[{"type":"a.b"},{"data.n":{"$in":[1,1e400]}}]}' },
        'filter.$and.1.data.n.$in.1',
      ],
      [{ filter: '{"type":"a.b","t\\u0079pe":"c.d"}' }, 'filter.type'],
      [{ filter: `{"data.n":${'['.repeat(200)}${']'.repeat(200)}}` }, 'filter'],
      [{ event_types: 'User' }, 'event_types'],
      [{ date_from: 'yesterday' }, 'date_from'],
      [{ from: 'bm8' }, 'from'],
      [{ take: '101' }, 'take'],
    ];
    for (const [query, name] of refused) {
      const { status, body } = await list(query);
      assert.equal(status, 400);
      assert.ok(body.message.includes(`on property ${name} (`), body.message);
    }
  });

  test('a second search with a filter at the same time is 429; without a filter it is not', async () => {
    const events = Array.from({ length: 1000 }, (_, n) => ({ type, data: { n } }));
    for (let round = 0; round < 3; round += 1) await fixture.send('POST', '/events', events);
    const filter = JSON.stringify({ 'data.plan': 'none' });
    const searches = Array.from({ length: 10 }, () => list({ filter }));
    const others = await Promise.all([list({}), list({ event_types: type })]);
    const responses = await Promise.all(searches);
    assert.deepEqual(
      others.map(({ status }) => status),
      [200, 200],
    );
    assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200, 429]));
    const refused = responses.find(({ status }) => status === 429);
    assert.equal(refused?.headers.get('retry-after'), '1');
    assert.equal(refused.body.errorCode, 'too_many_requests');
    assert.equal((await list({ filter })).status, 200);
  });

  test('a search with a filter reads at most 10,000 events of a request, and goes on with next', async () => {
    const rare = await publish({ plan: 'rare' });
    const events = Array.from({ length: 1000 }, (_, n) => ({ type, data: { n } }));
    for (let round = 0; round < 11; round += 1) await fixture.send('POST', '/events', events);
    const filter = JSON.stringify({ type, 'data.plan': 'rare' });
    const first = await list({ filter });
    assert.deepEqual(first.body.events, []);
    const second = await list({ filter, from: first.body.next });
    assert.deepEqual(idsIn(second), [rare]);
  });
});

describe('GET /event-log/{event_id}', () => {
  async function streamWith(options: Parameters<Fixture['addStream']>[0] = {}) {
    const stream: Stream = await storeFixture.addStream({ types: [type], ...options });
    return { stream, owned: await storeFixture.own(stream) };
  }

  test('an event with what became of it, by id and by idempotency key', async () => {
    const { stream, owned } = await streamWith({ name: `crm ${type}` });
    const id = await publish({ plan: 'pro' }, { id: 'order 17/a' });
    const event = await fixture.auth.store.eventLog.find(fixture.auth.tenant.id, id);
    assert.ok(event?.offset);
    const { publishedAt, ...sent } = event;
    await storeFixture.settle(owned, { outcomes: [retry(sent, { delayMs: 60_000 })] });
    const response = await get(`/event-log/${id}`);
    assert.equal(response.status, 200);
    const { event: envelope, deliveries, counts, accepted_at: acceptedAt } = response.body;
    assert.deepEqual(envelope.data, { plan: 'pro' });
    assert.ok(!Object.keys(envelope).some((name) => name.endsWith('stream')));
    assert.equal(acceptedAt, new Date(publishedAt ?? 0).toISOString());
    assert.deepEqual(counts, { retrying: 1 });
    const timestamp = new Date(storeFixture.now).toISOString();
    assert.deepEqual(deliveries, [
      {
        event_stream_id: stream.id,
        name: stream.name,
        state: 'retrying',
        next_attempt_at: new Date(storeFixture.now + 60_000).toISOString(),
        attempts: [
          {
            attempt: 1,
            timestamp,
            status: 'failed',
            duration: 35.25,
            http_status: 503,
            error_code: 'http_503',
            error_message: '503 - busy',
          },
        ],
      },
    ]);
    const byKey = await get(`/event-log/${encodeURIComponent('order 17/a')}`);
    assert.deepEqual(byKey.body, response.body);
  });

  test('a delivery that was passed long ago says that its attempts were removed', async () => {
    const { owned } = await streamWith();
    const id = await publish({});
    const event = await fixture.auth.store.eventLog.find(fixture.auth.tenant.id, id);
    await storeFixture.settle(owned, { cursor: event?.offset ?? 0 });
    const [item] = (await get(`/event-log/${id}`)).body.deliveries;
    assert.deepEqual([item.state, item.attempts_pruned, item.attempts], ['delivered', true, []]);
  });

  test('attempts have no numbers where earlier ones of their cycle may have been removed', async (t) => {
    const old = await openApiFixture({ attemptRetentionDays: 3 });
    t.after(() => old.close());
    const { store, tenant, clock, time } = old.auth;
    const oldStore = fixtureOf(store, tenant.id, time);
    const ended = await oldStore.addStream();
    const endedOwned = await oldStore.own(ended);
    const open = await oldStore.addStream();
    const openOwned = await oldStore.own(open);
    const [event] = await oldStore.publish('user.created');
    assert.ok(event);
    const retried = { outcomes: [retry(event), retry(event, { hasRow: true, attempt: 2 })] };
    for (const each of [endedOwned, openOwned]) await oldStore.settle(each, retried);
    clock.move(2 * dayMs);
    const third = delivered(event, { hasRow: true, attempt: 3 });
    await oldStore.settle(endedOwned, { cursor: event.offset, outcomes: [third] });
    clock.move(2 * dayMs);
    // The newest event is the present of the retention.
    await oldStore.publish('user.created');
    const step = { olderThanMs: 3 * dayMs, take: 100 };
    while ((await store.deliveries.pruneAttempts(step)) > 0);
    const headers = await old.headersWith('read:events');
    const { body } = await old.send('GET', `/event-log/${event.id}`, undefined, headers);
    const numbersOf = ({ id }: Stream) =>
      body.deliveries
        .find((each: Json) => each['event_stream_id'] === id)
        .attempts.map((each: Json) => each['attempt']);
    assert.deepEqual(numbersOf(ended), [undefined]);
    assert.deepEqual(numbersOf(open), [1, 2]);
  });

  test('at most the newest 20 attempts, with the marks of redeliveries', async () => {
    const { stream, owned } = await streamWith();
    const id = await publish({});
    const found = await fixture.auth.store.eventLog.find(fixture.auth.tenant.id, id);
    assert.ok(found?.offset);
    const event = { ...found, publishedAt: undefined };
    await storeFixture.settle(owned, { cursor: found.offset, outcomes: [failed(event)] });
    const again = { kind: 'redelivery', hasRow: true } as const;
    for (let round = 0; round < 11; round += 1) {
      await fixture.send('POST', `/event-streams/${stream.id}/redeliver/${id}`);
      const outcome = round < 10 ? failed(event, again) : delivered(event, again);
      await storeFixture.settle(owned, { outcomes: [outcome] });
    }
    const [item] = (await get(`/event-log/${id}`)).body.deliveries;
    assert.equal(item.attempts.length, 20);
    const last = item.attempts.slice(-2);
    assert.deepEqual(
      last.map((each: Json) => [each['status'], each['attempt'], each['http_status']]),
      [
        ['retrying', undefined, undefined],
        ['delivered', 1, 200],
      ],
    );
  });

  test('deliveries are paged in the order of ids; counts are those of all', async () => {
    const streams: string[] = [];
    for (let n = 0; n < 5; n += 1)
      streams.push((await storeFixture.addStream({ types: [type] })).id);
    const id = await publish({});
    const first = await get(`/event-log/${id}?take=3`);
    const second = await get(`/event-log/${id}?take=3&from=${first.body.next}`);
    const seen = [first, second].flatMap(({ body }) =>
      body.deliveries.map((each: Json) => each['event_stream_id']),
    );
    assert.deepEqual(seen, streams.toSorted());
    assert.deepEqual([first.body.counts, second.body.counts], [{ waiting: 5 }, { waiting: 5 }]);
    assert.ok(!Object.hasOwn(second.body, 'next'));
  });

  test('404 for an unknown id or key, 400 for a key that is too long', async () => {
    for (const id of ['evt_1111111111111111111111', 'no such key']) {
      const { status, body } = await get(`/event-log/${encodeURIComponent(id)}`);
      assert.deepEqual([status, body.message], [404, `The event does not exist: ${id}`]);
    }
    assert.equal((await get(`/event-log/${'x'.repeat(256)}`)).status, 400);
  });
});

describe('GET /event-streams/{id}/attempts', () => {
  test('attempts of a stream, successes included; pages; 404 for another stream', async () => {
    const stream = await storeFixture.addStream({ types: [type] });
    const owned = await storeFixture.own(stream);
    const [one, two] = await storeFixture.publish(type, type);
    assert.ok(one && two);
    await storeFixture.settle(owned, {
      cursor: two.offset,
      outcomes: [failed(one, { status: undefined, error: 'timeout: no response' }), delivered(two)],
    });
    const path = `/event-streams/${stream.id}/attempts`;
    const first = await get(`${path}?take=1`);
    const second = await get(`${path}?take=1&from=${first.body.next}`);
    const timestamp = new Date(storeFixture.now).toISOString();
    const [newest, oldest] = [first, second].map(({ body }) => body.attempts[0]);
    const same = { event_type: type, timestamp, duration: 35.25 };
    const { offset, ...shown } = newest;
    assert.equal(typeof offset, 'string');
    assert.deepEqual(shown, { event_id: two.id, ...same, status: 'delivered', http_status: 200 });
    const error = { error_code: 'timeout', error_message: 'timeout: no response' };
    assert.deepEqual(
      { ...oldest, offset: undefined },
      { event_id: one.id, offset: undefined, ...same, status: 'failed', ...error },
    );
    assert.ok(!Object.hasOwn(second.body, 'next'));
    assert.equal((await get('/event-streams/est_1111111111111111111111/attempts')).status, 404);
    assert.equal((await get(`${path}?from=bm8`)).status, 400);
  });
});
