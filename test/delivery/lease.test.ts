import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Store } from '../../src/store/port/store.ts';
import { waitRule } from '../store/contract/fixture.ts';
import { createDeliveryFixture, settings, type DeliveryFixture } from './fixture.ts';

interface Heartbeats {
  arrive: boolean;
  /** They wait for this on their way. */
  way: Promise<void>;
}

/** A dispatcher whose heartbeats, and only those, can be blocked. */
async function createLeaseFixture(
  t: TestContext,
): Promise<{ fixture: DeliveryFixture; heartbeats: Heartbeats }> {
  const heartbeats: Heartbeats = { arrive: true, way: Promise.resolve() };
  const through = (store: Store): Store => ({
    ...store,
    ownership: {
      ...store.ownership,
      heartbeat: async (...args) => {
        await heartbeats.way;
        return heartbeats.arrive ? store.ownership.heartbeat(...args) : fixture.unavailable();
      },
    },
  });
  const fixture = await createDeliveryFixture(t, { through });
  return { fixture, heartbeats };
}

/** Claims all free streams for another node. */
async function takeAll(fixture: DeliveryFixture, take = 10) {
  const { store } = fixture;
  const node = await store.ownership.join('other', settings.leaseMs);
  return store.ownership.claim(node, { claim: 1, take, ...waitRule });
}

describe('the lease of a node', () => {
  test('the lease is renewed while the node runs', async (t) => {
    const { fixture } = await createLeaseFixture(t);
    await fixture.addStream();
    await fixture.start();
    await fixture.clock.advance(10 * settings.leaseMs);
    assert.deepEqual(await takeAll(fixture), []);
    assert.equal((await fixture.publishMany(3)).length, 3);
    assert.equal(fixture.sent().length, 3);
  });

  test('a heartbeat under way does not renew the lease of a node that has left', async (t) => {
    const { fixture, heartbeats } = await createLeaseFixture(t);
    await fixture.addStream();
    await fixture.start();
    const { promise, resolve } = Promise.withResolvers<void>();
    heartbeats.way = promise;
    await fixture.clock.advance(settings.heartbeatMs);
    const stopped = fixture.stop();
    await fixture.clock.advance(1);
    resolve();
    await stopped;
    await fixture.clock.advance(1);
    assert.equal((await takeAll(fixture)).length, 1);
    const living = (await fixture.store.ownership.nodes()).map(({ id }) => id);
    assert.deepEqual(living, ['other']);
  });

  test('heartbeats that fail do not delay a stop, and none is sent after it', async (t) => {
    const { fixture, heartbeats } = await createLeaseFixture(t);
    await fixture.addStream();
    await fixture.start();
    heartbeats.arrive = false;
    await fixture.clock.advance(settings.heartbeatMs + 100);
    let isStopped = false;
    void fixture.stop().then(() => (isStopped = true));
    await fixture.clock.advance(1);
    assert.ok(isStopped);
    heartbeats.arrive = true;
    await fixture.clock.advance(10_000);
    assert.equal((await takeAll(fixture)).length, 1);
    const living = (await fixture.store.ownership.nodes()).map(({ id }) => id);
    assert.deepEqual(living, ['other']);
  });

  test('the lease ends for the node before it ends for others', async (t) => {
    const { fixture, heartbeats } = await createLeaseFixture(t);
    await fixture.addStream();
    await fixture.start();
    heartbeats.arrive = false;
    await fixture.clock.advance(settings.leaseStopMs - 1);
    await fixture.publishMany(1);
    assert.equal(fixture.sent().length, 1);
    await fixture.clock.advance(1);
    await fixture.publishMany(1);
    assert.equal(fixture.sent().length, 1, 'the node begins nothing any more');
    assert.deepEqual(await takeAll(fixture), [], 'and nobody else may begin yet');
  });

  test('a node that regains its lease continues with streams that no other node took', async (t) => {
    const { fixture, heartbeats } = await createLeaseFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    heartbeats.arrive = false;
    await fixture.clock.advance(2 * settings.leaseMs);
    const [id] = await fixture.publishMany(1);
    assert.deepEqual(fixture.sent(), []);
    heartbeats.arrive = true;
    await fixture.clock.advance(3000);
    assert.deepEqual(fixture.sent(), [id]);
    assert.equal(await fixture.cursor(stream), 1);
    assert.equal(fixture.reported('stream_owned').length, 1);
  });

  test('a node whose lease ended leaves the streams that another node has taken', async (t) => {
    const { fixture, heartbeats } = await createLeaseFixture(t);
    await fixture.addStream();
    await fixture.start();
    heartbeats.arrive = false;
    await fixture.clock.advance(settings.leaseMs);
    assert.equal((await takeAll(fixture)).length, 1);
    heartbeats.arrive = true;
    await fixture.publishMany(2);
    await fixture.clock.advance(3000);
    assert.deepEqual(fixture.sent(), []);
    assert.equal(fixture.reported('stream_lost').length, 1);
  });
});

describe('a node that was suspended for longer than its lease', () => {
  test('a suspended node learns from its next heartbeat that its lease ended, and leaves the streams that were taken', async (t) => {
    const { fixture } = await createLeaseFixture(t);
    await fixture.addStream();
    await fixture.start();
    await fixture.clock.advance(1);
    // The lease has ended for the store, while the node's own clock shows it as held.
    await fixture.store.ownership.heartbeat({ id: 'leat', incarnation: 1 }, 0);
    assert.equal((await takeAll(fixture)).length, 1);
    await fixture.clock.advance(settings.heartbeatMs);
    assert.equal(fixture.reported('stream_lost').length, 1);
    await fixture.publishMany(2);
    assert.deepEqual(fixture.sent(), []);
  });
});

describe('a node whose name another process has taken', () => {
  test('a node whose name another process has taken reports that once and sends nothing more', async (t) => {
    const { fixture } = await createLeaseFixture(t);
    await fixture.addStream();
    await fixture.start();
    await fixture.store.ownership.join('leat', settings.leaseMs);
    await fixture.clock.advance(settings.heartbeatMs);
    assert.equal(fixture.dispatcher.state().holdsLease, false);
    await fixture.publishMany(1);
    await fixture.clock.advance(settings.leaseMs);
    assert.deepEqual(fixture.sent(), []);
    const texts = fixture.reported('unexpected').map(({ error }) => String(error));
    assert.equal(texts.length, 1);
    assert.match(texts[0] ?? '', /Another process has joined as "leat".*names of their own/);
  });
});

describe('the share of a node', () => {
  test('surplus streams are released when another node joins, without cutting an attempt off', async (t) => {
    const { fixture } = await createLeaseFixture(t);
    const streams = [];
    for (let count = 0; count < 4; count += 1) streams.push(await fixture.addStream());
    await fixture.start();
    const hanging = await fixture.publishHanging('user.created');
    assert.equal(hanging.length, 4);
    const other = await fixture.store.ownership.join('other', settings.leaseMs);
    await fixture.clock.advance(2 * settings.heartbeatMs);
    const ask = { take: 10, claim: 1, ...waitRule };
    assert.deepEqual(await fixture.store.ownership.claim(other, ask), []);
    for (const post of hanging)
      post.end({ kind: 'response', status: 204, text: '', retryAfter: undefined });
    await fixture.clock.advance(settings.settleMs);
    const taken = await fixture.store.ownership.claim(other, { ...ask, claim: 2 });
    assert.equal(taken.length, 2);
    assert.deepEqual(
      taken.map(({ cursor }) => cursor),
      [1, 1],
    );
    assert.equal(fixture.dispatcher.state().streams, 2);
    assert.ok(hanging.every(({ cancelled }) => !cancelled));
  });
});

describe('a change whose hint is late', () => {
  /** Drops the hints of changed streams. */
  const deaf = (store: Store): Store => ({
    ...store,
    watch: (listener) => store.watch((hint) => hint.kind === 'stream' || listener(hint)),
  });

  test('a late change of subscriptions: the events after it are filtered again, and none is left out', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      through: deaf,
      settings: { pollMs: 1_000_000 },
    });
    const stream = await fixture.addStream({ types: ['a.made'] });
    await fixture.start();
    const [before] = await fixture.publish('a.made');
    await fixture.update(stream, { types: ['b.made'] });
    const [unwanted, wanted] = await fixture.publish('a.made', 'b.made');
    assert.deepEqual(fixture.sent(), [before, unwanted]);
    await fixture.clock.advance(settings.heartbeatMs);
    assert.deepEqual(fixture.sent(), [before, unwanted, wanted]);
    await fixture.clock.advance(settings.settleMs);
    assert.equal(await fixture.cursor(stream), 3);
  });

  test('a late change of the status: nothing more is sent after the next heartbeat', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      through: deaf,
      settings: { pollMs: 1_000_000 },
    });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.update(stream, { status: 'disabled' });
    const ref = { tenant: fixture.tenant, stream: stream.id };
    assert.equal(await fixture.store.ownership.hasSeen(ref), false);
    await fixture.clock.advance(settings.heartbeatMs);
    assert.equal(await fixture.store.ownership.hasSeen(ref), true);
    await fixture.publishMany(1);
    assert.deepEqual(fixture.sent(), []);
  });
});
