import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../../src/core/types.ts';
import type { DueRequest } from '../../../src/store/port/deliveries.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { respondedWith, ok } from '../../helpers/transport.ts';
import {
  createDeliveryFixture,
  settings,
  type DeliveryFixture,
  withDeliveries,
} from '../fixture.ts';

const busy = respondedWith(503, 'busy');

/** A fixture whose claims can be delayed. */
async function createSlowFixture(t: TestContext, changed: Partial<typeof settings> = {}) {
  const barrier = { isSlow: false, release: (): void => undefined };
  const claimed: (readonly DueRequest[])[] = [];
  const fixture = await createDeliveryFixture(t, {
    respond: () => busy,
    settings: changed,
    through: (store) =>
      withDeliveries(store, {
        claimDue: async (...args) => {
          const answer = await store.deliveries.claimDue(...args);
          claimed.push(args[0]);
          if (barrier.isSlow) await new Promise<void>((resolve) => (barrier.release = resolve));
          return answer;
        },
      }),
  });
  const stream = await fixture.addStream();
  await fixture.start();
  const ids = await fixture.publishMany(2);
  await fixture.clock.advance(100);
  assert.equal(fixture.sent().length, 2);
  return { fixture, stream, barrier, claimed, ids };
}

async function failures(fixture: DeliveryFixture, stream: Stream) {
  const query = { after: undefined, take: 1000 };
  return (await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query)).items;
}

describe('rows that are due', () => {
  test('due rows are claimed for all streams in one query, no more than they have slots', async (t) => {
    const asks: (readonly DueRequest[])[] = [];
    const fixture = await createDeliveryFixture(t, {
      respond: () => busy,
      settings: { concurrency: 100 },
      through: (store) =>
        withDeliveries(store, {
          claimDue: (...args) => {
            asks.push(args[0]);
            return store.deliveries.claimDue(...args);
          },
        }),
    });
    for (let count = 0; count < 10; count += 1) await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(20);
    await fixture.clock.advance(999);
    assert.equal(asks.length, 0);
    fixture.transport.respond = () => undefined;
    await fixture.clock.advance(100);
    assert.ok(asks.length <= 2, `${asks.length} queries`);
    const slots = asks.flat().reduce((sum, { take }) => sum + take, 0);
    assert.ok(slots <= 10 * settings.streamConcurrency, `${slots} slots`);
    assert.equal(fixture.transport.open.length, 10 * settings.streamConcurrency);
  });

  test('a fresh event does not wait for a claim that has reserved all slots', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => busy });
    await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(1);
    await fixture.clock.advance(5);
    await fixture.publishMany(1);
    await fixture.clock.advance(900);
    assert.equal(fixture.sent().length, 2);
    fixture.transport.respond = () => undefined;
    while (fixture.sent().length < 3) await fixture.clock.advance(1);
    // The other retry is due, and its claim follows ten milliseconds after the first one.
    await fixture.clock.advance(7);
    assert.equal(fixture.sent().length, 3);
    await fixture.publishMany(1);
    assert.equal(fixture.sent().length, 4);
    await fixture.clock.advance(10);
    assert.equal(fixture.sent().length, 5);
    assert.equal(fixture.transport.open.length, 3);
  });

  test('due rows are sent by the stream as it is after the claim', async (t) => {
    const { fixture, stream, barrier } = await createSlowFixture(t);
    barrier.isSlow = true;
    await fixture.clock.advance(1000);
    const endpoint = 'https://other.example.net/hook';
    await fixture.update(stream, { destination: { ...stream.destination, endpoint } });
    barrier.isSlow = false;
    barrier.release();
    await fixture.clock.advance(100);
    const targets = fixture.transport.posts.slice(2).map(({ request }) => request.origin);
    assert.deepEqual(targets, ['https://other.example.net', 'https://other.example.net']);
    assert.equal(fixture.dispatcher.state().inFlight, 0);
  });

  test('due rows are not sent when the stream was disabled during the claim; they become failures', async (t) => {
    const { fixture, stream, barrier } = await createSlowFixture(t);
    barrier.isSlow = true;
    await fixture.clock.advance(1000);
    await fixture.update(stream, { status: 'disabled' });
    barrier.isSlow = false;
    barrier.release();
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().length, 2);
    const listed = await failures(fixture, stream);
    assert.deepEqual(
      listed.map(({ attempts }) => attempts.at(-1)?.error),
      ['The event stream is disabled', 'The event stream is disabled'],
    );
    assert.equal(fixture.dispatcher.state().inFlight, 0);
    assert.equal(fixture.dispatcher.state().streams, 0);
  });

  test('due rows are not sent when the stream was deleted during the claim', async (t) => {
    const { fixture, stream, barrier } = await createSlowFixture(t);
    barrier.isSlow = true;
    await fixture.clock.advance(1000);
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    barrier.isSlow = false;
    barrier.release();
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().length, 2);
    assert.equal(fixture.dispatcher.state().inFlight, 0);
  });

  test('due rows whose claim takes long are not sent before the end of their lease', async (t) => {
    const { fixture, stream, barrier, ids } = await createSlowFixture(t);
    barrier.isSlow = true;
    await fixture.clock.advance(1000);
    // An attempt that began now could end after the lease.
    await fixture.clock.advance(settings.leaseGraceMs + 1);
    barrier.isSlow = false;
    barrier.release();
    fixture.transport.respond = () => ok;
    await fixture.clock.advance(100);
    assert.equal(fixture.sent().length, 2);
    assert.equal(fixture.dispatcher.state().inFlight, 0);
    await fixture.clock.advance(settings.attemptTimeoutMs + settings.pollMs);
    assert.deepEqual(fixture.sent().slice(2), ids);
    assert.deepEqual(await failures(fixture, stream), []);
  });

  test('due rows whose claim takes long are sent at the end of their lease, without a poll', async (t) => {
    const { fixture, barrier, ids } = await createSlowFixture(t, { pollMs: 1_000_000 });
    barrier.isSlow = true;
    await fixture.clock.advance(1000 + settings.leaseGraceMs + 1);
    barrier.isSlow = false;
    fixture.transport.respond = () => ok;
    barrier.release();
    await fixture.clock.advance(settings.attemptTimeoutMs + 100);
    assert.deepEqual(fixture.sent().slice(2), ids);
  });

  test('due rows that were not sent in time become failures when their stream is disabled', async (t) => {
    const { fixture, stream, barrier } = await createSlowFixture(t);
    barrier.isSlow = true;
    await fixture.clock.advance(1000);
    await fixture.clock.advance(settings.leaseGraceMs + 1);
    barrier.isSlow = false;
    barrier.release();
    await fixture.clock.advance(100);
    await fixture.update(stream, { status: 'disabled' });
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().length, 2);
    assert.equal((await failures(fixture, stream)).length, 2);
    assert.equal(fixture.dispatcher.state().streams, 0);
  });

  test('due rows are not claimed while the outcome of one of them waits to be recorded', async (t) => {
    let away = false;
    const through = (store: Store): Store => ({
      ...store,
      deliveries: {
        ...store.deliveries,
        settle: (...args) => (away ? fixture.unavailable() : store.deliveries.settle(...args)),
      },
    });
    const fixture = await createDeliveryFixture(t, {
      through,
      settings: { retryDelaysMs: [1000, 30_000], pollMs: 1_000_000 },
      respond: () => busy,
    });
    const stream = await fixture.addStream();
    await fixture.start();
    const [early = ''] = await fixture.publishMany(1);
    fixture.transport.respond = () => undefined;
    await fixture.clock.advance(1100);
    const [retry] = fixture.transport.open;
    // Another row, which becomes due while the store is unavailable: its claim waits.
    fixture.transport.respond = () => respondedWith(503, '', '2');
    await fixture.publishMany(1);
    await fixture.clock.advance(100);
    away = true;
    fixture.transport.respond = () => ok;
    await fixture.publishMany(1);
    await fixture.clock.advance(3000);
    // This outcome waits as well while the lease of its row ends.
    retry?.end(ok);
    await fixture.clock.advance(60_000);
    away = false;
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().filter((id) => id === early).length, 2);
    assert.deepEqual(await failures(fixture, stream), []);
    assert.equal(await fixture.cursor(stream), 3);
  });

  test('due rows are not claimed twice when their claim failed for long', async (t) => {
    let away = false;
    const fixture = await createDeliveryFixture(t, {
      settings: { retryDelaysMs: [1000, 30_000], pollMs: 1_000_000 },
      respond: () => busy,
      through: (store) =>
        withDeliveries(store, {
          settle: (...args) => (away ? fixture.unavailable() : store.deliveries.settle(...args)),
          claimDue: (...args) =>
            away ? fixture.unavailable() : store.deliveries.claimDue(...args),
        }),
    });
    await fixture.addStream();
    await fixture.start();
    const early = await fixture.publishMany(2);
    fixture.transport.respond = () => undefined;
    await fixture.clock.advance(1100);
    const retries = fixture.transport.open;
    fixture.transport.respond = () => busy;
    await fixture.publishMany(1);
    await fixture.clock.advance(100);
    away = true;
    // The claim for the third fails. Meanwhile the retries end, one while recording the outcome of
    // the other fails, and then their leases.
    for (const retry of retries) {
      await fixture.clock.advance(4700);
      retry.end(ok);
    }
    await fixture.clock.advance(60_000);
    fixture.transport.respond = () => ok;
    away = false;
    await fixture.clock.advance(60_000);
    for (const id of early) assert.equal(fixture.sent().filter((sent) => sent === id).length, 2);
  });

  test('due rows are sent at once when the store is available again', async (t) => {
    let away = false;
    const fixture = await createDeliveryFixture(t, {
      respond: () => busy,
      through: (store) =>
        withDeliveries(store, {
          claimDue: (...args) =>
            away ? fixture.unavailable() : store.deliveries.claimDue(...args),
        }),
    });
    await fixture.addStream();
    await fixture.start();
    const [id] = await fixture.publishMany(1);
    away = true;
    await fixture.clock.advance(20_000);
    assert.deepEqual(fixture.sent(), [id]);
    away = false;
    await fixture.clock.advance(2000);
    assert.deepEqual(fixture.sent(), [id, id]);
  });

  test('unclaimed due rows do not delay a stop', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => respondedWith(400) });
    const stream = await fixture.addStream();
    await fixture.start();
    const [first = '', second = ''] = await fixture.publishMany(2);
    await fixture.clock.advance(100);
    const redeliver = (id: string) =>
      fixture.store.deliveries.redeliver(fixture.tenant, stream.id, id);
    await redeliver(first);
    await fixture.clock.advance(0);
    assert.equal(fixture.sent().length, 3);
    // The next claim is postponed by a few milliseconds; its slots stay reserved.
    await redeliver(second);
    await fixture.clock.advance(0);
    assert.ok(fixture.dispatcher.state().inFlight > 0);
    const before = fixture.clock.elapsedMs();
    await fixture.stop();
    assert.equal(fixture.clock.elapsedMs(), before);
    assert.equal(fixture.sent().length, 3);
  });
});
