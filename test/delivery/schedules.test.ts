import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { respondedWith } from '../helpers/transport.ts';
import { delaysOf } from '../../src/core/retry-schedule.ts';
import type { DeliveryOptions } from '../../src/core/types.ts';
import {
  createDeliveryFixture,
  type DeliveryFixture,
  type FixtureOptions,
  withDeliveries,
} from './fixture.ts';

/** Days pass in these tests: fewer heartbeats and polls make them short. */
const calm = { heartbeatMs: 600_000, leaseStopMs: 1_800_000, leaseMs: 3_600_000, pollMs: 600_000 };

const hourMs = 3_600_000;

async function failingFixture(t: TestContext): Promise<DeliveryFixture> {
  const fixture = await createDeliveryFixture(t, {
    settings: calm,
    respond: () => respondedWith(503, 'busy'),
  });
  await fixture.start();
  return fixture;
}

/** Records when each attempt of a stream begins, in milliseconds from now. */
function watchPosts(fixture: DeliveryFixture): number[] {
  const startMs = fixture.clock.elapsedMs();
  const times: number[] = [];
  const { respond } = fixture.transport;
  fixture.transport.respond = (post) => {
    times.push(fixture.clock.elapsedMs() - startMs);
    return respond(post);
  };
  return times;
}

describe('schedules of one stream', () => {
  test('hours: eight attempts, each after about its wait; then a failure', async (t) => {
    const fixture = await failingFixture(t);
    const stream = await fixture.addStream({ delivery: { retry: 'hours' } });
    const times = watchPosts(fixture);
    await fixture.publish('user.created');
    await fixture.clock.advance(24 * hourMs);
    assert.equal(times.length, 8);
    const waits = times.slice(1).map((time, index) => (time - (times[index] ?? 0)) / 1000);
    const expected = [5, 60, 300, 1800, 7200, 18_000, 36_000];
    waits.forEach((wait, index) => {
      const delay = expected[index] ?? 0;
      assert.ok(Math.abs(wait - delay) <= (delay > 10 ? delay / 10 : 0) + 1, `${wait} s`);
    });
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 1, total: 1 });
  });

  test('a cycle ends 72 h after its first attempt, with a last attempt then', async (t) => {
    const fixture = await failingFixture(t);
    const delaysSeconds = Array<number>(20).fill(86_400);
    const stream = await fixture.addStream({ delivery: { retry: { delaysSeconds } } });
    const times = watchPosts(fixture);
    await fixture.publish('user.created');
    await fixture.clock.advance(120 * hourMs);
    const last = times.at(-1) ?? 0;
    assert.ok(last > 71.9 * hourMs && last < 72.1 * hourMs, `${last / hourMs} h`);
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 1, total: 1 });
  });

  test('a delivery that waits is redelivered at once, and its cycle goes on', async (t) => {
    const fixture = await failingFixture(t);
    const stream = await fixture.addStream({ delivery: { retry: 'hours' } });
    const [id = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(1000);
    const { deliveries } = fixture.store;
    assert.equal(fixture.sent().length, 1);
    assert.equal(await deliveries.redeliver(fixture.tenant, stream.id, id), 'accepted');
    await fixture.clock.advance(1000);
    assert.equal(fixture.sent().length, 2);
    const attempts = fixture
      .reported('attempt')
      .map(({ attempt, deliveryKind }) => [attempt, deliveryKind]);
    assert.deepEqual(attempts, [
      [1, 'first'],
      [2, 'first'],
    ]);
  });

  test('without a schedule of its own a stream refuses to redeliver what waits', async (t) => {
    const fixture = await failingFixture(t);
    const stream = await fixture.addStream();
    const [id = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(100);
    const { deliveries } = fixture.store;
    assert.equal(await deliveries.redeliver(fixture.tenant, stream.id, id), 'retrying');
  });

  test('another owner keeps to the schedule', async (t) => {
    const fixture = await failingFixture(t);
    await fixture.addStream({ delivery: { retry: { delaysSeconds: [3600, 3600] } } });
    const times = watchPosts(fixture);
    await fixture.publish('user.created');
    await fixture.clock.advance(hourMs / 2);
    await fixture.crash();
    await fixture.clock.advance(4 * hourMs);
    assert.equal(times.length, 3);
    const [, second = 0, third = 0] = times;
    assert.ok(second >= 0.9 * hourMs && second <= 1.1 * hourMs, `${second}`);
    assert.ok(third - second >= 0.9 * hourMs && third - second <= 1.1 * hourMs, `${third}`);
  });
});

describe('the schedule of streams without one', () => {
  const retry = { delaysSeconds: [5, 9] };

  /** Returns what happens at a receiver that is away for a while, with a schedule set in one of two ways. */
  async function historyOf(t: TestContext, options: FixtureOptions, delivery: DeliveryOptions) {
    const fixture = await createDeliveryFixture(t, {
      respond: () => respondedWith(503),
      ...options,
      settings: { ...calm, disable: { consecutive: 3, total: 50 }, ...options.settings },
    });
    await fixture.addStream({ delivery });
    const times = watchPosts(fixture);
    await fixture.start();
    await fixture.publishMany(10);
    await fixture.clock.advance(70_000);
    await fixture.restart();
    fixture.transport.respond = () => respondedWith(204);
    await fixture.clock.advance(200_000);
    const reports = (['receiver_down', 'receiver_up', 'stream_disabled'] as const).map(
      (kind) => fixture.reported(kind).length,
    );
    return { times, reports, sent: fixture.sent().length };
  }

  test('LEAT_RETRY: a stream without a schedule behaves as one that has it', async (t) => {
    const own = await historyOf(t, {}, { retry });
    assert.deepEqual(await historyOf(t, { settings: { retry } }, {}), own);
    assert.notDeepEqual(await historyOf(t, {}, {}), own);
    const other = { settings: { retry: 'hours' } } as const;
    assert.deepEqual(await historyOf(t, other, { retry }), own);
  });

  test('LEAT_RETRY: redeliveries and test events keep the waits of LEAT_RETRY_DELAYS_MS', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      settings: { ...calm, retry: 'hours' },
      respond: () => respondedWith(503),
    });
    const stream = await fixture.addStream();
    await fixture.start();
    const times = watchPosts(fixture);
    const event = { id: 'evt_test', type: 'user.created', time: 0, body: '{}' };
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, event);
    await fixture.clock.advance(60_000);
    assert.deepEqual(
      times.map((ms) => Math.round(ms / 1000)),
      [0, 1, 3, 7],
    );
  });

  test('LEAT_RETRY: what waits is redelivered at once, as by a schedule of its stream', async (t) => {
    const fixture = await failingFixture(t);
    const stream = await fixture.addStream();
    const [id = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(100);
    const { deliveries } = fixture.store;
    assert.equal(await deliveries.redeliver(fixture.tenant, stream.id, id, true), 'accepted');
  });
});

describe('a receiver that is away', () => {
  for (const retry of ['quick', 'hours', 'days'] as const) {
    const spanMs = delaysOf(retry).reduce((sum, delayMs) => sum + delayMs);

    test(`${retry}: an event of the beginning fails if the outage is longer than the schedule`, async (t) => {
      // Longer than each of the schedules is 60 h.
      for (const awayMs of [hourMs / 60, hourMs, 24 * hourMs, 60 * hourMs]) {
        const fixture = await failingFixture(t);
        const stream = await fixture.addStream({ delivery: { retry } });
        await fixture.publish('user.created');
        await fixture.clock.advance(awayMs);
        fixture.transport.respond = () => respondedWith(204);
        if (awayMs <= spanMs) await fixture.clock.advance(26.5 * hourMs);
        const { total } = (await fixture.store.streams.health(fixture.tenant, stream.id)) ?? {};
        assert.equal(total, awayMs > spanMs ? 1 : 0, `${awayMs / hourMs} h`);
        await fixture.stop();
      }
    });
  }
});

describe('the limits of failures with each schedule', () => {
  const wide = { streamConcurrency: 64, concurrency: 64, settleMax: 256, parkAfterEvents: 256 };
  const page = { pageEvents: 1000, tailEventsMax: 10_000, tailBytesMax: 10_000_000 };

  for (const [retry, hoursMax] of [
    ['quick', 0.1],
    [{ delaysSeconds: [60] }, 0.1],
    ['hours', 20],
    ['days', 60],
  ] as const) {
    const name = JSON.stringify(retry);
    // Retries over days take seconds.
    const tags = hoursMax > 1 ? ['long'] : [];

    test(`${name}: 500 failures in a row disable a stream, 499 do not`, { tags }, async (t) => {
      const fixture = await createDeliveryFixture(t, {
        settings: { ...calm, ...wide, ...page },
        respond: () => respondedWith(503),
      });
      const stream = await fixture.addStream({ delivery: { retry } });
      await fixture.start();
      await fixture.publishMany(499);
      await fixture.clock.advance(hoursMax * hourMs);
      const health = () => fixture.store.streams.health(fixture.tenant, stream.id);
      assert.deepEqual(await health(), { consecutive: 499, total: 499 });
      assert.equal(fixture.reported('stream_disabled').length, 0);
      await fixture.publishMany(1);
      await fixture.clock.advance(hoursMax * hourMs);
      assert.deepEqual(await health(), { consecutive: 500, total: 500 });
      const reasons = fixture.reported('stream_disabled').map(({ reason }) => reason);
      assert.deepEqual(reasons, ['consecutive']);
    });

    test(`${name}: 5,000 open failures disable a stream, 4,999 do not`, async (t) => {
      let sent = 0;
      const fixture = await createDeliveryFixture(t, {
        settings: { ...calm, ...wide, ...page },
        // Failures that are not retried, with a success after 99 of them.
        respond: () => respondedWith((sent += 1) % 100 === 0 ? 204 : 400),
      });
      const stream = await fixture.addStream({ delivery: { retry } });
      await fixture.start();
      const health = () => fixture.store.streams.health(fixture.tenant, stream.id);
      await fixture.publishMany(5049);
      await fixture.clock.advance(60_000);
      assert.equal((await health())?.total, 4999);
      assert.equal(fixture.reported('stream_disabled').length, 0);
      sent = 0;
      await fixture.publishMany(1);
      await fixture.clock.advance(60_000);
      assert.equal((await health())?.total, 5000);
      const reasons = fixture.reported('stream_disabled').map(({ reason }) => reason);
      assert.deepEqual(reasons, ['total']);
    });
  }
});

describe('per_second of one stream', () => {
  test('attempts of all kinds together keep to the rate, after one burst', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.addStream({ types: ['a.made'], delivery: { perSecond: 5 } });
    await fixture.addStream({ types: ['b.made'] });
    let count = 0;
    fixture.transport.respond = ({ request }) => {
      if (!request.body.includes('a.made')) return respondedWith(204);
      count += 1;
      return respondedWith(count % 3 === 0 ? 503 : 204);
    };
    await fixture.start();
    await fixture.publish(
      ...Array<string>(100).fill('a.made'),
      ...Array<string>(50).fill('b.made'),
    );
    assert.equal(fixture.transport.posts.length - count, 50);
    assert.equal(count, 5);
    for (let second = 1; second <= 10; second += 1) {
      await fixture.clock.advance(1000);
      assert.equal(count, 5 + 5 * second);
    }
  });

  test('attempts whose rows are claimed slowly count when they begin', async (t) => {
    const claims = Promise.withResolvers<void>();
    let isSlow = false;
    const fixture = await createDeliveryFixture(t, {
      respond: () => respondedWith(503),
      through: (store) =>
        withDeliveries(store, {
          claimDue: async (requests) => {
            if (isSlow) await claims.promise;
            return store.deliveries.claimDue(requests);
          },
        }),
    });
    await fixture.addStream({ delivery: { perSecond: 4 } });
    await fixture.start();
    await fixture.publishMany(4);
    isSlow = true;
    // Their retries are due now; four slots are granted, and the claim takes a second and a half.
    await fixture.clock.advance(2500);
    const before = fixture.sent().length;
    claims.resolve();
    await fixture.clock.advance(0);
    await fixture.publishMany(20);
    await fixture.clock.advance(20);
    assert.deepEqual([before, fixture.sent().length - before], [4, 4]);
    await fixture.clock.advance(1000);
    assert.equal(fixture.sent().length - before, 8);
  });

  test('less than one attempt a second', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.addStream({ delivery: { perSecond: 0.1 } });
    await fixture.start();
    await fixture.publishMany(10);
    assert.equal(fixture.sent().length, 1);
    await fixture.clock.advance(9999);
    assert.equal(fixture.sent().length, 1);
    await fixture.clock.advance(30_001);
    assert.equal(fixture.sent().length, 5);
  });

  test('a takeover adds one burst at most', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.addStream({ delivery: { perSecond: 3 } });
    await fixture.start();
    await fixture.publishMany(50);
    await fixture.clock.advance(2000);
    const before = fixture.sent().length;
    assert.equal(before, 9);
    await fixture.crash();
    await fixture.clock.advance(1000);
    assert.ok(fixture.sent().length - before <= 3 + 3, `${fixture.sent().length - before}`);
  });

  test('a changed rate applies at once', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream({ delivery: { perSecond: 0.1 } });
    await fixture.start();
    await fixture.publishMany(50);
    await fixture.update(stream, { delivery: { perSecond: 10 } });
    await fixture.clock.advance(0);
    assert.equal(fixture.sent().length, 1 + 10);
    await fixture.update(stream, { delivery: undefined });
    await fixture.clock.advance(0);
    assert.equal(fixture.sent().length, 50);
  });
});
