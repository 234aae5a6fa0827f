import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { HealthLimits } from '../../src/core/types.ts';
import { ok, respondedWith } from '../helpers/transport.ts';
import { createDeliveryFixture, settings, type DeliveryFixture } from './fixture.ts';

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
    through: (store) => ({
      ...store,
      deliveries: {
        ...store.deliveries,
        settle: (...args) => (away ? fixture.unavailable() : store.deliveries.settle(...args)),
      },
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
});
