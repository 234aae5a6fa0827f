import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Replay, Stream } from '../../src/core/types.ts';
import type { NewReplay } from '../../src/store/port/replays.ts';
import { respondedWith, ok, timedOut } from '../helpers/transport.ts';
import { newId } from '../store/contract/fixture.ts';
import {
  createDeliveryFixture,
  settings,
  type DeliveryFixture,
  withDeliveries,
} from './fixture.ts';

const busy = respondedWith(503, 'busy');

/** Accepts a replay of everything up to the head of the log. */
async function accept(
  fixture: DeliveryFixture,
  stream: Stream,
  options: Partial<NewReplay> = {},
): Promise<Replay> {
  const to = await fixture.store.log.head(fixture.tenant);
  const asked = { tenant: fixture.tenant, stream: stream.id, from: 0, to, types: undefined };
  const result = await fixture.store.replays.create({ ...asked, id: newId('rpl'), ...options });
  assert.ok('created' in result);
  return result.created;
}

/** Accepts such a replay and lets it begin. */
async function replay(
  fixture: DeliveryFixture,
  stream: Stream,
  options: Partial<NewReplay> = {},
): Promise<Replay> {
  const accepted = await accept(fixture, stream, options);
  await fixture.clock.advance(0);
  return accepted;
}

async function progress(fixture: DeliveryFixture, { stream, id }: Replay) {
  const found = await fixture.store.replays.get(fixture.tenant, stream, id);
  assert.ok(found);
  const { status, matched, sent, failed } = found;
  return { status, matched, sent, failed };
}

/** Creates a stream that has been sent `count` events. */
async function withPast(fixture: DeliveryFixture, count: number) {
  const stream = await fixture.addStream();
  await fixture.start();
  const ids = await fixture.publishMany(count);
  await fixture.clock.advance(500);
  assert.deepEqual(fixture.sent(), ids);
  // Longer than the clocks of two nodes may differ.
  await fixture.clock.advance(2000);
  return { stream, ids };
}

/** Returns the events that were sent after the first `count` posts. */
const sentAfter = (fixture: DeliveryFixture, count: number) => fixture.sent().slice(count);

describe('a replay', () => {
  test('a replay sends the events of its range again, each once, and ends as done', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream, ids } = await withPast(fixture, 60);
    const begun = await replay(fixture, stream, { from: 10 });
    await fixture.clock.advance(2000);
    assert.deepEqual(sentAfter(fixture, 60).toSorted(), ids.slice(10).toSorted());
    const expected = { status: 'done', matched: 50, sent: 50, failed: 0 };
    assert.deepEqual(await progress(fixture, begun), expected);
    assert.equal(await fixture.cursor(stream), 60);
  });

  test('a replay begins at once and continues without waiting for a poll', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: { pollMs: 1_000_000 } });
    const { stream, ids } = await withPast(fixture, 40);
    const begun = await replay(fixture, stream);
    await fixture.clock.advance(1000);
    assert.equal(sentAfter(fixture, 40).length, ids.length);
    assert.equal((await progress(fixture, begun)).status, 'done');
  });

  test('a replay issues no store command while there is nothing to send', async (t) => {
    let asked = 0;
    const fixture = await createDeliveryFixture(t, {
      settings: { pollMs: 1_000_000, attemptTimeoutMs: 1_000_000 },
      through: (store) => ({
        ...store,
        replays: {
          ...store.replays,
          materialize: (...args) => {
            asked += 1;
            return store.replays.materialize(...args);
          },
        },
      }),
    });
    const { stream } = await withPast(fixture, 20);
    assert.equal(asked, 0);
    fixture.transport.respond = () => undefined;
    await replay(fixture, stream);
    await fixture.clock.advance(10_000);
    // Its slots are taken, and no attempt ends.
    assert.equal(fixture.transport.open.length, 3);
    const before = asked;
    await fixture.clock.advance(100_000);
    assert.equal(asked, before);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(1000);
    assert.equal(fixture.transport.posts.length, 40);
    const after = asked;
    await fixture.clock.advance(100_000);
    assert.equal(asked, after);
  });

  test('a replay leaves a quarter of the slots to fresh events, which do not wait for it', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream } = await withPast(fixture, 30);
    fixture.transport.respond = () => undefined;
    await replay(fixture, stream);
    await fixture.clock.advance(100);
    assert.equal(fixture.transport.open.length, settings.streamConcurrency - 1);
    const before = fixture.transport.posts.length;
    const [fresh] = await fixture.publish('user.created');
    assert.deepEqual(sentAfter(fixture, before), [fresh]);
  });

  test('a replay sends nothing while the stream has other events to send', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream } = await withPast(fixture, 20);
    fixture.transport.respond = () => undefined;
    const fresh = await fixture.publishMany(30);
    const begun = await replay(fixture, stream, { to: 20 });
    for (let round = 0; round < 6; round += 1) {
      for (const post of fixture.transport.open) post.end(ok);
      await fixture.clock.advance(20);
    }
    const sent = sentAfter(fixture, 20);
    assert.deepEqual(sent, fresh.slice(0, sent.length));
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(1000);
    assert.deepEqual(sentAfter(fixture, 20).slice(0, 30), fresh);
    assert.deepEqual(await progress(fixture, begun), {
      status: 'done',
      matched: 20,
      sent: 20,
      failed: 0,
    });
  });

  test('a replay continues along with steady traffic that leaves slots free', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream, ids } = await withPast(fixture, 30);
    const begun = await replay(fixture, stream);
    for (let round = 0; round < 40; round += 1) {
      await fixture.publish('user.created');
      await fixture.clock.advance(15);
    }
    assert.deepEqual(await progress(fixture, begun), {
      status: 'done',
      matched: 30,
      sent: 30,
      failed: 0,
    });
    assert.equal(fixture.transport.posts.length, 2 * ids.length + 40);
  });

  test('events that had not been sent when the replay was accepted are not sent twice', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream, ids } = await withPast(fixture, 5);
    fixture.transport.respond = () => undefined;
    const slow = await fixture.publishMany(20);
    await fixture.clock.advance(2000);
    const begun = await replay(fixture, stream);
    await fixture.clock.advance(2000);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(3000);
    // Four were under way when it was accepted: they had been sent by then.
    const again = slow.slice(0, settings.streamConcurrency);
    assert.deepEqual(fixture.sent().toSorted(), [...ids, ...ids, ...slow, ...again].toSorted());
    assert.equal((await progress(fixture, begun)).status, 'done');
  });

  test('an event that was delivered a moment before is sent, though its result is not recorded', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(3);
    assert.deepEqual(fixture.sent(), ids);
    await replay(fixture, stream);
    await fixture.clock.advance(1000);
    assert.deepEqual(sentAfter(fixture, 3).toSorted(), ids.toSorted());
  });

  test('a replay of events that the stream did not subscribe to before begins below its lagging cursor', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream({ types: ['a.a'] });
    await fixture.start();
    const ids = await fixture.publish('b.b', 'b.b', 'b.b');
    await fixture.update(stream, { types: ['b.b'] });
    await replay(fixture, stream);
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), ids);
  });

  test('a replay whose hint was lost is found at the next poll', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => hint.kind !== 'stream' && listener(hint)),
      }),
    });
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(3);
    await fixture.clock.advance(100);
    await replay(fixture, stream);
    await fixture.clock.advance(settings.pollMs + 1000);
    assert.deepEqual(sentAfter(fixture, 3).toSorted(), ids.toSorted());
  });

  test('events that were materialized are sent although the result of that command was lost', async (t) => {
    let lost = 0;
    const fixture = await createDeliveryFixture(t, {
      settings: { pollMs: 1_000_000 },
      through: (store) => ({
        ...store,
        replays: {
          ...store.replays,
          materialize: async (...args) => {
            const result = await store.replays.materialize(...args);
            lost += 1;
            return lost === 1 ? fixture.unavailable() : result;
          },
        },
      }),
    });
    const { stream } = await withPast(fixture, 3);
    await replay(fixture, stream);
    await fixture.clock.advance(1000);
    assert.equal(sentAfter(fixture, 3).length, 3);
  });
});

describe('replays of many streams at once', () => {
  /** Creates streams that have each been sent the same event, and replays it to all of them. */
  async function replays(fixture: DeliveryFixture, count: number): Promise<Replay[]> {
    const streams: Stream[] = [];
    for (let number = 0; number < count; number += 1) streams.push(await fixture.addStream());
    await fixture.start();
    await fixture.publishMany(5);
    await fixture.clock.advance(5000);
    assert.equal(fixture.sent().length, 5 * count);
    const begun: Replay[] = [];
    for (const stream of streams) begun.push(await accept(fixture, stream));
    return begun;
  }

  test('replays leave slots of the node to the fresh events of others', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: { pollMs: 1_000_000 } });
    await fixture.addStream({ types: ['other.made'] });
    const begun = await replays(fixture, 12);
    fixture.transport.respond = () => undefined;
    await fixture.clock.advance(5000);
    const open = fixture.transport.open.length;
    assert.ok(open > 0 && open < settings.concurrency, `${open} attempts`);
    const [fresh] = await fixture.publish('other.made');
    assert.equal(fixture.sent().at(-1), fresh);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(2000);
    for (const one of begun) {
      const expected = { status: 'done', matched: 5, sent: 5, failed: 0 };
      assert.deepEqual(await progress(fixture, one), expected);
    }
  });

  test('replays materialize one at a time: other store commands wait for one of them at most', async (t) => {
    const commands: string[] = [];
    const held = Promise.withResolvers<void>();
    let holds = false;
    const fixture = await createDeliveryFixture(t, {
      settings: { concurrency: 1000, pollMs: 1_000_000 },
      through: (store) => ({
        ...store,
        replays: {
          ...store.replays,
          materialize: async (...args) => {
            commands.push('feed');
            if (holds) await held.promise;
            return store.replays.materialize(...args);
          },
        },
        deliveries: {
          ...store.deliveries,
          settle: async (...args) => {
            commands.push('settle');
            return store.deliveries.settle(...args);
          },
        },
      }),
    });
    await fixture.addStream({ types: ['other.made'] });
    const begun = await replays(fixture, 30);
    holds = true;
    commands.length = 0;
    await fixture.clock.advance(0);
    assert.deepEqual(commands, ['feed']);
    await fixture.publish('other.made');
    await fixture.clock.advance(settings.settleMs);
    held.resolve();
    await fixture.clock.advance(0);
    assert.ok(commands.includes('settle'), commands.join());
    assert.ok(commands.indexOf('settle') <= 2, commands.join());
    await fixture.clock.advance(5000);
    for (const one of begun) assert.equal((await progress(fixture, one)).status, 'done');
  });
});

describe('deliveries of a replay', () => {
  test('deliveries of a replay are retried by the schedule and fail like others', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream, ids } = await withPast(fixture, 2);
    fixture.transport.respond = ({ eventId }) => (eventId === ids[0] ? busy : ok);
    const begun = await replay(fixture, stream);
    await fixture.clock.advance(500);
    assert.deepEqual(await progress(fixture, begun), {
      status: 'running',
      matched: 2,
      sent: 1,
      failed: 0,
    });
    await fixture.clock.advance(8000);
    assert.equal(sentAfter(fixture, 2).filter((id) => id === ids[0]).length, 4);
    assert.deepEqual(await progress(fixture, begun), {
      status: 'done',
      matched: 2,
      sent: 1,
      failed: 1,
    });
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 1, total: 1 });
    const query = { after: undefined, take: 10 };
    const { items } = await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query);
    assert.deepEqual(
      items.map(({ event }) => event.id),
      [ids[0]],
    );
  });

  test('deliveries of a replay that wait for a retry do not block fresh events', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      settings: { disable: { consecutive: 4, total: 1000 } },
    });
    const { stream, ids } = await withPast(fixture, 20);
    fixture.transport.respond = ({ eventId }) => (ids.includes(eventId) ? busy : ok);
    await replay(fixture, stream);
    await fixture.clock.advance(200);
    const [fresh] = await fixture.publish('user.created');
    assert.equal(fixture.sent().at(-1), fresh);
  });

  test('deliveries of a replay continue after a crash and after a stop', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream, ids } = await withPast(fixture, 40);
    const begun = await replay(fixture, stream);
    for (const end of [fixture.crash, fixture.restart, fixture.crash]) {
      await fixture.clock.advance(35);
      assert.equal((await progress(fixture, begun)).status, 'running');
      await end();
    }
    await fixture.clock.advance(1000);
    assert.deepEqual(new Set(sentAfter(fixture, 40)), new Set(ids));
    const expected = { status: 'done', matched: 40, sent: 40, failed: 0 };
    assert.deepEqual(await progress(fixture, begun), expected);
  });
});

describe('a replay of a stream that is disabled', () => {
  test('a replay pauses while its stream is disabled, makes no failures, and continues when it is enabled', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream, ids } = await withPast(fixture, 20);
    fixture.transport.respond = () => undefined;
    const begun = await replay(fixture, stream);
    await fixture.clock.advance(50);
    assert.equal(fixture.transport.open.length, 3);
    await fixture.update(stream, { status: 'disabled' });
    for (const post of fixture.transport.open) post.end(busy);
    await fixture.clock.advance(60_000);
    assert.equal(sentAfter(fixture, 20).length, 3);
    assert.equal(fixture.dispatcher.state().streams, 0);
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 0, total: 0 });
    fixture.transport.respond = () => ok;
    await fixture.update(stream, { status: 'enabled' });
    await fixture.clock.advance(2000);
    assert.deepEqual(new Set(sentAfter(fixture, 20)), new Set(ids));
    const expected = { status: 'done', matched: 20, sent: 20, failed: 0 };
    assert.deepEqual(await progress(fixture, begun), expected);
  });

  test('a disabled stream with a replay sends nothing but redeliveries', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream, ids } = await withPast(fixture, 20);
    fixture.transport.respond = () => respondedWith(400);
    const [fails] = await fixture.publish('user.created');
    assert.ok(fails);
    await fixture.clock.advance(50);
    fixture.transport.respond = () => undefined;
    const begun = await replay(fixture, stream, { to: 20 });
    await fixture.clock.advance(50);
    const { redeliver } = fixture.store.deliveries;
    await redeliver(fixture.tenant, stream.id, fails);
    await fixture.update(stream, { status: 'disabled' });
    const before = fixture.transport.posts.length;
    for (const post of fixture.transport.open) post.end(timedOut);
    await fixture.clock.advance(30_000);
    assert.ok(sentAfter(fixture, before).every((id) => id === fails));
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.update(stream, { status: 'enabled' });
    await fixture.clock.advance(20_000);
    assert.ok(ids.every((id) => sentAfter(fixture, 20).includes(id)));
    const expected = { status: 'done', matched: 20, sent: 20, failed: 0 };
    assert.deepEqual(await progress(fixture, begun), expected);
  });
});

describe('a replay that is cancelled', () => {
  test('a cancelled replay sends nothing more, and an attempt under way ends', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream } = await withPast(fixture, 20);
    fixture.transport.respond = () => undefined;
    const begun = await replay(fixture, stream);
    await fixture.clock.advance(50);
    await fixture.store.replays.cancel(fixture.tenant, stream.id, begun.id);
    await fixture.clock.advance(0);
    assert.equal(fixture.transport.open.length, 3);
    assert.ok(fixture.transport.open.every(({ cancelled }) => !cancelled));
    for (const post of fixture.transport.open) post.end(busy);
    await fixture.clock.advance(60_000);
    assert.equal(sentAfter(fixture, 20).length, 3);
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 0, total: 0 });
    assert.equal((await progress(fixture, begun)).status, 'cancelled');
  });

  test('attempts of a cancelled replay do not count for the next one, which sends every event itself', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const { stream, ids } = await withPast(fixture, 12);
    fixture.transport.respond = () => undefined;
    const former = await replay(fixture, stream);
    await fixture.clock.advance(50);
    await fixture.store.replays.cancel(fixture.tenant, stream.id, former.id);
    const begun = await replay(fixture, stream);
    await fixture.clock.advance(500);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(2000);
    assert.deepEqual(sentAfter(fixture, 12 + 3).toSorted(), ids.toSorted());
    const expected = { status: 'done', matched: 12, sent: 12, failed: 0 };
    assert.deepEqual(await progress(fixture, begun), expected);
  });

  test('rows that were claimed before the cancellation was known are not sent', async (t) => {
    const claimed = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    let holds = false;
    const fixture = await createDeliveryFixture(t, {
      through: (store) =>
        withDeliveries(store, {
          claimDue: async (...args) => {
            const answers = await store.deliveries.claimDue(...args);
            if (holds) {
              claimed.resolve();
              await goOn.promise;
            }
            return answers;
          },
        }),
    });
    const { stream } = await withPast(fixture, 12);
    holds = true;
    const begun = await replay(fixture, stream);
    await claimed.promise;
    holds = false;
    await fixture.store.replays.cancel(fixture.tenant, stream.id, begun.id);
    goOn.resolve();
    await fixture.clock.advance(20_000);
    assert.deepEqual(sentAfter(fixture, 12), []);
    assert.equal(fixture.dispatcher.state().inFlight, 0);
  });
});
