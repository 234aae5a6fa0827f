import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreContentRefused } from '../../src/core/errors.ts';
import { ok } from '../helpers/transport.ts';
import { dismissFailures } from '../store/contract/failure-work.ts';
import { newEvent } from '../store/contract/fixture.ts';
import { withDeliveries } from './fixture.ts';
import { orderBy, type OrderFixture, orderFixture } from './order-fixture.ts';

describe('a stream that sends in order', () => {
  test('events with the same value are sent one after the other, others beside them', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('aab');
    assert.deepEqual(fixture.openNames(), ['a1', 'b1']);
    await fixture.end('a1');
    assert.deepEqual(fixture.openNames(), ['b1', 'a2']);
    await fixture.end('a2');
    await fixture.end('b1');
    assert.equal(await fixture.cursor(fixture.stream), 3);
  });

  test('order_by may have dots between its names', async (t) => {
    const fixture = await orderFixture(t, { delivery: { orderBy: 'data.user' } });
    await fixture.publishFor('aab');
    assert.deepEqual(fixture.openNames(), ['a1', 'b1']);
  });

  test('the next event begins once the outcome of the one before is stored, not earlier', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('aa');
    const [post] = fixture.transport.open;
    post?.end(ok);
    await fixture.clock.advance(0);
    assert.deepEqual(fixture.openNames(), []);
    await fixture.clock.advance(20);
    assert.deepEqual(fixture.openNames(), ['a2']);
  });

  test('events without the value are not ordered', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('---');
    assert.deepEqual(fixture.openNames(), ['-1', '-2', '-3']);
  });

  test('the empty pointer orders the whole stream', async (t) => {
    const fixture = await orderFixture(t, { delivery: { orderBy: '' } });
    await fixture.publishFor('ab-');
    assert.deepEqual(fixture.openNames(), ['a1']);
    await fixture.end('a1');
    assert.deepEqual(fixture.openNames(), ['b1']);
    await fixture.end('b1');
    assert.deepEqual(fixture.openNames(), ['-1']);
  });

  test('a retry holds its key: the next event waits for its end, be it a failure', async (t) => {
    const fixture = await orderFixture(t, { settings: { retryDelaysMs: [3000] } });
    await fixture.publishFor('aab');
    await fixture.end('a1', 503);
    await fixture.end('b1');
    assert.deepEqual(fixture.openNames(), []);
    await fixture.clock.advance(3000);
    assert.deepEqual(fixture.openNames(), ['a1']);
    await fixture.end('a1', 503);
    await fixture.clock.advance(20);
    assert.deepEqual(fixture.openNames(), ['a2']);
  });

  test('an event that waits for longer than a second gets a row, and the cursor passes it', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('aaab');
    await fixture.end('b1');
    await fixture.clock.advance(1100);
    assert.equal(await fixture.cursor(fixture.stream), 4);
    for (const name of ['a1', 'a2', 'a3']) {
      assert.deepEqual(fixture.openNames(), [name]);
      await fixture.end(name);
      await fixture.clock.advance(50);
    }
    const [owned] = await ownedOf(fixture);
    assert.deepEqual([owned?.waiting, owned?.keys, owned?.takenAbove], [0, [], []]);
  });

  test('after a crash the event under way is repeated, and none before it', async (t) => {
    const fixture = await orderFixture(t);
    // The other key holds the cursor back.
    await fixture.publishFor('baaa');
    await fixture.end('a1');
    await fixture.end('a2');
    assert.deepEqual(fixture.openNames(), ['b1', 'a3']);
    await fixture.crash();
    await fixture.clock.advance(0);
    assert.deepEqual(fixture.sentNames(), ['b1', 'a1', 'a2', 'a3', 'b1', 'a3']);
  });

  test('a crash amid the parts of a refused batch: what is recorded is not repeated, all else is', async (t) => {
    let recorded = 0;
    let refused: string | undefined;
    const fixture = await orderFixture(t, {
      through: (store) =>
        withDeliveries(store, {
          settle: async (...args) => {
            const outcomes = args[2].flatMap((settlement) => settlement.outcomes);
            if (outcomes.some(({ event }) => event.id === refused))
              throw new StoreContentRefused('a text');
            if (recorded > 0) return fixture.unavailable();
            recorded = outcomes.length;
            return store.deliveries.settle(...args);
          },
        }),
    });
    // The first one holds the cursor back.
    await fixture.publishFor('zabcd');
    const [, ...others] = fixture.transport.open;
    refused = others.at(-1)?.eventId;
    for (const post of others) post.end(ok);
    await fixture.clock.advance(20);
    assert.equal(recorded, 2);
    await fixture.crash();
    await fixture.clock.advance(0);
    assert.deepEqual(fixture.sentNames().slice(5), ['z1', 'c1', 'd1']);
  });

  test('after a crash blocked rows are sent before the log, in order', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('aaa');
    await fixture.clock.advance(1100);
    await fixture.publishFor('a');
    await fixture.crash();
    await fixture.clock.advance(100);
    for (const name of ['a1', 'a2', 'a3', 'a4']) {
      assert.deepEqual(fixture.openNames(), [name]);
      await fixture.end(name);
      await fixture.clock.advance(50);
    }
  });

  test('an event gets a row only with the attempt before it, so that a crash swaps none', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('aaa');
    await fixture.clock.advance(800);
    await fixture.end('a1');
    assert.deepEqual(fixture.openNames(), ['a2']);
    // The third has waited for a second, the second is under way for less.
    await fixture.clock.advance(400);
    await fixture.crash();
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sentNames(), ['a1', 'a2', 'a2']);
    await fixture.end('a2');
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.sentNames(), ['a1', 'a2', 'a2', 'a3']);
  });

  test('an event in memory waits for the one before that is getting its row', async (t) => {
    const opening = Promise.withResolvers<void>();
    let settlements = 0;
    const fixture = await orderFixture(t, {
      through: (store) =>
        withDeliveries(store, {
          settle: async (...args) => {
            settlements += 1;
            if (settlements === 1) await opening.promise;
            return store.deliveries.settle(...args);
          },
        }),
    });
    await fixture.publishFor('aa');
    await fixture.clock.advance(500);
    await fixture.publishFor('a');
    await fixture.clock.advance(400);
    await fixture.end('a1');
    assert.equal(settlements, 1);
    // The outcome is on its way to the store while the second event gets a row, and the third none.
    await fixture.clock.advance(200);
    opening.resolve();
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sentNames(), ['a1', 'a2']);
    await fixture.end('a2');
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.sentNames(), ['a1', 'a2', 'a3']);
  });

  test('a retry that is on its way to the store keeps its wait when an event behind it gets a row', async (t) => {
    const opening = Promise.withResolvers<void>();
    let isSlow = false;
    const fixture = await orderFixture(t, {
      settings: { retryDelaysMs: [1000] },
      through: (store) =>
        withDeliveries(store, {
          settle: async (...args) => {
            if (isSlow) await opening.promise;
            return store.deliveries.settle(...args);
          },
        }),
    });
    await fixture.publishFor('aa');
    // The second event gets a row, from which it is sent.
    await fixture.clock.advance(1100);
    await fixture.end('a1');
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.openNames(), ['a2']);
    await fixture.publishFor('a');
    await fixture.clock.advance(900);
    isSlow = true;
    await fixture.end('a2', 503);
    // The third one gets a row while the outcome of the second is on its way.
    await fixture.clock.advance(200);
    isSlow = false;
    opening.resolve();
    await fixture.clock.advance(1500);
    assert.deepEqual(fixture.openNames(), ['a2']);
    await fixture.end('a2', 503);
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.openNames(), ['a3']);
  });

  test('a claim whose result was lost does not let later events overtake its row', async (t) => {
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
    await fixture.publishFor('aa');
    await fixture.clock.advance(1100);
    await fixture.publishFor('a');
    await fixture.end('a1');
    await fixture.clock.advance(2000);
    assert.equal(isLost, true);
    assert.deepEqual(fixture.sentNames(), ['a1']);
    // The lease of the row ends.
    await fixture.clock.advance(20_000);
    assert.deepEqual(fixture.sentNames(), ['a1', 'a2']);
    await fixture.end('a2');
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.sentNames(), ['a1', 'a2', 'a3']);
    // The owner, which is not idle, knows that no row of the key is left.
    await fixture.publishFor('b');
    await fixture.end('a3');
    await fixture.clock.advance(50);
    await fixture.publishFor('a');
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.openNames(), ['b1', 'a4']);
  });

  test('block: after a failure the key waits until it was redelivered with success', async (t) => {
    const fixture = await blockingFixture(t);
    await fixture.publishFor('aab');
    const [failed] = fixture.sent();
    await fixture.end('a1', 500);
    await fixture.end('b1');
    await fixture.clock.advance(60_000);
    assert.deepEqual(fixture.openNames(), []);
    const { store, tenant, stream } = fixture;
    await store.deliveries.redeliver(tenant, stream.id, failed ?? '');
    await fixture.clock.advance(20);
    await fixture.end('a1', 500);
    await fixture.clock.advance(60_000);
    assert.deepEqual(fixture.openNames(), []);
    await fixture.restart();
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.openNames(), []);
    await store.deliveries.redeliver(tenant, stream.id, failed ?? '');
    await fixture.clock.advance(20);
    await fixture.end('a1');
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.openNames(), ['a2']);
  });

  test('block: a dismissed failure frees its key, and is not sent again after a crash', async (t) => {
    const fixture = await blockingFixture(t);
    await fixture.publishFor('aab');
    const [failed = ''] = fixture.sent();
    await fixture.end('a1', 500);
    await fixture.end('b1');
    await fixture.clock.advance(2000);
    assert.deepEqual(fixture.openNames(), []);
    const { store, tenant, stream } = fixture;
    const dismissed = await dismissFailures(store, tenant, stream.id, { eventIds: [failed] });
    assert.deepEqual(dismissed, { dismissed: 1, skipped: 0 });
    await fixture.crash();
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sentNames(), ['a1', 'b1', 'a2']);
    await fixture.end('a2');
    await fixture.publishFor('a');
    assert.deepEqual(fixture.openNames(), ['a3']);
  });

  test('block: the owner that sends goes on after a dismissal as well', async (t) => {
    const fixture = await blockingFixture(t);
    await fixture.publishFor('aa');
    await fixture.end('a1', 500);
    await fixture.clock.advance(2000);
    assert.deepEqual(fixture.openNames(), []);
    await dismissFailures(fixture.store, fixture.tenant, fixture.stream.id);
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.openNames(), ['a2']);
  });

  test('block: a stream that is changed to continue goes on', async (t) => {
    const fixture = await blockingFixture(t);
    await fixture.publishFor('aa');
    await fixture.end('a1', 500);
    await fixture.clock.advance(2000);
    await fixture.update(fixture.stream, { delivery: { orderBy } });
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.openNames(), ['a2']);
  });

  test('without order_by, the rows of before are sent all the same', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('aaa');
    await fixture.clock.advance(1100);
    await fixture.update(fixture.stream, { delivery: undefined });
    await fixture.publishFor('a');
    assert.deepEqual(fixture.openNames(), ['a1', 'a4']);
    await fixture.end('a1');
    await fixture.clock.advance(50);
    assert.deepEqual(fixture.openNames(), ['a4', 'a2']);
  });

  test('events that wait when the stream is disabled are sent once it is enabled', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('aa');
    await fixture.clock.advance(1100);
    const disabled = await fixture.update(fixture.stream, { status: 'disabled' });
    await fixture.end('a1');
    await fixture.clock.advance(5000);
    assert.deepEqual(fixture.openNames(), []);
    await fixture.update(disabled, { status: 'enabled' }, 'held');
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.openNames(), ['a2']);
  });

  test('latest: events that waited in memory are skipped like those of the log', async (t) => {
    const fixture = await orderFixture(t);
    await fixture.publishFor('aaa');
    const disabled = await fixture.update(fixture.stream, { status: 'disabled' });
    await fixture.update(disabled, { status: 'enabled' }, 'latest');
    await fixture.end('a1');
    await fixture.clock.advance(5000);
    assert.deepEqual(fixture.sentNames(), ['a1']);
    await fixture.publishFor('a');
    assert.deepEqual(fixture.openNames(), ['a4']);
  });

  test('events that wait behind their keys take no more memory than the queues may', async (t) => {
    const fixture = await orderFixture(t, { settings: { pageBytes: 2000 } });
    const bodyOf = (user: string) => JSON.stringify({ data: { user, text: 'x'.repeat(1000) } });
    const bodies = [...Array<string>(200).fill('a'), 'b'].map(bodyOf);
    const time = fixture.clock.now();
    await fixture.store.log.append(
      fixture.tenant,
      bodies.map((body) => newEvent({ time, body })),
    );
    await fixture.clock.advance(500);
    const { queuedBytes } = fixture.dispatcher.state();
    assert.ok(queuedBytes > 10_000 && queuedBytes < 36_000, `${queuedBytes}`);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(20_000);
    assert.equal(fixture.sent().length, 201);
    assert.equal(fixture.dispatcher.state().queuedBytes, 0);
  });

  test('a thousand events that wait for one key do not hold up those of others', async (t) => {
    const fixture = await orderFixture(t, { settings: { pageEvents: 100 } });
    await fixture.publishFor('a'.repeat(300) + 'bcd');
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.openNames().toSorted(), ['a1', 'b1', 'c1', 'd1']);
  });
});

/** Every failure blocks its key at once. */
const blockingFixture = (t: TestContext): Promise<OrderFixture> =>
  orderFixture(t, { settings: { retryDelaysMs: [] }, delivery: { onFailure: 'block' } });

async function ownedOf({ store, stream, dispatcher }: OrderFixture) {
  void dispatcher;
  const node = await store.ownership.nodes();
  assert.equal(node.length, 1);
  const refs = [{ tenant: stream.tenant, stream: stream.id }];
  const present = { id: node[0]?.id ?? '', incarnation: 1 };
  return store.ownership.owned(present, refs, { longestWaitMs: 3_600_000 });
}
