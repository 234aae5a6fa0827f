import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { HealthLimits } from '../../src/core/types.ts';
import { ok, respondedWith } from '../helpers/transport.ts';
import {
  createDeliveryFixture,
  settings,
  type DeliveryFixture,
  withDeliveries,
} from './fixture.ts';

interface Away {
  readonly fixture: DeliveryFixture;
  /** Publishes events while no result can be recorded, which lasts for two seconds. */
  publishWhileAway(count: number): Promise<void>;
}

/** Creates a dispatcher whose receiver refuses the attempts for which `isRefused` is true, numbered from 0. */
async function createAway(
  t: TestContext,
  disable: HealthLimits,
  isRefused: (attempt: number) => boolean,
): Promise<Away> {
  let away = false;
  let attempts = 0;
  const fixture = await createDeliveryFixture(t, {
    settings: { disable },
    respond: () => {
      attempts += 1;
      return isRefused(attempts - 1) ? respondedWith(400) : ok;
    },
    through: (store) =>
      withDeliveries(store, {
        settle: (...args) => (away ? fixture.unavailable() : store.deliveries.settle(...args)),
      }),
  });
  await fixture.start();
  return {
    fixture,
    publishWhileAway: async (count) => {
      away = true;
      await fixture.publishMany(count);
      await fixture.clock.advance(2000);
      away = false;
    },
  };
}

const refuseAll = (): boolean => true;

describe('a limit of failures that results reach before they are recorded', () => {
  for (const delivery of [{}, { orderBy: '/id' }, { retry: { delaysSeconds: [60] } }]) {
    test(`no attempt begins after it: ${JSON.stringify(delivery)}`, async (t) => {
      const { fixture, publishWhileAway } = await createAway(
        t,
        { consecutive: 10, total: 5000 },
        refuseAll,
      );
      const stream = await fixture.addStream({ delivery });
      await publishWhileAway(100);
      await fixture.clock.advance(60_000);
      const { length } = fixture.sent();
      assert.ok(length >= 10 && length < 10 + settings.streamConcurrency, `${length} sent`);
      const health = await fixture.store.streams.health(fixture.tenant, stream.id);
      assert.deepEqual(health, { consecutive: length, total: length });
      assert.equal(fixture.reported('stream_disabled').length, 1);
    });
  }

  test('failures that were recorded before count', async (t) => {
    const { fixture, publishWhileAway } = await createAway(
      t,
      { consecutive: 10, total: 5000 },
      refuseAll,
    );
    await fixture.addStream();
    await fixture.publishMany(8);
    await fixture.clock.advance(60_000);
    await fixture.restart();
    await publishWhileAway(100);
    await fixture.clock.advance(60_000);
    const { length } = fixture.sent();
    assert.ok(length >= 10 && length < 10 + settings.streamConcurrency, `${length} sent`);
  });

  test('no attempt begins after the limit of open failures', async (t) => {
    const { fixture, publishWhileAway } = await createAway(
      t,
      { consecutive: 500, total: 6 },
      (attempt) => attempt % 3 < 2,
    );
    const stream = await fixture.addStream();
    await publishWhileAway(100);
    await fixture.clock.advance(60_000);
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.ok(health && health.total >= 6, `${health?.total} open failures`);
    assert.ok(
      fixture.sent().length < 9 + settings.streamConcurrency,
      `${fixture.sent().length} sent`,
    );
    assert.equal(fixture.reported('stream_disabled').length, 1);
  });

  test('a success between them lets the stream go on', async (t) => {
    const { fixture, publishWhileAway } = await createAway(
      t,
      { consecutive: 3, total: 5000 },
      (attempt) => attempt % 3 < 2,
    );
    await fixture.addStream();
    await publishWhileAway(100);
    const awaySent = fixture.sent().length;
    assert.ok(awaySent > settings.parkAfterEvents, `${awaySent} sent`);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().length, 100);
    assert.equal(fixture.reported('stream_disabled').length, 0);
  });

  test('failures after a redelivery that succeeded count while only that one is recorded', async (t) => {
    let recordable = Infinity;
    const fixture = await createDeliveryFixture(t, {
      settings: { disable: { consecutive: 500, total: 6 } },
      respond: () => respondedWith(400),
      through: (store) =>
        withDeliveries(store, {
          settle: (...args) => {
            if (recordable === 0) return fixture.unavailable();
            recordable -= 1;
            return store.deliveries.settle(...args);
          },
        }),
    });
    await fixture.start();
    const stream = await fixture.addStream();
    const [first] = await fixture.publishMany(5);
    assert.ok(first !== undefined);
    await fixture.clock.advance(1000);
    fixture.transport.respond = () => undefined;
    await fixture.publishMany(3);
    const fresh = fixture.transport.open;
    assert.equal(fresh.length, 3);
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, first);
    await fixture.clock.advance(100);
    const again = fixture.transport.posts.at(-1);
    assert.equal(again?.eventId, first);
    // The store has 5 open failures after these two, the owner expects 6 until then.
    recordable = 0;
    again.end(ok);
    await fixture.clock.advance(0);
    fresh[0]?.end(respondedWith(400));
    await fixture.clock.advance(20);
    // These two are in the next batch.
    for (const post of fresh.slice(1)) post.end(respondedWith(400));
    await fixture.clock.advance(0);
    recordable = 1;
    await fixture.clock.advance(2000);
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 1, total: 5 });
    const { length } = fixture.sent();
    await fixture.publishMany(10);
    await fixture.clock.advance(0);
    assert.equal(fixture.sent().length, length);
    recordable = Infinity;
    await fixture.clock.advance(5000);
    assert.equal(fixture.sent().length, length);
    assert.equal(fixture.reported('stream_disabled').length, 1);
  });

  test('an event whose key is busy stays in the log after the limit', async (t) => {
    const { fixture, publishWhileAway } = await createAway(
      t,
      { consecutive: 1, total: 5000 },
      (attempt) => attempt === 0,
    );
    const stream = await fixture.addStream({ delivery: { orderBy: '/type' } });
    await publishWhileAway(1);
    await publishWhileAway(5);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.reported('stream_disabled').length, 1);
    await fixture.update(stream, { status: 'enabled' }, 'latest');
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().length, 1);
    await fixture.publishMany(2);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().length, 3);
  });
});
