import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Store } from '../../src/store/port/store.ts';
import { waitRule } from '../store/contract/fixture.ts';
import { createDeliveryScene, settings, type DeliveryScene } from './fixture.ts';

/** A dispatcher whose heartbeats can be kept from the store, and nothing else. */
async function createLeaseScene(
  t: TestContext,
): Promise<{ scene: DeliveryScene; heartbeats: { arrive: boolean } }> {
  const heartbeats = { arrive: true };
  const through = (store: Store): Store => ({
    ...store,
    ownership: {
      ...store.ownership,
      heartbeat: (...args) =>
        heartbeats.arrive ? store.ownership.heartbeat(...args) : scene.unavailable(),
    },
  });
  const scene = await createDeliveryScene(t, { through });
  return { scene, heartbeats };
}

/** Another node takes what is free. */
async function takeAll(scene: DeliveryScene, take = 10) {
  const { store } = scene;
  const node = await store.ownership.join('other', settings.leaseMs);
  return store.ownership.claim(node, { claim: 1, take, ...waitRule });
}

describe('the lease of a node', () => {
  test('is renewed for as long as the node works', async (t) => {
    const { scene } = await createLeaseScene(t);
    await scene.addStream();
    await scene.start();
    await scene.clock.advance(10 * settings.leaseMs);
    assert.deepEqual(await takeAll(scene), []);
    assert.equal((await scene.publishMany(3)).length, 3);
    assert.equal(scene.sent().length, 3);
  });

  test('ends for the node before it ends for others', async (t) => {
    const { scene, heartbeats } = await createLeaseScene(t);
    await scene.addStream();
    await scene.start();
    heartbeats.arrive = false;
    await scene.clock.advance(settings.leaseStopMs - 1);
    await scene.publishMany(1);
    assert.equal(scene.sent().length, 1);
    await scene.clock.advance(1);
    await scene.publishMany(1);
    assert.equal(scene.sent().length, 1, 'the node begins nothing any more');
    assert.deepEqual(await takeAll(scene), [], 'and nobody else may begin yet');
  });

  test('goes on where it was when nobody took the streams meanwhile', async (t) => {
    const { scene, heartbeats } = await createLeaseScene(t);
    const stream = await scene.addStream();
    await scene.start();
    heartbeats.arrive = false;
    await scene.clock.advance(2 * settings.leaseMs);
    const [id] = await scene.publishMany(1);
    assert.deepEqual(scene.sent(), []);
    heartbeats.arrive = true;
    await scene.clock.advance(3000);
    assert.deepEqual(scene.sent(), [id]);
    assert.equal(await scene.cursor(stream), 1);
    assert.equal(scene.reported('stream_owned').length, 1);
  });

  test('once ended, gives way to who has taken the streams', async (t) => {
    const { scene, heartbeats } = await createLeaseScene(t);
    await scene.addStream();
    await scene.start();
    heartbeats.arrive = false;
    await scene.clock.advance(settings.leaseMs);
    assert.equal((await takeAll(scene)).length, 1);
    heartbeats.arrive = true;
    await scene.publishMany(2);
    await scene.clock.advance(3000);
    assert.deepEqual(scene.sent(), []);
    assert.equal(scene.reported('stream_lost').length, 1);
  });
});

describe('a node whose clock stood still for longer than its lease', () => {
  test('learns it with its next heartbeat, and gives way to who has taken the streams', async (t) => {
    const { scene } = await createLeaseScene(t);
    await scene.addStream();
    await scene.start();
    await scene.clock.advance(1);
    // For the store its lease is over, and by its own clock it holds it.
    await scene.store.ownership.heartbeat({ id: 'leat', incarnation: 1 }, 0);
    assert.equal((await takeAll(scene)).length, 1);
    await scene.clock.advance(settings.heartbeatMs);
    assert.equal(scene.reported('stream_lost').length, 1);
    await scene.publishMany(2);
    assert.deepEqual(scene.sent(), []);
  });
});

describe('a node whose name another process has taken', () => {
  test('says so once, and sends nothing any more', async (t) => {
    const { scene } = await createLeaseScene(t);
    await scene.addStream();
    await scene.start();
    await scene.store.ownership.join('leat', settings.leaseMs);
    await scene.clock.advance(settings.leaseMs);
    await scene.publishMany(1);
    await scene.clock.advance(settings.leaseMs);
    assert.deepEqual(scene.sent(), []);
    const said = scene.reported('unexpected').map(({ error }) => String(error));
    assert.equal(said.length, 1);
    assert.match(said[0] ?? '', /Another process has joined as "leat".*names of their own/);
  });
});

describe('the share of a node', () => {
  test('surplus is handed back when another joins, without cutting an attempt off', async (t) => {
    const { scene } = await createLeaseScene(t);
    const streams = [];
    for (let count = 0; count < 4; count += 1) streams.push(await scene.addStream());
    await scene.start();
    const hanging = await scene.publishHanging('user.created');
    assert.equal(hanging.length, 4);
    const other = await scene.store.ownership.join('other', settings.leaseMs);
    await scene.clock.advance(settings.heartbeatMs);
    const ask = { take: 10, claim: 1, ...waitRule };
    assert.deepEqual(await scene.store.ownership.claim(other, ask), []);
    for (const post of hanging)
      post.end({ kind: 'response', status: 204, text: '', retryAfter: undefined });
    await scene.clock.advance(settings.settleMs);
    const taken = await scene.store.ownership.claim(other, { ...ask, claim: 2 });
    assert.equal(taken.length, 2);
    assert.deepEqual(
      taken.map(({ cursor }) => cursor),
      [1, 1],
    );
    assert.equal(scene.dispatcher.state().streams, 2);
    assert.ok(hanging.every(({ cancelled }) => !cancelled));
  });
});

describe('a change that a node hears of late', () => {
  /** No hint of a changed stream reaches the dispatcher. */
  const deaf = (store: Store): Store => ({
    ...store,
    watch: (listener) => store.watch((hint) => hint.kind === 'stream' || listener(hint)),
  });

  test('of subscriptions: what came after it is judged again, and nothing is left out', async (t) => {
    const scene = await createDeliveryScene(t, { through: deaf, settings: { pollMs: 1_000_000 } });
    const stream = await scene.addStream({ types: ['a.made'] });
    await scene.start();
    const [before] = await scene.publish('a.made');
    await scene.update(stream, { types: ['b.made'] });
    const [unwanted, wanted] = await scene.publish('a.made', 'b.made');
    assert.deepEqual(scene.sent(), [before, unwanted]);
    await scene.clock.advance(settings.heartbeatMs);
    assert.deepEqual(scene.sent(), [before, unwanted, wanted]);
    await scene.clock.advance(settings.settleMs);
    assert.equal(await scene.cursor(stream), 3);
  });

  test('of its status: nothing more is sent after the next heartbeat', async (t) => {
    const scene = await createDeliveryScene(t, { through: deaf, settings: { pollMs: 1_000_000 } });
    const stream = await scene.addStream();
    await scene.start();
    await scene.update(stream, { status: 'disabled' });
    const ref = { tenant: scene.tenant, stream: stream.id };
    assert.equal(await scene.store.ownership.hasSeen(ref), false);
    await scene.clock.advance(settings.heartbeatMs);
    assert.equal(await scene.store.ownership.hasSeen(ref), true);
    await scene.publishMany(1);
    assert.deepEqual(scene.sent(), []);
  });
});
