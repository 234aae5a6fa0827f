import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { formatCursor } from '../../src/core/page.ts';
import type { Stream } from '../../src/core/types.ts';
import type { OverviewShown } from '../../src/schemas/overview.ts';
import {
  addTenant,
  failed,
  type Fixture,
  fixtureOf,
  newId,
  newStream,
  waitRule,
} from '../store/contract/fixture.ts';
import { type ApiFixture, assertNeedsScope, cursorPages, openApiFixture } from './fixture.ts';

let fixture: ApiFixture;
let store: Fixture;

before(async () => {
  fixture = await openApiFixture();
  store = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
  await addStreams();
});
after(() => fixture.close());

const get = (query = '') => fixture.send('GET', `/stream-health${query}`);
const namesOf = (body: { streams: { name: string }[] }) => body.streams.map(({ name }) => name);
/** Passes the time for which states are kept. */
const pass = (ms = 5000) => fixture.auth.clock.advance(ms);

async function change(stream: Stream, to: Partial<Stream>): Promise<void> {
  const result = await fixture.auth.store.streams.update(store.tenant, stream.id, (present) => ({
    after: { ...present, ...to },
  }));
  assert.ok('updated' in result);
}

function add(name: string, host: string, types = ['user.created']): Promise<Stream> {
  const { destination } = newStream(store.tenant, store.now);
  const endpoint = `https://${host}/a?b=c`;
  return store.addStream({ name, types, destination: { ...destination, endpoint } });
}

/** Fails events of a stream, the last one after so many seconds. */
async function fail(stream: Stream, count: number, seconds: number): Promise<void> {
  const refs = [{ tenant: store.tenant, stream: stream.id }];
  const [known] = await fixture.auth.store.ownership.owned(await store.node(), refs, waitRule);
  const owned = known ?? (await store.own(stream));
  const events = await store.publish(...Array<string>(count).fill('user.created'));
  const outcomes = events.map((event) => failed(event));
  await pass(seconds * 1000);
  await store.settle(owned, { cursor: events.at(-1)?.offset ?? 0, outcomes });
}

async function remove(...streams: readonly Stream[]): Promise<void> {
  for (const { id } of streams) await fixture.auth.store.streams.delete(store.tenant, id);
  await pass();
}

/** Streams in each state; the names say what is expected. */
async function addStreams(): Promise<void> {
  const [one, two] = [await add('failing 2', 'two.example'), await add('failing 1', 'one.example')];
  await fail(one, 2, 1);
  await fail(two, 1, 1);
  await add('ok "quoted" 100%', 'hooks.example.net:8443', ['user.deleted']);
  await add('OK_2', 'under_score.example', ['user.deleted']);
  const paused = await add('paused', 'three.example');
  await change(paused, { paused: { at: 0, reason: 'upgrade' } });
  await store.publish('user.created');
  await pass(1000);
  await add('lagging ö', 'four.example');
  const disabled = await add('disabled', 'five.example');
  await change(disabled, { status: 'disabled' });
  await store.publish('user.created');
  await pass(300_000);
}

describe('GET /stream-health: requests that are rejected', () => {
  test('an invalid sort, status, text, page or cursor is 400 and names it', async () => {
    for (const [name, value] of [
      ['sort', 'lag'],
      ['sort', '-name'],
      ['sort', '__proto__'],
      ['sort', ''],
      ['statuses', 'enabled'],
      ['statuses', 'ok,,failing'],
      ['statuses', 'OK'],
      ['statuses', ''],
      ['q', ''],
      ['q', 'a%00b'],
      ['q', '%1b[31m'],
      ['q', '%C2%85'],
      ['q', 'x'.repeat(257)],
      ['take', '0'],
      ['take', '101'],
      ['from', 'bm8'],
      ['from', '%00'],
    ] as const) {
      const { status, body } = await get(`?${name}=${value}`);
      assert.equal(status, 400, `${name}=${value}`);
      assert.ok(body.message.includes(name), body.message);
    }
  });

  test('the cursor of another order or list, or with a value that is none, is 400', async () => {
    const { next } = (await get('?take=1&sort=-open_failures')).body;
    assert.equal((await get(`?take=1&sort=-open_failures&from=${next}`)).status, 200);
    const id = newId('est');
    for (const query of [
      `from=${next}`,
      `sort=-lag&from=${next}`,
      `sort=-lag&from=${formatCursor(`-lag ${id} 1e9`)}`,
      `sort=-lag&from=${formatCursor(`-lag ${id} 01`)}`,
      `sort=-lag&from=${formatCursor(`-lag ${id} ${'9'.repeat(40)}`)}`,
      `sort=-lag&from=${formatCursor(`-lag ${id}`)}`,
      `from=${formatCursor(`name  x`)}`,
      `from=${formatCursor(`1.${id}.http_503`)}`,
    ]) {
      const { status, body } = await get(`?${query}`);
      assert.equal(status, 400, query);
      assert.ok(body.message.includes('on property from ('), body.message);
    }
  });

  test('needs read:event_streams', () =>
    assertNeedsScope(fixture, ['GET', '/stream-health', 'read:event_streams']));
});

describe('GET /stream-health', () => {
  test('by name: every stream once, with total and time, without secrets', async () => {
    const { status, body, text } = await get();
    assert.equal(status, 200);
    const names = [
      'OK_2',
      'disabled',
      'failing 1',
      'failing 2',
      'lagging ö',
      'ok "quoted" 100%',
      'paused',
    ];
    assert.deepEqual(namesOf(body), names);
    assert.deepEqual([body.total, body.next], [7, undefined]);
    assert.equal(body.as_of, new Date(store.now).toISOString());
    assert.doesNotMatch(text, /kept-secret|whsec_/);
    for (const { state, name } of body.streams) assert.ok(name.toLowerCase().startsWith(state));
  });

  test('each has the same health as alone', async () => {
    for (const stream of (await get('?take=100')).body.streams) {
      const alone = await fixture.send('GET', `/event-streams/${stream.event_stream_id}/health`);
      assert.deepEqual(stream, alone.body);
    }
  });

  test('statuses: those with one of the states, and their total', async () => {
    for (const [statuses, names] of [
      ['failing', ['failing 1', 'failing 2']],
      ['lagging,paused', ['lagging ö', 'paused']],
      ['disabled,disabled', ['disabled']],
      ['disabled,paused,failing,lagging', undefined],
    ] as const) {
      const { body } = await get(`?statuses=${statuses}`);
      if (names === undefined) assert.equal(body.total, 5);
      else assert.deepEqual([namesOf(body), body.total], [names, names.length]);
    }
  });

  test('q: a part of the name or of the host in any case; % and _ are characters', async () => {
    for (const [q, names] of [
      ['FAILING', ['failing 1', 'failing 2']],
      ['Ö', ['lagging ö']],
      ['%', ['ok "quoted" 100%']],
      ['_', ['OK_2']],
      ['_2', ['OK_2']],
      ['8443', ['ok "quoted" 100%']],
      ['ONE.EXAMPLE', ['failing 1']],
      ['/a?b', []],
      ['kept-secret', []],
      ["'; drop table streams; --", []],
      ['"quoted"', ['ok "quoted" 100%']],
    ] as const) {
      const { status, body } = await get(`?q=${encodeURIComponent(q)}`);
      assert.equal(status, 200, q);
      assert.deepEqual([namesOf(body), body.total], [names, names.length], q);
    }
    const { body } = await get('?q=example&statuses=failing,ok&sort=-open_failures');
    assert.deepEqual(namesOf(body).slice(0, 2), ['failing 2', 'failing 1']);
  });

  test('q: any part of a name, also where the case of a letter depends on the next one', async () => {
    const names = ['ΟΔΟΣ', 'ΟΔΟΣΑ', 'İzmir', 'Straße ẞ', 'e\u0301', '😀'.repeat(128)];
    const streams: Stream[] = [];
    for (const name of names) streams.push(await add(name, 'eight.example', ['user.deleted']));
    await pass();
    for (const [q, found] of [
      ['ΟΔΟΣ', ['ΟΔΟΣ', 'ΟΔΟΣΑ']],
      ['οδος', ['ΟΔΟΣ', 'ΟΔΟΣΑ']],
      ['οσα', ['ΟΔΟΣΑ']],
      ['İZ', ['İzmir']],
      ['ẞE ß', ['Straße ẞ']],
      ['\u0301', ['e\u0301']],
      ['😀😀', ['😀'.repeat(128)]],
    ] as const) {
      assert.deepEqual(namesOf((await get(`?q=${encodeURIComponent(q)}`)).body), found, q);
    }
    for (const sort of ['name', '-open_failures', '-lag', '-last_failed_at']) {
      const seen: string[] = [];
      const path = `/stream-health?sort=${sort}&take=1&q=eight.example`;
      for await (const { body } of cursorPages(fixture, path)) seen.push(...namesOf(body));
      assert.deepEqual(seen.toSorted(), names.toSorted(), sort);
    }
    await remove(...streams);
  });

  test('the stream of a cursor may be deleted: the page goes on after its place', async () => {
    const streams: Stream[] = [];
    for (const name of ['gone 1', 'gone 2', 'gone 3']) {
      streams.push(await add(name, 'nine.example', ['user.deleted']));
    }
    const [first, ...others] = streams;
    assert.ok(first);
    await pass();
    const orders = ['name', '-open_failures', '-lag', '-last_failed_at'];
    const nexts: [string, string][] = [];
    for (const sort of orders) {
      const { body } = await get(`?sort=${sort}&take=1&q=gone`);
      assert.deepEqual(namesOf(body), ['gone 1'], sort);
      nexts.push([sort, body.next]);
    }
    await remove(first);
    for (const [sort, next] of nexts) {
      const { body } = await get(`?sort=${sort}&take=2&q=gone&from=${next}`);
      assert.deepEqual(namesOf(body), ['gone 2', 'gone 3'], sort);
    }
    await remove(...others);
  });

  test('each order: the largest value first', async () => {
    const first = async (sort: string) => namesOf((await get(`?sort=${sort}`)).body).slice(0, 3);
    assert.deepEqual((await first('-open_failures')).slice(0, 2), ['failing 2', 'failing 1']);
    assert.deepEqual((await first('-last_failed_at')).slice(0, 2), ['failing 1', 'failing 2']);
    const { streams } = (await get('?sort=-lag')).body;
    const seconds: number[] = streams.map((each: { lag: { seconds: number } }) => each.lag.seconds);
    assert.deepEqual(
      seconds,
      seconds.toSorted((one, other) => other - one),
    );
    assert.ok((seconds[0] ?? 0) > 300, String(seconds));
  });

  test('pages of each order have every stream once, also among equal values', async () => {
    for (const sort of ['name', '-open_failures', '-lag', '-last_failed_at']) {
      const whole = (await get(`?sort=${sort}`)).body;
      const seen: string[] = [];
      for await (const { body } of cursorPages(fixture, `/stream-health?sort=${sort}&take=2`)) {
        assert.equal(body.total, whole.total);
        seen.push(...namesOf(body));
        // The next page is of states that are read again.
        await pass();
      }
      assert.deepEqual(seen, namesOf(whole), sort);
    }
  });

  test('by name: a change of values between pages neither repeats nor hides a stream', async () => {
    const streams: Stream[] = [];
    for (const name of ['page 5', 'page 3', 'page 1', 'page 4', 'page 2']) {
      streams.push(await add(name, 'seven.example'));
    }
    await pass();
    const seen: string[] = [];
    for await (const { body } of cursorPages(fixture, '/stream-health?q=page&take=2')) {
      seen.push(...namesOf(body));
      for (const stream of streams.slice(0, 3)) await fail(stream, 1, 1);
      await pass();
    }
    assert.deepEqual(seen, ['page 1', 'page 2', 'page 3', 'page 4', 'page 5']);
    await remove(...streams);
  });

  test('streams of another tenant are neither listed nor counted', async (t) => {
    const trusting = await openApiFixture({ trustProxy: ['127.0.0.1'] });
    t.after(() => trusting.close());
    const { auth } = trusting;
    const tenant = await addTenant(auth.store, newId('est'));
    const own = await fixtureOf(auth.store, auth.tenant.id, auth.time).addStream();
    await fixtureOf(auth.store, tenant.id, auth.time).addStream({ name: 'foreign' });
    // By now the new tenant is known.
    await auth.clock.advance(10_000);
    const headers = { 'x-forwarded-host': auth.tenant.domain };
    await trusting.send('GET', '/stream-health', undefined, headers);
    const list = async (query: string) => {
      const { body } = await trusting.send('GET', `/stream-health${query}`, undefined, headers);
      return [namesOf(body), body.total];
    };
    assert.deepEqual(await list(''), [[own.name], 1]);
    assert.deepEqual(await list('?q=foreign'), [[], 0]);
    assert.deepEqual(await list('?sort=-lag'), [[own.name], 1]);
  });

  test('a page is at most 5 s old, and a later one is without streams of a state that is over', async () => {
    const stream = await add('fresh', 'six.example');
    await pass();
    assert.equal((await get('?q=fresh&statuses=ok')).body.total, 1);
    await fail(stream, 1, 1);
    await pass(400);
    const kept = (await get('?q=fresh&statuses=ok')).body;
    assert.deepEqual([kept.total, kept.streams[0].state], [1, 'ok']);
    const other = (await get('?q=fresh&statuses=ok&take=1')).body;
    assert.deepEqual([other.total, other.streams], [1, []]);
    await pass(3600);
    assert.equal((await get('?q=fresh')).body.streams[0].state, 'failing');
    assert.equal((await get('?q=fresh&statuses=ok')).body.total, 0);
    await remove(stream);
    assert.equal((await get('?q=fresh')).body.total, 0);
  });

  test('q finds a stream by its new host after a change', async () => {
    const stream = await add('moving', 'before.example');
    await pass();
    assert.deepEqual(namesOf((await get('?q=before.example')).body), ['moving']);
    const endpoint = 'https://after.example/';
    await change(stream, { destination: { ...stream.destination, endpoint } });
    assert.deepEqual(namesOf((await get('?q=before.example')).body), []);
    assert.deepEqual(namesOf((await get('?q=after.example')).body), ['moving']);
    await remove(stream);
  });
});

describe('GET /stream-health and /overview after a change', () => {
  test('a stream that is created, changed or deleted is so in the next list', async () => {
    const read = async () => {
      const listed = await get('?q=at-once');
      const overview = await fixture.send('GET', '/overview');
      const { streams } = listed.body as { streams: { name: string; state: string }[] };
      const { total, paused } = (overview.body as OverviewShown).streams;
      return { total, paused, streams: streams.map(({ name, state }) => [name, state]) };
    };
    const { total, paused, streams } = await read();
    assert.deepEqual(streams, []);
    const made = await add('at-once', 'six.example');
    const created = await read();
    assert.deepEqual(created, { total: total + 1, paused, streams: [['at-once', 'ok']] });
    await change(made, { name: 'at-once 2', paused: { at: 0, reason: undefined } });
    const changed = { total: total + 1, paused: paused + 1, streams: [['at-once 2', 'paused']] };
    assert.deepEqual(await read(), changed);
    await fixture.auth.store.streams.delete(store.tenant, made.id);
    assert.deepEqual(await read(), { total, paused, streams: [] });
  });
});
