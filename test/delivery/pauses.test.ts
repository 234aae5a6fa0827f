import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import { respondedWith } from '../helpers/transport.ts';
import { newEvent, newId } from '../store/contract/fixture.ts';
import { createDeliveryFixture, type DeliveryFixture, withDeliveries } from './fixture.ts';

const hourMs = 3_600_000;
/** Days pass in these tests: fewer heartbeats and polls make them short. */
const calm = { heartbeatMs: 600_000, leaseStopMs: 1_800_000, leaseMs: 3_600_000, pollMs: 600_000 };

const pause = (fixture: DeliveryFixture, stream: Stream) =>
  fixture.update(stream, { paused: { at: 0 } });
const resume = (fixture: DeliveryFixture, stream: Stream) =>
  fixture.update(stream, { paused: undefined });

const ok = () => respondedWith(204);
const busy = () => respondedWith(503, 'busy');

describe('a paused stream', () => {
  test('events of the pause wait, and are sent in order once it is resumed', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: { streamConcurrency: 1 } });
    await fixture.start();
    const stream = await fixture.addStream();
    await pause(fixture, stream);
    const before = await fixture.cursor(stream);
    const ids = await fixture.publishMany(30);
    await fixture.clock.advance(hourMs);
    assert.deepEqual(fixture.sent(), []);
    assert.equal(await fixture.cursor(stream), before);
    await resume(fixture, stream);
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), ids);
  });

  test('events that it had in memory wait too, and none is skipped or sent twice', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: { streamConcurrency: 2 } });
    await fixture.start();
    const stream = await fixture.addStream();
    fixture.transport.respond = () => undefined;
    const ids = await fixture.publishMany(12);
    assert.equal(fixture.sent().length, 2);
    await pause(fixture, stream);
    fixture.transport.respond = ok;
    for (const post of fixture.transport.posts.slice(0, 2)) post.end(ok());
    await fixture.clock.advance(hourMs);
    assert.equal(fixture.sent().length, 2, 'only the attempts under way ended');
    await resume(fixture, stream);
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent().toSorted(), ids.toSorted());
    assert.deepEqual(fixture.reported('attempt').length, 12);
  });

  test('its cursor passes events that it does not want, up to the first one that it has to send', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.start();
    const stream = await fixture.addStream();
    await pause(fixture, stream);
    await fixture.publish(...Array<string>(50).fill('user.deleted'));
    await fixture.clock.advance(120_000);
    assert.equal(await fixture.cursor(stream), 50);
    const ids = [];
    for (let round = 0; round < 20; round += 1) {
      ids.push(...(await fixture.publish('user.created', 'user.deleted')));
    }
    await fixture.clock.advance(120_000);
    assert.equal(await fixture.cursor(stream), 50);
    assert.ok(fixture.dispatcher.state().queuedBytes < 200, 'one event is in memory');
    await fixture.crash();
    await fixture.clock.advance(120_000);
    assert.equal(await fixture.cursor(stream), 50);
    assert.deepEqual(fixture.sent(), []);
    await resume(fixture, stream);
    await fixture.clock.advance(1000);
    assert.deepEqual(
      fixture.sent(),
      ids.filter((_id, index) => index % 2 === 0),
    );
  });

  test('a retry waits, and is sent at once when it became due during the pause', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: busy });
    await fixture.start();
    const stream = await fixture.addStream();
    const [id = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(100);
    await pause(fixture, stream);
    await fixture.clock.advance(hourMs);
    assert.deepEqual(fixture.sent(), [id]);
    fixture.transport.respond = ok;
    await resume(fixture, stream);
    await fixture.clock.advance(20);
    assert.deepEqual(fixture.sent(), [id, id]);
    const [, second] = fixture.reported('attempt');
    assert.deepEqual([second?.attempt, second?.result], [2, 'delivered']);
  });

  test('a retry that was claimed when the pause began waits', async (t) => {
    let claimed = 0;
    let pauseNow = async (): Promise<unknown> => undefined;
    const fixture = await createDeliveryFixture(t, {
      respond: busy,
      through: (store) =>
        withDeliveries(store, {
          claimDue: async (requests) => {
            const rows = await store.deliveries.claimDue(requests);
            claimed += rows.flatMap((each) => each.rows).length;
            await pauseNow();
            return rows;
          },
        }),
    });
    await fixture.start();
    const stream = await fixture.addStream();
    pauseNow = () =>
      fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
        after: { ...before, paused: before.paused ?? { at: 0 } },
      }));
    await fixture.publish('user.created');
    await fixture.clock.advance(hourMs);
    assert.deepEqual([claimed, fixture.sent().length], [1, 1]);
    pauseNow = async () => undefined;
    fixture.transport.respond = ok;
    await resume(fixture, stream);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().length, 2);
  });

  test('an attempt that ends during the pause counts, and its retry waits', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.start();
    const stream = await fixture.addStream();
    const [post] = await fixture.publishHanging('user.created');
    await pause(fixture, stream);
    post?.end(busy());
    await fixture.clock.advance(hourMs);
    assert.equal(fixture.sent().length, 1);
    assert.equal((await fixture.store.streams.facts(fixture.tenant, stream.id))?.retrying, 1);
    fixture.transport.respond = ok;
    await resume(fixture, stream);
    await fixture.clock.advance(20);
    assert.equal(fixture.sent().length, 2);
  });

  test('redeliveries and test events are sent, and their retries', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: { retryDelaysMs: [1000] } });
    fixture.transport.respond = busy;
    await fixture.start();
    const stream = await fixture.addStream();
    const [failure = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(5000);
    await pause(fixture, stream);
    const [waiting] = await fixture.publish('user.created');
    const { deliveries } = fixture.store;
    const tested = newEvent();
    const sentBefore = fixture.sent().length;
    await deliveries.redeliver(fixture.tenant, stream.id, failure);
    await deliveries.addTest(fixture.tenant, stream.id, tested);
    await fixture.clock.advance(10_000);
    const sent = fixture.sent().slice(sentBefore);
    assert.deepEqual(sent.toSorted(), [failure, failure, tested.id, tested.id].toSorted());
    assert.ok(!sent.includes(waiting ?? ''));
  });

  test('a replay waits, and goes on once the stream is resumed', { tags: ['long'] }, async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.start();
    const stream = await fixture.addStream();
    const ids = await fixture.publishMany(20);
    await fixture.clock.advance(120_000);
    await pause(fixture, stream);
    const sentBefore = fixture.sent().length;
    const ref = { tenant: fixture.tenant, stream: stream.id };
    const id = newId('rpl');
    await fixture.store.replays.create({ ...ref, id, from: 0, to: 20, types: undefined });
    await fixture.clock.advance(hourMs);
    assert.equal(fixture.sent().length, sentBefore);
    await resume(fixture, stream);
    await fixture.clock.advance(10_000);
    assert.deepEqual(fixture.sent().slice(sentBefore).toSorted(), ids.toSorted());
    assert.equal((await fixture.store.replays.get(fixture.tenant, stream.id, id))?.status, 'done');
  });

  test('a cycle of 72 h does not count a pause of 60 h', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: calm, respond: busy });
    await fixture.start();
    const delaysSeconds = Array<number>(20).fill(86_400);
    const stream = await fixture.addStream({ delivery: { retry: { delaysSeconds } } });
    const startMs = fixture.clock.elapsedMs();
    const times: number[] = [];
    fixture.transport.respond = () => {
      times.push((fixture.clock.elapsedMs() - startMs) / hourMs);
      return busy();
    };
    await fixture.publish('user.created');
    await fixture.clock.advance(30 * hourMs);
    assert.equal(times.length, 2);
    await pause(fixture, stream);
    await fixture.clock.advance(60 * hourMs);
    assert.equal(times.length, 2);
    await resume(fixture, stream);
    await fixture.clock.advance(120 * hourMs);
    const last = times.at(-1) ?? 0;
    assert.ok(last > 131 && last < 133, `${last} h`);
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 1, total: 1 });
  });

  test('a takeover leaves the pause, and what waits is sent by the new owner', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: busy });
    await fixture.start();
    const stream = await fixture.addStream();
    const ids = await fixture.publishMany(3);
    await fixture.clock.advance(100);
    await pause(fixture, stream);
    ids.push(...(await fixture.publishMany(3)));
    const sentBefore = fixture.sent().length;
    await fixture.crash();
    await fixture.clock.advance(hourMs);
    assert.equal(fixture.sent().length, sentBefore);
    fixture.transport.respond = ok;
    await resume(fixture, stream);
    await fixture.clock.advance(5000);
    assert.deepEqual(fixture.sent().slice(sentBefore).toSorted(), ids.toSorted());
  });

  test('a stream that is enabled again while it is paused sends only when it is resumed', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.start();
    const stream = await fixture.addStream();
    await pause(fixture, stream);
    await fixture.update(stream, { status: 'disabled' });
    const ids = await fixture.publishMany(2);
    await fixture.update(stream, { status: 'enabled' }, 'held');
    await fixture.clock.advance(hourMs);
    assert.deepEqual(fixture.sent(), []);
    await resume(fixture, stream);
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sent(), ids);
  });

  test('no attempt begins once the owner has seen the pause, while events and retries come', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      settings: { retryDelaysMs: Array<number>(50).fill(50) },
    });
    let count = 0;
    fixture.transport.respond = () => {
      count += 1;
      return count % 2 === 0 ? busy() : ok();
    };
    await fixture.start();
    const stream = await fixture.addStream();
    const ref = { tenant: fixture.tenant, stream: stream.id };
    for (let round = 0; round < 20; round += 1) {
      await fixture.publishMany(7);
      await fixture.clock.advance(round * 7);
      await pause(fixture, stream);
      while (!(await fixture.store.ownership.hasSeen(ref))) await fixture.clock.advance(1);
      const sent = fixture.sent().length;
      await fixture.publishMany(3);
      await fixture.clock.advance(1000);
      assert.equal(fixture.sent().length, sent, `round ${round}`);
      await resume(fixture, stream);
      await fixture.clock.advance(round % 3);
    }
    fixture.transport.respond = ok;
    await fixture.clock.advance(60_000);
    const delivered = fixture.reported('attempt').filter(({ result }) => result === 'delivered');
    assert.equal(new Set(delivered.map(({ eventId }) => eventId)).size, 200);
    assert.equal(delivered.length, 200);
  });
});
