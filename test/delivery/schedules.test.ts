import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { respondedWith } from '../helpers/transport.ts';
import { createDeliveryFixture, type DeliveryFixture, withDeliveries } from './fixture.ts';

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
