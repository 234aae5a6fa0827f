import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import {
  addTenant,
  failed,
  type Fixture,
  fixtureOf,
  newId,
  retry,
} from '../store/contract/fixture.ts';
import { type ApiFixture, assertNeedsScope, limits, openApiFixture } from './fixture.ts';

let fixture: ApiFixture;
let store: Fixture;

before(async () => {
  fixture = await openApiFixture({ trustProxy: ['127.0.0.1'] });
  store = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
  await addStreams();
});
after(() => fixture.close());

const iso = (at: number) => new Date(at).toISOString();

async function send(path: string) {
  const headers = { 'x-forwarded-host': fixture.auth.tenant.domain };
  const response = await fixture.send('GET', path, undefined, headers);
  assert.equal(response.status, 200, response.text);
  return response.body;
}

async function change(stream: Stream, to: Partial<Stream>): Promise<void> {
  const result = await fixture.auth.store.streams.update(store.tenant, stream.id, (present) => ({
    after: { ...present, ...to },
  }));
  assert.ok('updated' in result);
}

let lastAt = 0;
let failing: Stream;

/** A stream in each state, two that are ok, and a foreign one. */
async function addStreams(): Promise<void> {
  const foreign = await addTenant(fixture.auth.store, newId('est'));
  await fixtureOf(fixture.auth.store, foreign.id, fixture.auth.time).addStream();
  failing = await store.addStream();
  const owned = await store.own(failing);
  const [one, two, three] = await store.publish('user.created', 'user.created', 'user.created');
  assert.ok(one && two && three);
  const outcomes = [
    failed(one, { status: 503, error: '503 - no' }),
    failed(two, { status: 404, error: '404 - no' }),
    retry(three, { delayMs: 600_000 }),
  ];
  const paused = await store.addStream({ types: ['user.updated'] });
  const disabled = await store.addStream({ types: ['user.updated'] });
  await change(paused, { paused: { at: 0 } });
  await change(disabled, { status: 'disabled' });
  await store.publish('user.updated');
  await fixture.auth.clock.advance(60_000);
  await store.settle(owned, { cursor: three.offset, outcomes });
  await store.addStream({ types: ['user.deleted'] });
  await store.addStream({ types: ['user.signed_up'] });
  await store.addStream({ types: ['user.signed_up'] });
  lastAt = store.now;
  await store.publish('user.deleted');
  await fixture.auth.clock.advance(300_000);
}

describe('GET /overview', () => {
  test('needs read:event_streams', async () => {
    const single = await openApiFixture();
    try {
      await assertNeedsScope(single, ['GET', '/overview', 'read:event_streams']);
    } finally {
      await single.close();
    }
  });

  test('a tenant without streams: zeros, and minutes without traffic', async () => {
    const single = await openApiFixture();
    try {
      const { body } = await single.send('GET', '/overview');
      const { last_hour: lastHour, ...rest } = body;
      assert.deepEqual(rest, {
        as_of: iso(single.auth.time.at),
        streams: { total: 0, ok: 0, failing: 0, lagging: 0, paused: 0, disabled: 0 },
        failures: { open: 0, retrying: 0 },
        oldest_undelivered_at: null,
        groups: [],
      });
      assert.ok(lastHour.length >= 60 && lastHour.length <= 61, String(lastHour.length));
      const { at, ...counts } = lastHour.at(-1);
      assert.deepEqual(counts, { published: 0, delivered: 0, failed: 0 });
      assert.equal(Date.parse(at) % 60_000, 0);
    } finally {
      await single.close();
    }
  });

  test('pages of health are not made any more once the API closes', async (t) => {
    const single = await openApiFixture({
      limits: { ...limits, pagesMs: 2000, watchedMs: 60_000 },
    });
    const { auth } = single;
    try {
      for (const path of ['/overview', '/stream-health']) {
        assert.equal((await single.send('GET', path)).status, 200);
      }
      const read = t.mock.method(auth.store.streams, 'states');
      await auth.clock.advance(3500);
      assert.ok(read.mock.callCount() > 0, 'they are made again while it is open');
      await single.app.close();
      read.mock.resetCalls();
      await auth.clock.advance(10_000);
      assert.equal(read.mock.callCount(), 0);
    } finally {
      await single.close();
    }
  });

  test('states and pages are read ahead of requests for a minute after the last one, and no longer', async (t) => {
    const single = await openApiFixture({
      limits: { ...limits, pagesMs: 2000, watchedMs: 60_000 },
    });
    const { auth } = single;
    const read = t.mock.method(auth.store.streams, 'states');
    /** Returns how often they were read in seconds that pass. */
    const readsIn = async (seconds: number) => {
      read.mock.resetCalls();
      for (let n = 0; n < seconds; n += 1) await auth.clock.advance(1000);
      return read.mock.callCount();
    };
    try {
      for (const path of ['/overview', '/stream-health']) {
        assert.equal((await single.send('GET', path)).status, 200);
      }
      await readsIn(50);
      assert.ok((await readsIn(10)) > 0);
      assert.equal(await readsIn(70), 0);
    } finally {
      await single.close();
    }
  });

  test('streams by state, failures, what waits the longest, and the largest groups', async () => {
    const body = await send('/overview');
    assert.deepEqual(body.streams, {
      total: 6,
      ok: 2,
      failing: 1,
      lagging: 1,
      paused: 1,
      disabled: 1,
    });
    assert.deepEqual(body.failures, { open: 2, retrying: 1 });
    assert.equal(body.oldest_undelivered_at, iso(lastAt));
    assert.deepEqual(body.groups, (await send('/delivery-groups')).groups);
    assert.equal(body.groups.length, 2);
    for (const state of ['ok', 'failing', 'lagging', 'paused', 'disabled']) {
      assert.equal((await send(`/stream-health?statuses=${state}`)).total, body.streams[state]);
    }
  });

  test('last_hour has the counts of minutes, and no older ones', async () => {
    const { auth } = fixture;
    const minute = Math.floor(store.now / 60_000) * 60_000;
    const counts = { published: 7, delivered: 5, failed: 1, retried: 2 };
    const none = { latency: '', duration: '' };
    const about = { tenant: store.tenant, stream: undefined };
    await auth.store.deliveryStats.record('node-a', [
      { ...about, at: minute - 60_000, ...counts, ...none },
      { ...about, at: minute - 7_200_000, ...counts, ...none },
    ]);
    await auth.clock.advance(5000);
    const { last_hour: lastHour } = await send('/overview');
    const busy = lastHour.filter((each: { published: number }) => each.published > 0);
    assert.deepEqual(busy, [{ at: iso(minute - 60_000), published: 7, delivered: 5, failed: 1 }]);
  });

  test('it is at most 5 s old, and counts streams as they are', async () => {
    await fixture.auth.clock.advance(5000);
    const first = await send('/overview');
    assert.equal(first.as_of, iso(store.now));
    await fixture.auth.clock.advance(1999);
    assert.deepEqual(await send('/overview'), first);
    await fixture.auth.clock.advance(3001);
    const stream = await store.addStream({ types: ['user.signed_up'] });
    const second = await send('/overview');
    assert.deepEqual([second.as_of, second.streams.total], [iso(store.now), 7]);
    await fixture.auth.store.streams.delete(store.tenant, stream.id);
    for (let ms = 100; ms < 5000; ms += 370) {
      await fixture.auth.clock.advance(ms);
      const { as_of: at, streams } = await send('/overview');
      const ageMs = store.now - Date.parse(at);
      assert.ok(ageMs <= 5000, `${ageMs} ms`);
      assert.equal(streams.total, 6);
    }
    await fixture.auth.clock.advance(5000);
  });
});
