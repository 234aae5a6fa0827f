import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withDeliveries } from './fixture.ts';
import { orderFixture } from './order-fixture.ts';

describe('a stream that sends in order, when something fails', () => {
  test('the retry of a claim whose result was lost takes no later row of the key', async (t) => {
    let isLost = false;
    const fixture = await orderFixture(t, {
      through: (store) =>
        withDeliveries(store, {
          claimDue: async (requests) => {
            const claimed = await store.deliveries.claimDue(requests);
            if (isLost || !claimed.some(({ rows }) => rows.length > 0)) return claimed;
            isLost = true;
            return fixture.unavailable();
          },
        }),
    });
    await fixture.publishFor('aaa');
    await fixture.clock.advance(1100);
    await fixture.end('a1');
    await fixture.clock.advance(2000);
    assert.equal(isLost, true);
    assert.deepEqual(fixture.openNames(), []);
    // The lease of the second one ends.
    await fixture.clock.advance(20_000);
    assert.deepEqual(fixture.openNames(), ['a2']);
    await fixture.end('a2');
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.openNames(), ['a3']);
  });

  test('what a former run settled is not repeated by a new owner', async (t) => {
    let switching: (() => Promise<void>) | undefined;
    const fixture = await orderFixture(t, {
      through: (store) =>
        withDeliveries(store, {
          settle: async (...args) => {
            await switching?.();
            return store.deliveries.settle(...args);
          },
        }),
    });
    // The other key holds the cursor back.
    await fixture.publishFor('baaa');
    await fixture.end('a1');
    switching = async () => {
      switching = undefined;
      const { store, tenant, stream } = fixture;
      for (const status of ['disabled', 'enabled'] as const) {
        await store.streams.update(tenant, stream.id, (before) => {
          return { after: { ...before, status }, resume: 'held' };
        });
      }
    };
    await fixture.end('a2');
    assert.equal(switching, undefined);
    assert.deepEqual(fixture.openNames(), ['b1', 'a3']);
    await fixture.crash();
    await fixture.clock.advance(0);
    assert.deepEqual(fixture.sentNames(), ['b1', 'a1', 'a2', 'a3', 'b1', 'a3']);
  });

  test('a stream with 10,000 blocked rows takes events of other keys once some are sent', async (t) => {
    const fixture = await orderFixture(t, {
      settings: { retryDelaysMs: [], parkAfterMs: 100, pageEvents: 2000, settleMax: 2000 },
      delivery: { onFailure: 'block' },
    });
    await fixture.publishFor('a' + 'c'.repeat(20));
    await fixture.end('a1', 500);
    for (const count of [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 990]) {
      await fixture.publishFor('a'.repeat(count));
      await fixture.clock.advance(300);
    }
    await fixture.publishFor('b');
    await fixture.clock.advance(2000);
    assert.deepEqual(fixture.openNames(), ['c1']);
    for (let count = 1; count <= 20; count += 1) await fixture.end(`c${count}`);
    await fixture.clock.advance(2000);
    assert.deepEqual(fixture.openNames(), ['b1']);
  });

  test('a row whose lease ends before its attempt does is not sent beside it', async (t) => {
    const fixture = await orderFixture(t, { settings: { retryDelaysMs: [100] } });
    await fixture.publishFor('aa');
    await fixture.clock.advance(20_000);
    // The claim of another row finds that of the first event.
    await fixture.publishFor('b');
    await fixture.end('b1', 503);
    await fixture.clock.advance(200);
    assert.deepEqual(fixture.openNames(), ['a1', 'b1']);
    await fixture.end('a1');
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.openNames(), ['b1', 'a2']);
  });

  test('a receiver that is down gets one event a minute, no matter how many blocked rows are ready', async (t) => {
    const fixture = await orderFixture(t, {
      settings: { streamConcurrency: 16, slowSlots: 16, disable: { consecutive: 6, total: 1000 } },
      delivery: { retry: { delaysSeconds: [7200] } },
    });
    const failing = 'abcdef';
    const refusing = 'ghij';
    await fixture.publishFor((failing + refusing).repeat(2));
    await fixture.clock.advance(1100);
    for (const user of failing) await fixture.end(`${user}1`, 503);
    for (const user of refusing) await fixture.end(`${user}1`, 400);
    await fixture.clock.advance(1000);
    assert.equal(fixture.reported('receiver_down').length, 1);
    assert.deepEqual(fixture.openNames(), []);
    await fixture.clock.advance(60_000);
    assert.deepEqual(fixture.openNames(), ['a1']);
  });
});
