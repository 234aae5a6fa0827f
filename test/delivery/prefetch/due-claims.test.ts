import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../../src/core/types.ts';
import type { DueRequest } from '../../../src/store/port/deliveries.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { answered, ok } from '../../helpers/transport.ts';
import { createDeliveryScene, settings, type DeliveryScene } from '../fixture.ts';

const busy = answered(503, 'busy');

/** A scene whose claims can be made to answer late. */
async function slowScene(t: TestContext) {
  const gate = { isSlow: false, release: (): void => undefined };
  const claimed: (readonly DueRequest[])[] = [];
  const scene = await createDeliveryScene(t, {
    respond: () => busy,
    through: (store) => ({
      ...store,
      deliveries: {
        ...store.deliveries,
        claimDue: async (...args) => {
          const answer = await store.deliveries.claimDue(...args);
          claimed.push(args[0]);
          if (gate.isSlow) await new Promise<void>((resolve) => (gate.release = resolve));
          return answer;
        },
      },
    }),
  });
  const stream = await scene.addStream();
  await scene.start();
  const ids = await scene.publishMany(2);
  await scene.clock.advance(100);
  assert.equal(scene.sent().length, 2);
  return { scene, stream, gate, claimed, ids };
}

async function failures(scene: DeliveryScene, stream: Stream) {
  const query = { after: undefined, take: 1000 };
  return (await scene.store.deliveries.listFailures(scene.tenant, stream.id, query)).items;
}

describe('rows that are due', () => {
  test('are claimed for all streams in one query, for no more than their slots', async (t) => {
    const asks: (readonly DueRequest[])[] = [];
    const scene = await createDeliveryScene(t, {
      respond: () => busy,
      settings: { concurrency: 100 },
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          claimDue: (...args) => {
            asks.push(args[0]);
            return store.deliveries.claimDue(...args);
          },
        },
      }),
    });
    for (let count = 0; count < 10; count += 1) await scene.addStream();
    await scene.start();
    await scene.publishMany(20);
    await scene.clock.advance(999);
    assert.equal(asks.length, 0);
    scene.transport.respond = () => undefined;
    await scene.clock.advance(100);
    assert.ok(asks.length <= 2, `${asks.length} queries`);
    const slots = asks.flat().reduce((sum, { take }) => sum + take, 0);
    assert.ok(slots <= 10 * settings.streamConcurrency, `${slots} slots`);
    assert.equal(scene.transport.open.length, 10 * settings.streamConcurrency);
  });

  test('are sent as the stream is when the claim answers', async (t) => {
    const { scene, stream, gate } = await slowScene(t);
    gate.isSlow = true;
    await scene.clock.advance(1000);
    const endpoint = 'https://other.example.net/hook';
    await scene.update(stream, { destination: { ...stream.destination, endpoint } });
    gate.isSlow = false;
    gate.release();
    await scene.clock.advance(100);
    const targets = scene.transport.posts.slice(2).map(({ request }) => request.origin);
    assert.deepEqual(targets, ['https://other.example.net', 'https://other.example.net']);
    assert.equal(scene.dispatcher.state().inFlight, 0);
  });

  test('are not sent when the stream was disabled meanwhile; they become failures', async (t) => {
    const { scene, stream, gate } = await slowScene(t);
    gate.isSlow = true;
    await scene.clock.advance(1000);
    await scene.update(stream, { status: 'disabled' });
    gate.isSlow = false;
    gate.release();
    await scene.clock.advance(60_000);
    assert.equal(scene.sent().length, 2);
    const listed = await failures(scene, stream);
    assert.deepEqual(
      listed.map(({ attempts }) => attempts.at(-1)?.error),
      ['The event stream is disabled', 'The event stream is disabled'],
    );
    assert.equal(scene.dispatcher.state().inFlight, 0);
    assert.equal(scene.dispatcher.state().streams, 0);
  });

  test('are left when the stream was deleted meanwhile', async (t) => {
    const { scene, stream, gate } = await slowScene(t);
    gate.isSlow = true;
    await scene.clock.advance(1000);
    await scene.store.streams.delete(scene.tenant, stream.id);
    gate.isSlow = false;
    gate.release();
    await scene.clock.advance(60_000);
    assert.equal(scene.sent().length, 2);
    assert.equal(scene.dispatcher.state().inFlight, 0);
  });

  test('whose claim answers late are left to the end of their lease', async (t) => {
    const { scene, stream, gate, ids } = await slowScene(t);
    gate.isSlow = true;
    await scene.clock.advance(1000);
    // An attempt that began now could end after the lease.
    await scene.clock.advance(settings.leaseGraceMs + 1);
    gate.isSlow = false;
    gate.release();
    scene.transport.respond = () => ok;
    await scene.clock.advance(100);
    assert.equal(scene.sent().length, 2);
    assert.equal(scene.dispatcher.state().inFlight, 0);
    await scene.clock.advance(settings.attemptTimeoutMs + settings.pollMs);
    assert.deepEqual(scene.sent().slice(2), ids);
    assert.deepEqual(await failures(scene, stream), []);
  });

  test('and were left become failures when their stream is disabled', async (t) => {
    const { scene, stream, gate } = await slowScene(t);
    gate.isSlow = true;
    await scene.clock.advance(1000);
    await scene.clock.advance(settings.leaseGraceMs + 1);
    gate.isSlow = false;
    gate.release();
    await scene.clock.advance(100);
    await scene.update(stream, { status: 'disabled' });
    await scene.clock.advance(60_000);
    assert.equal(scene.sent().length, 2);
    assert.equal((await failures(scene, stream)).length, 2);
    assert.equal(scene.dispatcher.state().streams, 0);
  });

  test('are not claimed while the result of one of them waits to be written', async (t) => {
    let away = false;
    const through = (store: Store): Store => ({
      ...store,
      deliveries: {
        ...store.deliveries,
        settle: (...args) => (away ? scene.unavailable() : store.deliveries.settle(...args)),
      },
    });
    const scene = await createDeliveryScene(t, {
      through,
      settings: { retryDelaysMs: [1000, 30_000], pollMs: 1_000_000 },
      respond: () => busy,
    });
    const stream = await scene.addStream();
    await scene.start();
    const [early = ''] = await scene.publishMany(1);
    scene.transport.respond = () => undefined;
    await scene.clock.advance(1100);
    const [retry] = scene.transport.open;
    // Another row, whose time comes while the store is away: its claim waits.
    scene.transport.respond = () => answered(503, '', '2');
    await scene.publishMany(1);
    await scene.clock.advance(100);
    away = true;
    scene.transport.respond = () => ok;
    await scene.publishMany(1);
    await scene.clock.advance(3000);
    // This result waits, too, while the lease of its row ends.
    retry?.end(ok);
    await scene.clock.advance(60_000);
    away = false;
    await scene.clock.advance(60_000);
    assert.equal(scene.sent().filter((id) => id === early).length, 2);
    assert.deepEqual(await failures(scene, stream), []);
    assert.equal(await scene.cursor(stream), 3);
  });

  test('are not claimed again when their claim was what failed for long', async (t) => {
    let away = false;
    const scene = await createDeliveryScene(t, {
      settings: { retryDelaysMs: [1000, 30_000], pollMs: 1_000_000 },
      respond: () => busy,
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          settle: (...args) => (away ? scene.unavailable() : store.deliveries.settle(...args)),
          claimDue: (...args) => (away ? scene.unavailable() : store.deliveries.claimDue(...args)),
        },
      }),
    });
    await scene.addStream();
    await scene.start();
    const early = await scene.publishMany(2);
    scene.transport.respond = () => undefined;
    await scene.clock.advance(1100);
    const retries = scene.transport.open;
    scene.transport.respond = () => busy;
    await scene.publishMany(1);
    await scene.clock.advance(100);
    away = true;
    // The claim for the third fails. Meanwhile the retries end, one while the result of the other
    // is being written in vain, and then their leases.
    for (const retry of retries) {
      await scene.clock.advance(4700);
      retry.end(ok);
    }
    await scene.clock.advance(60_000);
    scene.transport.respond = () => ok;
    away = false;
    await scene.clock.advance(60_000);
    for (const id of early) assert.equal(scene.sent().filter((sent) => sent === id).length, 2);
  });

  test('are sent at once when the store is back', async (t) => {
    let away = false;
    const scene = await createDeliveryScene(t, {
      respond: () => busy,
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          claimDue: (...args) => (away ? scene.unavailable() : store.deliveries.claimDue(...args)),
        },
      }),
    });
    await scene.addStream();
    await scene.start();
    const [id] = await scene.publishMany(1);
    away = true;
    await scene.clock.advance(20_000);
    assert.deepEqual(scene.sent(), [id]);
    away = false;
    await scene.clock.advance(2000);
    assert.deepEqual(scene.sent(), [id, id]);
  });

  test('do not hold the ending up when nobody has claimed them yet', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => answered(400) });
    const stream = await scene.addStream();
    await scene.start();
    const [first = '', second = ''] = await scene.publishMany(2);
    await scene.clock.advance(100);
    const redeliver = (id: string) => scene.store.deliveries.redeliver(scene.tenant, stream.id, id);
    await redeliver(first);
    await scene.clock.advance(0);
    assert.equal(scene.sent().length, 3);
    // The next claim is put off for a moment; the slots for it are kept.
    await redeliver(second);
    await scene.clock.advance(0);
    assert.ok(scene.dispatcher.state().inFlight > 0);
    const before = scene.clock.elapsedMs();
    await scene.stop();
    assert.equal(scene.clock.elapsedMs(), before);
    assert.equal(scene.sent().length, 3);
  });
});
