import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { DeliveryOptions } from '../../src/core/types.ts';
import { noDescriptor, ok, respondedWith, type ScriptedPost } from '../helpers/transport.ts';
import { newEvent, newId } from '../store/contract/fixture.ts';
import { createDeliveryFixture, type DeliveryFixture } from './fixture.ts';

/** A shortage of the node is no attempt: no rule about the receiver hears of it. */

const longMs = 120_000;

/** Lets the node be short for as long as `isShort` says; returns what receivers got meanwhile. */
function shortage(fixture: DeliveryFixture, respond: (post: ScriptedPost) => typeof ok = () => ok) {
  const state = { isShort: true, tries: 0 };
  const received: string[] = [];
  fixture.transport.respond = (post) => {
    if (state.isShort) {
      state.tries += 1;
      return noDescriptor;
    }
    received.push(post.eventId);
    return respond(post);
  };
  return { state, received };
}

const charged = (fixture: DeliveryFixture) =>
  fixture.reported('attempt').filter(({ result }) => result !== 'delivered');

async function createFixture(t: TestContext, delivery?: DeliveryOptions) {
  const disable = { consecutive: 3, total: 5 };
  const settings = { disable, retryDelaysMs: [1000] };
  const fixture = await createDeliveryFixture(t, { settings });
  const stream = await fixture.addStream(delivery === undefined ? {} : { delivery });
  await fixture.start();
  return { fixture, stream };
}

describe('a shortage of the node', () => {
  const kinds: readonly (readonly [name: string, delivery: DeliveryOptions | undefined])[] = [
    ['a stream', undefined],
    ['a stream in order', { orderBy: '/data/user' }],
    ['a stream with a schedule of its own', { retry: { delaysSeconds: [60] } }],
    ['a stream with one slot', { concurrency: 1 }],
  ];
  for (const [name, delivery] of kinds) {
    test(`${name}: minutes of it fail nothing, and everything is sent afterwards`, async (t) => {
      const { fixture, stream } = await createFixture(t, delivery);
      const { state, received } = shortage(fixture);
      const time = fixture.clock.now();
      const events = Array.from({ length: 40 }, (_, n) =>
        newEvent({ time, body: JSON.stringify({ data: { user: `u${n % 2}` } }) }),
      );
      await fixture.store.log.append(fixture.tenant, events);
      await fixture.clock.advance(longMs);
      assert.ok(state.tries > 0);
      state.isShort = false;
      await fixture.clock.advance(60_000);
      const ids = events.map(({ id }) => id);
      assert.deepEqual(received.toSorted(), ids.toSorted());
      if (delivery?.orderBy !== undefined) {
        for (const user of [0, 1]) {
          const own = ids.filter((_, n) => n % 2 === user);
          assert.deepEqual(
            received.filter((id) => own.includes(id)),
            own,
          );
        }
      }
      assert.deepEqual(charged(fixture), []);
      assert.deepEqual(fixture.reported('receiver_down'), []);
      const health = await fixture.store.streams.health(fixture.tenant, stream.id);
      assert.deepEqual(health, { consecutive: 0, total: 0 });
      assert.deepEqual(
        fixture.reported('shortage').map(({ resource, isOver }) => [resource, isOver]),
        [
          ['descriptors', false],
          ['descriptors', true],
        ],
      );
    });
  }

  test('a stream in order: the next event of a key waits for one that the node could not send', async (t) => {
    const { fixture } = await createFixture(t, { orderBy: '/data/user' });
    const received: string[] = [];
    let tries = 0;
    fixture.transport.respond = (post) => {
      tries += 1;
      if (tries === 1) return noDescriptor;
      received.push(post.eventId);
      return ok;
    };
    const body = JSON.stringify({ data: { user: 'u' } });
    const events = Array.from({ length: 5 }, () => newEvent({ time: fixture.clock.now(), body }));
    await fixture.store.log.append(fixture.tenant, events);
    await fixture.clock.advance(10_000);
    assert.deepEqual(
      received,
      events.map(({ id }) => id),
    );
  });

  test('a retry keeps the number of its attempt', async (t) => {
    const { fixture, stream } = await createFixture(t);
    fixture.transport.respond = () => respondedWith(503);
    const [id = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(10);
    const { state, received } = shortage(fixture, () => respondedWith(503));
    await fixture.clock.advance(longMs);
    assert.ok(state.tries > 1);
    assert.equal(charged(fixture).length, 1);
    state.isShort = false;
    await fixture.clock.advance(10_000);
    assert.deepEqual(received, [id]);
    assert.deepEqual(
      charged(fixture).map(({ attempt, result }) => [attempt, result]),
      [
        [1, 'retry'],
        [2, 'failed'],
      ],
    );
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 1, total: 1 });
  });

  test('a redelivery and a replay go on when it is over', async (t) => {
    const { fixture, stream } = await createFixture(t);
    fixture.transport.respond = () => respondedWith(400);
    const [failed = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(10);
    fixture.transport.respond = () => ok;
    const ids = await fixture.publishMany(20);
    await fixture.clock.advance(5000);
    const { state, received } = shortage(fixture);
    const { store, tenant } = fixture;
    await store.deliveries.redeliver(tenant, stream.id, failed);
    const to = await store.log.head(tenant);
    const asked = { tenant, stream: stream.id, from: 1, to, types: undefined, id: newId('rpl') };
    assert.ok('created' in (await store.replays.create(asked)));
    await fixture.clock.advance(longMs);
    assert.deepEqual(received, []);
    state.isShort = false;
    await fixture.clock.advance(60_000);
    assert.deepEqual(new Set(received), new Set([failed, ...ids]));
    assert.equal(received.length, ids.length + 1);
    const replay = await store.replays.get(tenant, stream.id, asked.id);
    assert.deepEqual([replay?.status, replay?.sent, replay?.failed], ['done', 20, 0]);
    const health = await store.streams.health(tenant, stream.id);
    assert.deepEqual(health, { consecutive: 0, total: 0 });
  });

  test('a delivery whose trial the node could not make is sent along with the others when the receiver is back', async (t) => {
    const { fixture, stream } = await createFixture(t, { retry: { delaysSeconds: [3600, 3600] } });
    fixture.transport.respond = () => respondedWith(503);
    const ids = await fixture.publishMany(3);
    await fixture.clock.advance(1000);
    assert.equal(fixture.reported('receiver_down').length, 1);
    const { state, received } = shortage(fixture);
    await fixture.clock.advance(longMs);
    assert.ok(state.tries > 0, 'trials were begun');
    const { store, tenant } = fixture;
    for (const id of ids) {
      const found = await store.eventLog.find(tenant, id);
      assert.ok(found);
      const { items } = await store.eventLog.deliveries(tenant, found, {
        after: undefined,
        take: 10,
      });
      assert.deepEqual(
        items.map(({ stream: of, state: is }) => [of, is]),
        [[stream.id, 'retrying']],
      );
    }
    state.isShort = false;
    await fixture.clock.advance(5 * 60_000);
    assert.deepEqual(received.toSorted(), ids.toSorted());
  });

  test('a receiver that is back is not down again for what the node cannot send of the rest', async (t) => {
    const settings = { disable: { consecutive: 3, total: 50 } };
    const fixture = await createDeliveryFixture(t, { settings });
    await fixture.addStream({ delivery: { retry: { delaysSeconds: [3600, 3600] } } });
    await fixture.start();
    fixture.transport.respond = () => respondedWith(503);
    const ids = await fixture.publishMany(20);
    await fixture.clock.advance(1000);
    const { state, received } = shortage(fixture);
    // The first trial succeeds, and all others are released.
    state.isShort = false;
    const { respond } = fixture.transport;
    fixture.transport.respond = (post) => {
      const result = respond(post);
      state.isShort = true;
      return result;
    };
    await fixture.clock.advance(5 * 60_000);
    assert.equal(received.length, 1);
    fixture.transport.respond = respond;
    state.isShort = false;
    await fixture.clock.advance(60_000);
    assert.deepEqual(received.toSorted(), ids.toSorted());
    assert.equal(fixture.reported('receiver_down').length, 1);
    assert.equal(fixture.reported('receiver_up').length, 1);
  });

  test('what waits for its end becomes a failure when the stream is disabled', async (t) => {
    const { fixture, stream } = await createFixture(t);
    const { state, received } = shortage(fixture);
    await fixture.publishMany(2);
    await fixture.clock.advance(1000);
    assert.ok(state.tries > 0);
    await fixture.update(stream, { status: 'disabled' });
    await fixture.clock.advance(longMs);
    const waiting = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.equal(waiting?.total, 2);
    state.isShort = false;
    await fixture.update(stream, { status: 'enabled' }, 'latest');
    await fixture.clock.advance(longMs);
    assert.deepEqual(received, []);
  });

  test('a crash in it loses nothing', async (t) => {
    const { fixture } = await createFixture(t, { orderBy: '/data/user' });
    const { state, received } = shortage(fixture);
    const ids = await fixture.publishMany(10);
    await fixture.clock.advance(1000);
    await fixture.crash();
    state.isShort = false;
    await fixture.clock.advance(60_000);
    assert.deepEqual(received.toSorted(), ids.toSorted());
    assert.deepEqual(charged(fixture), []);
  });
});
