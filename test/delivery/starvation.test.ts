import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import { respondedWith, ok, type ScriptedPost, timedOut } from '../helpers/transport.ts';
import { addTenant } from '../store/contract/fixture.ts';
import { createDeliveryFixture } from './fixture.ts';

/** Receivers that respond after a time, or hang until the timeout, on the clock of the fixture. */
async function createFixture(t: TestContext, options: Partial<DeliverySettings>) {
  const takesMs = new Map<string, (n: number) => number>();
  const sent = new Map<string, number>();
  const open = new Map<string, Set<ScriptedPost>>();
  const fixture = await createDeliveryFixture(t, {
    settings: {
      concurrency: 64,
      streamConcurrency: 16,
      pageEvents: 100,
      settleMax: 64,
      parkAfterEvents: 64,
      disable: { consecutive: 100_000, total: 1_000_000 },
      ...options,
    },
    respond: (post) => {
      const id = String(JSON.parse(post.request.body).svcstream);
      const n = (sent.get(id) ?? 0) + 1;
      sent.set(id, n);
      const ms = takesMs.get(id)?.(n) ?? 0;
      if (ms < 0) return respondedWith(503);
      if (ms === 0) return ok;
      const all = open.get(id) ?? new Set();
      open.set(id, all);
      all.add(post);
      fixture.clock.after(Math.min(ms, 10_000), () => {
        all.delete(post);
        post.end(ms >= 10_000 ? timedOut : ok);
      });
      return undefined;
    },
  });
  const { id: other } = await addTenant(fixture.store, 'other');
  await fixture.start();
  return {
    fixture,
    other,
    takesMs,
    add: async (tenant: number, type: string, count = 1) => {
      const all: Stream[] = [];
      while (all.length < count) all.push(await fixture.addStream({ tenant, types: [type] }));
      return all;
    },
    publish: fixture.publishTo,
    sentTo: ({ id }: Stream) => sent.get(id) ?? 0,
    openOf: ({ id }: Stream) => open.get(id)?.size ?? 0,
  };
}

const hang = () => 10_000;

describe('another tenant', () => {
  test('another tenant whose receiver needs 1.5 s is served when quick streams begin to hang', async (t) => {
    const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, {});
    const hostile = await add(fixture.tenant, 'a.made', 40);
    const [honest] = await add(other, 'b.made');
    assert.ok(honest);
    takesMs.set(honest.id, () => 1500);
    await publish(fixture.tenant, 3, 'a.made');
    await publish(other, 4, 'b.made');
    await fixture.clock.advance(3000);
    const before = sentTo(honest);
    assert.equal(before, 4);
    for (const { id } of hostile) takesMs.set(id, hang);
    await publish(fixture.tenant, 20, 'a.made');
    await fixture.clock.advance(1200);
    await publish(other, 8, 'b.made');
    await fixture.clock.advance(6000);
    assert.equal(sentTo(honest) - before, 8, `state ${JSON.stringify(fixture.dispatcher.state())}`);
  });

  test(
    'another tenant whose receiver needs 1.5 s keeps most of its throughput along with a tenant of which one request of 12 hangs',
    { tags: ['long'] },
    async (t) => {
      const rates: number[] = [];
      for (const isHostile of [false, true]) {
        const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, {});
        const hostile = await add(fixture.tenant, 'a.made', 12);
        const [honest] = await add(other, 'b.made');
        assert.ok(honest);
        takesMs.set(honest.id, () => 1500);
        for (const { id } of hostile) {
          takesMs.set(id, (n) => (isHostile && n > 3 && n % 12 === 0 ? 10_000 : 0));
        }
        await publish(fixture.tenant, 3, 'a.made');
        await publish(other, 500, 'b.made');
        await fixture.clock.advance(15_000);
        const before = sentTo(honest);
        // 20 events a second for each of its streams.
        for (let tick = 0; tick < 120; tick += 1) {
          await publish(fixture.tenant, 20, 'a.made');
          await fixture.clock.advance(500);
        }
        rates.push(sentTo(honest) - before);
      }
      const [alone = 0, beside = 0] = rates;
      assert.ok(beside >= 0.6 * alone, `${beside} attempts in 60 s, ${alone} without`);
    },
  );

  test('another tenant is sent its events soon after a restart along with 300 streams that hang', async (t) => {
    const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, {});
    const hostile = await add(fixture.tenant, 'a.made', 300);
    for (const { id } of hostile) takesMs.set(id, hang);
    const [honest] = await add(other, 'b.made');
    assert.ok(honest);
    await publish(other, 3, 'b.made');
    await publish(fixture.tenant, 20, 'a.made');
    await fixture.clock.advance(2000);
    fixture.dispatcher.kill();
    await fixture.clock.advance(10_000);
    await publish(other, 5, 'b.made');
    const before = sentTo(honest);
    await fixture.crash();
    await fixture.clock.advance(5000);
    assert.equal(sentTo(honest) - before, 5, JSON.stringify(fixture.dispatcher.state()));
  });
});

describe('a stream of which one request of 20 hangs', () => {
  test('a stream of which one request of 20 hangs leaves half of its slots to others', async (t) => {
    const { fixture, takesMs, add, publish, openOf } = await createFixture(t, {
      concurrency: 1024,
      streamConcurrency: 64,
    });
    const [stream] = await add(fixture.tenant, 'a.made');
    assert.ok(stream);
    takesMs.set(stream.id, (n) => (n > 20 && n % 20 === 0 ? 10_000 : 0));
    let most = 0;
    for (let tick = 0; tick < 100; tick += 1) {
      await publish(fixture.tenant, 20, 'a.made');
      await fixture.clock.advance(100);
      most = Math.max(most, openOf(stream));
    }
    assert.ok(most <= 32, `${most} of its 64 slots hang at once`);
  });

  test('quick streams of the tenant are served along with 100 streams of which one request of 20 hangs', async (t) => {
    const { fixture, takesMs, add, publish, sentTo } = await createFixture(t, {
      concurrency: 256,
      streamConcurrency: 64,
    });
    const hostile = await add(fixture.tenant, 'a.made', 100);
    const [quick] = await add(fixture.tenant, 'b.made');
    assert.ok(quick);
    for (const { id } of hostile) takesMs.set(id, (n) => (n > 3 && n % 20 === 0 ? 10_000 : 0));
    await publish(fixture.tenant, 3, 'a.made');
    await publish(fixture.tenant, 3, 'b.made');
    const late: number[] = [];
    for (let tick = 0; tick < 100; tick += 1) {
      await publish(fixture.tenant, 2, 'a.made');
      const before = sentTo(quick);
      await publish(fixture.tenant, 1, 'b.made');
      await fixture.clock.advance(100);
      late.push(before + 1 - sentTo(quick));
    }
    const waited = late.filter((n) => n > 0).length;
    assert.ok(waited <= 1, `${waited} of 100 events were not sent within 100 ms`);
  });
});

describe('quick streams of a tenant', () => {
  test('quick streams of a tenant are served along with 100 that respond after 990 ms', async (t) => {
    const { fixture, takesMs, add, publish, sentTo } = await createFixture(t, {
      concurrency: 256,
      streamConcurrency: 64,
    });
    const hostile = await add(fixture.tenant, 'a.made', 100);
    const [quick] = await add(fixture.tenant, 'b.made');
    assert.ok(quick);
    await publish(fixture.tenant, 3, 'a.made');
    await publish(fixture.tenant, 3, 'b.made');
    for (const { id } of hostile) takesMs.set(id, () => 990);
    const lateMs: number[] = [];
    for (let tick = 0; tick < 60; tick += 1) {
      await publish(fixture.tenant, 1, 'a.made');
      await publish(fixture.tenant, 1, 'b.made');
      let waited = 0;
      while (sentTo(quick) < tick + 4) {
        await fixture.clock.advance(10);
        waited += 10;
      }
      lateMs.push(waited);
      await fixture.clock.advance(Math.max(0, 200 - waited));
    }
    const late = lateMs.toSorted((a, b) => b - a);
    assert.ok(
      (late[0] ?? 0) <= 100,
      `the latest of 60 events were sent after ${late.slice(0, 12).join(', ')} ms`,
    );
  });
});

describe('a third tenant', () => {
  test('a new stream of a third tenant begins although two others have streams that hang', async (t) => {
    const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, {});
    const { id: third } = await addTenant(fixture.store, 'third');
    const hostile = [
      ...(await add(fixture.tenant, 'a.made', 20)),
      ...(await add(other, 'b.made', 20)),
    ];
    await publish(fixture.tenant, 3, 'a.made');
    await publish(other, 3, 'b.made');
    await fixture.clock.advance(100);
    for (const { id } of hostile) takesMs.set(id, hang);
    await publish(fixture.tenant, 10, 'a.made');
    await publish(other, 10, 'b.made');
    await fixture.clock.advance(1500);
    const [honest] = await add(third, 'c.made');
    assert.ok(honest);
    await publish(third, 1, 'c.made');
    await fixture.clock.advance(3000);
    assert.equal(sentTo(honest), 1, JSON.stringify(fixture.dispatcher.state()));
  });
});

describe('with few slots', () => {
  for (const concurrency of [2, 3, 4, 5, 8]) {
    test(`a new stream of another tenant begins along with one that hangs, with ${concurrency} slots`, async (t) => {
      const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, {
        concurrency,
      });
      const [hostile] = await add(fixture.tenant, 'a.made');
      assert.ok(hostile);
      takesMs.set(hostile.id, hang);
      await publish(fixture.tenant, 10, 'a.made');
      const [honest] = await add(other, 'b.made');
      assert.ok(honest);
      await fixture.clock.advance(30_000);
      await publish(other, 1, 'b.made');
      await fixture.clock.advance(3000);
      assert.equal(sentTo(honest), 1, JSON.stringify(fixture.dispatcher.state()));
    });
  }
});

/** The settings of production. */
const production = {
  concurrency: 1024,
  streamConcurrency: 64,
  pageEvents: 1000,
  pageBytes: 4_194_304,
  settleMax: 256,
  parkAfterEvents: 256,
  inflightBytesMax: 268_435_456,
  claimedBytes: 262_144,
  tailEventsMax: 10_000,
  tailBytesMax: 33_554_432,
};

describe('with the settings of production', () => {
  for (const count of [12, 100, 200]) {
    test(`a receiver of another tenant that needs 1.5 s is served when ${count} quick streams begin to hang`, async (t) => {
      const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, production);
      const hostile = await add(fixture.tenant, 'a.made', count);
      const [honest] = await add(other, 'b.made');
      assert.ok(honest);
      takesMs.set(honest.id, () => 1500);
      await publish(fixture.tenant, 3, 'a.made');
      await publish(other, 4, 'b.made');
      await fixture.clock.advance(3000);
      const before = sentTo(honest);
      for (const { id } of hostile) takesMs.set(id, hang);
      await publish(fixture.tenant, 100, 'a.made');
      await fixture.clock.advance(1200);
      await publish(other, 8, 'b.made');
      await fixture.clock.advance(6000);
      assert.equal(
        sentTo(honest) - before,
        8,
        `state ${JSON.stringify(fixture.dispatcher.state())}`,
      );
    });
  }

  test('a quick stream with one slow response is not delayed for seconds after 200 streams began to hang', async (t) => {
    const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, production);
    const hostile = await add(fixture.tenant, 'a.made', 200);
    const [honest] = await add(other, 'b.made');
    assert.ok(honest);
    await publish(fixture.tenant, 3, 'a.made');
    await publish(other, 50, 'b.made');
    await fixture.clock.advance(1000);
    for (const { id } of hostile) takesMs.set(id, hang);
    await publish(fixture.tenant, 100, 'a.made');
    await fixture.clock.advance(1200);
    // One of its responses needs 1.1 s, all others none.
    takesMs.set(honest.id, (n) => (n === 51 ? 1100 : 0));
    await publish(other, 1, 'b.made');
    await fixture.clock.advance(1200);
    await publish(other, 10, 'b.made');
    await fixture.clock.advance(1000);
    assert.equal(sentTo(honest), 61, JSON.stringify(fixture.dispatcher.state()));
  });

  test('another tenant is sent its events soon after a restart along with 600 streams that hang', async (t) => {
    const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, production);
    const hostile = await add(fixture.tenant, 'a.made', 600);
    const [honest] = await add(other, 'b.made');
    assert.ok(honest);
    await publish(other, 3, 'b.made');
    for (const { id } of hostile) takesMs.set(id, hang);
    await publish(fixture.tenant, 5, 'a.made');
    await fixture.clock.advance(2000);
    fixture.dispatcher.kill();
    await fixture.clock.advance(10_000);
    await publish(other, 5, 'b.made');
    const before = sentTo(honest);
    await fixture.crash();
    await fixture.clock.advance(5000);
    assert.equal(sentTo(honest) - before, 5, JSON.stringify(fixture.dispatcher.state()));
  });

  for (const [count, ms] of [
    [100, 990],
    [250, 990],
    [300, 990],
    [300, 9500],
    [100, 9500],
  ] as const) {
    test(`a quick stream of the same tenant is served along with ${count} that respond after ${ms} ms and are behind`, async (t) => {
      const { fixture, takesMs, add, publish, sentTo } = await createFixture(t, production);
      const hostile = await add(fixture.tenant, 'a.made', count);
      const [quick] = await add(fixture.tenant, 'b.made');
      assert.ok(quick);
      await publish(fixture.tenant, 3, 'a.made');
      await publish(fixture.tenant, 3, 'b.made');
      for (const { id } of hostile) takesMs.set(id, () => ms);
      await publish(fixture.tenant, 60, 'a.made');
      const lateMs: number[] = [];
      for (let tick = 0; tick < 20; tick += 1) {
        await publish(fixture.tenant, 2, 'a.made');
        await publish(fixture.tenant, 1, 'b.made');
        let waited = 0;
        while (sentTo(quick) < tick + 4) {
          await fixture.clock.advance(10);
          waited += 10;
        }
        lateMs.push(waited);
        await fixture.clock.advance(Math.max(0, 150 - waited));
      }
      const late = lateMs.toSorted((a, b) => b - a);
      assert.ok(
        (late[0] ?? 0) <= 50,
        `the latest of 20 events were sent after ${late.slice(0, 12).join(', ')} ms`,
      );
    });
  }
});

describe('across tenants, with the settings of production', () => {
  test('a quick stream along with 150 that hang is served after a burst of another tenant', async (t) => {
    const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, production);
    const hostile = await add(fixture.tenant, 'a.made', 150);
    const [quick] = await add(fixture.tenant, 'b.made');
    const bursts = await add(other, 'c.made', 8);
    assert.ok(quick);
    await publish(fixture.tenant, 3, 'a.made');
    await publish(fixture.tenant, 3, 'b.made');
    await publish(other, 3, 'c.made');
    await fixture.clock.advance(100);
    for (const { id } of hostile) takesMs.set(id, hang);
    await publish(fixture.tenant, 100, 'a.made');
    await fixture.clock.advance(1500);
    // 100 events for each of 8 streams, whose receivers need 50 ms.
    for (const { id } of bursts) takesMs.set(id, () => 50);
    // CONTROL=1: the same without the burst.
    await publish(other, 100, 'c.made');
    await publish(fixture.tenant, 1, 'b.made');
    let waited = 0;
    while (sentTo(quick) < 4) {
      await fixture.clock.advance(10);
      waited += 10;
    }
    assert.ok(waited <= 500, `${waited} ms; the burst took ${sentTo(bursts[0] as Stream)} events`);
  });

  test('a retry is sent within a minute although another tenant has many events (least LEAT_INFLIGHT_BYTES)', async (t) => {
    const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, {
      ...production,
      inflightBytesMax: 1_048_576,
    });
    const { id: third } = await addTenant(fixture.store, 'third');
    const busy = await add(fixture.tenant, 'a.made', 4);
    const [failing] = await add(other, 'b.made');
    const [hanging] = await add(third, 'c.made');
    assert.ok(failing && hanging);
    await publish(fixture.tenant, 3, 'a.made');
    await publish(third, 1, 'c.made');
    await fixture.clock.advance(100);
    for (const { id } of busy) takesMs.set(id, () => 500);
    takesMs.set(hanging.id, hang);
    takesMs.set(failing.id, () => -1);
    await publish(fixture.tenant, 200, 'a.made', 10_000);
    await publish(other, 1, 'b.made');
    assert.equal(sentTo(failing), 1);
    takesMs.set(failing.id, () => 0);
    for (let tick = 0; tick < 120 && sentTo(failing) < 2; tick += 1) {
      await publish(fixture.tenant, 80, 'a.made', 10_000);
      await publish(third, 2, 'c.made');
      await fixture.clock.advance(500);
    }
    assert.equal(
      sentTo(failing),
      2,
      `${JSON.stringify(fixture.dispatcher.state())} ${sentTo(busy[0] as Stream)}`,
    );
  });

  test('a tenant whose only neighbour has no stream any more may have all slots', async (t) => {
    const { fixture, other, takesMs, add, publish, sentTo } = await createFixture(t, {});
    const quick = await add(fixture.tenant, 'a.made', 8);
    await publish(fixture.tenant, 3, 'a.made');
    const [former] = await add(other, 'b.made');
    assert.ok(former);
    await fixture.clock.advance(100);
    await fixture.store.streams.delete(other, former.id);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.dispatcher.state().streams, 8);
    for (const { id } of quick) takesMs.set(id, () => 900);
    await publish(fixture.tenant, 16, 'a.made');
    await fixture.clock.advance(10);
    assert.ok(
      fixture.dispatcher.state().inFlight > 48,
      `${fixture.dispatcher.state().inFlight} of 64 ${sentTo(former)}`,
    );
  });

  test('a tenant alone may have all slots', async (t) => {
    const { fixture, takesMs, add, publish } = await createFixture(t, {});
    const quick = await add(fixture.tenant, 'a.made', 8);
    await publish(fixture.tenant, 3, 'a.made');
    await fixture.clock.advance(100);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.dispatcher.state().streams, 8);
    for (const { id } of quick) takesMs.set(id, () => 900);
    await publish(fixture.tenant, 16, 'a.made');
    await fixture.clock.advance(10);
    assert.ok(
      fixture.dispatcher.state().inFlight > 48,
      `${fixture.dispatcher.state().inFlight} of 64`,
    );
  });
});
