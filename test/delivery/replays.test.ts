import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Replay, Stream } from '../../src/core/types.ts';
import type { NewReplay } from '../../src/store/port/replays.ts';
import { answered, ok, timedOut } from '../helpers/transport.ts';
import { newId } from '../store/contract/fixture.ts';
import { createDeliveryScene, settings, type DeliveryScene } from './fixture.ts';

const busy = answered(503, 'busy');

/** Accepts a replay of everything up to the head of the log. */
async function accept(
  scene: DeliveryScene,
  stream: Stream,
  given: Partial<NewReplay> = {},
): Promise<Replay> {
  const to = await scene.store.log.head(scene.tenant);
  const asked = { tenant: scene.tenant, stream: stream.id, from: 0, to, types: undefined };
  const answer = await scene.store.replays.create({ ...asked, id: newId('rpl'), ...given });
  assert.ok('created' in answer);
  return answer.created;
}

/** The same, and lets it begin. */
async function replay(
  scene: DeliveryScene,
  stream: Stream,
  given: Partial<NewReplay> = {},
): Promise<Replay> {
  const accepted = await accept(scene, stream, given);
  await scene.clock.advance(0);
  return accepted;
}

async function progress(scene: DeliveryScene, { stream, id }: Replay) {
  const found = await scene.store.replays.get(scene.tenant, stream, id);
  assert.ok(found);
  const { status, matched, sent, failed } = found;
  return { status, matched, sent, failed };
}

/** A stream that has been sent `count` events; what is sent from here on is the test's. */
async function withPast(scene: DeliveryScene, count: number) {
  const stream = await scene.addStream();
  await scene.start();
  const ids = await scene.publishMany(count);
  await scene.clock.advance(500);
  assert.deepEqual(scene.sent(), ids);
  // Longer than the clocks of two nodes may differ.
  await scene.clock.advance(2000);
  return { stream, ids };
}

/** What was sent since the first `count` posts. */
const sentAfter = (scene: DeliveryScene, count: number) => scene.sent().slice(count);

describe('a replay', () => {
  test('sends the events of its range again, each once, and is done', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream, ids } = await withPast(scene, 60);
    const begun = await replay(scene, stream, { from: 10 });
    await scene.clock.advance(2000);
    assert.deepEqual(sentAfter(scene, 60).toSorted(), ids.slice(10).toSorted());
    const expected = { status: 'done', matched: 50, sent: 50, failed: 0 };
    assert.deepEqual(await progress(scene, begun), expected);
    assert.equal(await scene.cursor(stream), 60);
  });

  test('begins at once, and goes on without waiting for a look', async (t) => {
    const scene = await createDeliveryScene(t, { settings: { pollMs: 1_000_000 } });
    const { stream, ids } = await withPast(scene, 40);
    const begun = await replay(scene, stream);
    await scene.clock.advance(1000);
    assert.equal(sentAfter(scene, 40).length, ids.length);
    assert.equal((await progress(scene, begun)).status, 'done');
  });

  test('asks the store nothing while there is nothing to do', async (t) => {
    let asked = 0;
    const scene = await createDeliveryScene(t, {
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
    const { stream } = await withPast(scene, 20);
    assert.equal(asked, 0);
    scene.transport.respond = () => undefined;
    await replay(scene, stream);
    await scene.clock.advance(10_000);
    // The slots that it may have are taken, and nothing ends.
    assert.equal(scene.transport.open.length, 3);
    const before = asked;
    await scene.clock.advance(100_000);
    assert.equal(asked, before);
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(1000);
    assert.equal(scene.transport.posts.length, 40);
    const after = asked;
    await scene.clock.advance(100_000);
    assert.equal(asked, after);
  });

  test('leaves a quarter of the slots to fresh events, which do not wait behind it', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream } = await withPast(scene, 30);
    scene.transport.respond = () => undefined;
    await replay(scene, stream);
    await scene.clock.advance(100);
    assert.equal(scene.transport.open.length, settings.streamConcurrency - 1);
    const before = scene.transport.posts.length;
    const [fresh] = await scene.publish('user.created');
    assert.deepEqual(sentAfter(scene, before), [fresh]);
  });

  test('sends nothing while the stream has anything else to send', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream } = await withPast(scene, 20);
    scene.transport.respond = () => undefined;
    const fresh = await scene.publishMany(30);
    const begun = await replay(scene, stream, { to: 20 });
    for (let round = 0; round < 6; round += 1) {
      for (const post of scene.transport.open) post.end(ok);
      await scene.clock.advance(20);
    }
    const sent = sentAfter(scene, 20);
    assert.deepEqual(sent, fresh.slice(0, sent.length));
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(1000);
    assert.deepEqual(sentAfter(scene, 20).slice(0, 30), fresh);
    assert.deepEqual(await progress(scene, begun), {
      status: 'done',
      matched: 20,
      sent: 20,
      failed: 0,
    });
  });

  test('goes on beside steady traffic that leaves slots free', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream, ids } = await withPast(scene, 30);
    const begun = await replay(scene, stream);
    for (let round = 0; round < 40; round += 1) {
      await scene.publish('user.created');
      await scene.clock.advance(15);
    }
    assert.deepEqual(await progress(scene, begun), {
      status: 'done',
      matched: 30,
      sent: 30,
      failed: 0,
    });
    assert.equal(scene.transport.posts.length, 2 * ids.length + 40);
  });

  test('does not send twice what the stream had not been sent when it was accepted', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream, ids } = await withPast(scene, 5);
    scene.transport.respond = () => undefined;
    const slow = await scene.publishMany(20);
    await scene.clock.advance(2000);
    const begun = await replay(scene, stream);
    await scene.clock.advance(2000);
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(3000);
    // Four were under way when it was accepted: they had been sent by then.
    const again = slow.slice(0, settings.streamConcurrency);
    assert.deepEqual(scene.sent().toSorted(), [...ids, ...ids, ...slow, ...again].toSorted());
    assert.equal((await progress(scene, begun)).status, 'done');
  });

  test('sends what was delivered a moment before, though its result is not recorded', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(3);
    assert.deepEqual(scene.sent(), ids);
    await replay(scene, stream);
    await scene.clock.advance(1000);
    assert.deepEqual(sentAfter(scene, 3).toSorted(), ids.toSorted());
  });

  test('of events that the stream did not want before reaches back behind its lagging cursor', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream({ types: ['a.a'] });
    await scene.start();
    const ids = await scene.publish('b.b', 'b.b', 'b.b');
    await scene.update(stream, { types: ['b.b'] });
    await replay(scene, stream);
    await scene.clock.advance(1000);
    assert.deepEqual(scene.sent(), ids);
  });

  test('is looked for from time to time when nobody told of it', async (t) => {
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => hint.kind !== 'stream' && listener(hint)),
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(3);
    await scene.clock.advance(100);
    await replay(scene, stream);
    await scene.clock.advance(settings.pollMs + 1000);
    assert.deepEqual(sentAfter(scene, 3).toSorted(), ids.toSorted());
  });

  test('sends what it fed although the answer to that was lost', async (t) => {
    let lost = 0;
    const scene = await createDeliveryScene(t, {
      settings: { pollMs: 1_000_000 },
      through: (store) => ({
        ...store,
        replays: {
          ...store.replays,
          materialize: async (...args) => {
            const answer = await store.replays.materialize(...args);
            lost += 1;
            return lost === 1 ? scene.unavailable() : answer;
          },
        },
      }),
    });
    const { stream } = await withPast(scene, 3);
    await replay(scene, stream);
    await scene.clock.advance(1000);
    assert.equal(sentAfter(scene, 3).length, 3);
  });
});

describe('replays of many streams at once', () => {
  /** So many streams that have each been sent the same event and are to send it again. */
  async function replays(scene: DeliveryScene, count: number): Promise<Replay[]> {
    const streams: Stream[] = [];
    for (let number = 0; number < count; number += 1) streams.push(await scene.addStream());
    await scene.start();
    await scene.publishMany(5);
    await scene.clock.advance(5000);
    assert.equal(scene.sent().length, 5 * count);
    const begun: Replay[] = [];
    for (const stream of streams) begun.push(await accept(scene, stream));
    return begun;
  }

  test('leave slots of the node to the fresh events of others', async (t) => {
    const scene = await createDeliveryScene(t, { settings: { pollMs: 1_000_000 } });
    await scene.addStream({ types: ['other.made'] });
    const begun = await replays(scene, 12);
    scene.transport.respond = () => undefined;
    await scene.clock.advance(5000);
    const open = scene.transport.open.length;
    assert.ok(open > 0 && open < settings.concurrency, `${open} attempts`);
    const [fresh] = await scene.publish('other.made');
    assert.equal(scene.sent().at(-1), fresh);
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(2000);
    for (const one of begun) {
      const expected = { status: 'done', matched: 5, sent: 5, failed: 0 };
      assert.deepEqual(await progress(scene, one), expected);
    }
  });

  test('ask the store one at a time: what others have for it waits for one of them', async (t) => {
    const commands: string[] = [];
    const held = Promise.withResolvers<void>();
    let holds = false;
    const scene = await createDeliveryScene(t, {
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
    await scene.addStream({ types: ['other.made'] });
    const begun = await replays(scene, 30);
    holds = true;
    commands.length = 0;
    await scene.clock.advance(0);
    assert.deepEqual(commands, ['feed']);
    await scene.publish('other.made');
    await scene.clock.advance(settings.settleMs);
    held.resolve();
    await scene.clock.advance(0);
    assert.ok(commands.includes('settle'), commands.join());
    assert.ok(commands.indexOf('settle') <= 2, commands.join());
    await scene.clock.advance(5000);
    for (const one of begun) assert.equal((await progress(scene, one)).status, 'done');
  });
});

describe('deliveries of a replay', () => {
  test('are retried by the schedule, and fail as any other', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream, ids } = await withPast(scene, 2);
    scene.transport.respond = ({ eventId }) => (eventId === ids[0] ? busy : ok);
    const begun = await replay(scene, stream);
    await scene.clock.advance(500);
    assert.deepEqual(await progress(scene, begun), {
      status: 'running',
      matched: 2,
      sent: 1,
      failed: 0,
    });
    await scene.clock.advance(8000);
    assert.equal(sentAfter(scene, 2).filter((id) => id === ids[0]).length, 4);
    assert.deepEqual(await progress(scene, begun), {
      status: 'done',
      matched: 2,
      sent: 1,
      failed: 1,
    });
    const health = await scene.store.streams.health(scene.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 1, total: 1 });
    const query = { after: undefined, take: 10 };
    const { items } = await scene.store.deliveries.listFailures(scene.tenant, stream.id, query);
    assert.deepEqual(
      items.map(({ event }) => event.id),
      [ids[0]],
    );
  });

  test('that wait for a retry do not keep fresh events from being sent', async (t) => {
    const scene = await createDeliveryScene(t, {
      settings: { disable: { consecutive: 4, total: 1000 } },
    });
    const { stream, ids } = await withPast(scene, 20);
    scene.transport.respond = ({ eventId }) => (ids.includes(eventId) ? busy : ok);
    await replay(scene, stream);
    await scene.clock.advance(200);
    const [fresh] = await scene.publish('user.created');
    assert.equal(scene.sent().at(-1), fresh);
  });

  test('go on after a crash, and after an orderly end', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream, ids } = await withPast(scene, 40);
    const begun = await replay(scene, stream);
    for (const end of [scene.crash, scene.restart, scene.crash]) {
      await scene.clock.advance(35);
      assert.equal((await progress(scene, begun)).status, 'running');
      await end();
    }
    await scene.clock.advance(1000);
    assert.deepEqual(new Set(sentAfter(scene, 40)), new Set(ids));
    const expected = { status: 'done', matched: 40, sent: 40, failed: 0 };
    assert.deepEqual(await progress(scene, begun), expected);
  });
});

describe('a replay of a stream that is disabled', () => {
  test('pauses, makes no failures, and is sent on when it is enabled again', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream, ids } = await withPast(scene, 20);
    scene.transport.respond = () => undefined;
    const begun = await replay(scene, stream);
    await scene.clock.advance(50);
    assert.equal(scene.transport.open.length, 3);
    await scene.update(stream, { status: 'disabled' });
    for (const post of scene.transport.open) post.end(busy);
    await scene.clock.advance(60_000);
    assert.equal(sentAfter(scene, 20).length, 3);
    assert.equal(scene.dispatcher.state().streams, 0);
    const health = await scene.store.streams.health(scene.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 0, total: 0 });
    scene.transport.respond = () => ok;
    await scene.update(stream, { status: 'enabled' });
    await scene.clock.advance(2000);
    assert.deepEqual(new Set(sentAfter(scene, 20)), new Set(ids));
    const expected = { status: 'done', matched: 20, sent: 20, failed: 0 };
    assert.deepEqual(await progress(scene, begun), expected);
  });

  test('that has redeliveries to send sends nothing but those', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream, ids } = await withPast(scene, 20);
    scene.transport.respond = () => answered(400);
    const [fails] = await scene.publish('user.created');
    assert.ok(fails);
    await scene.clock.advance(50);
    scene.transport.respond = () => undefined;
    const begun = await replay(scene, stream, { to: 20 });
    await scene.clock.advance(50);
    const { redeliver } = scene.store.deliveries;
    await redeliver(scene.tenant, stream.id, fails);
    await scene.update(stream, { status: 'disabled' });
    const before = scene.transport.posts.length;
    for (const post of scene.transport.open) post.end(timedOut);
    await scene.clock.advance(30_000);
    assert.ok(sentAfter(scene, before).every((id) => id === fails));
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.update(stream, { status: 'enabled' });
    await scene.clock.advance(20_000);
    assert.ok(ids.every((id) => sentAfter(scene, 20).includes(id)));
    const expected = { status: 'done', matched: 20, sent: 20, failed: 0 };
    assert.deepEqual(await progress(scene, begun), expected);
  });
});

describe('a replay that is cancelled', () => {
  test('sends nothing more, and an attempt under way ends', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream } = await withPast(scene, 20);
    scene.transport.respond = () => undefined;
    const begun = await replay(scene, stream);
    await scene.clock.advance(50);
    await scene.store.replays.cancel(scene.tenant, stream.id, begun.id);
    await scene.clock.advance(0);
    assert.equal(scene.transport.open.length, 3);
    assert.ok(scene.transport.open.every(({ cancelled }) => !cancelled));
    for (const post of scene.transport.open) post.end(busy);
    await scene.clock.advance(60_000);
    assert.equal(sentAfter(scene, 20).length, 3);
    const health = await scene.store.streams.health(scene.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 0, total: 0 });
    assert.equal((await progress(scene, begun)).status, 'cancelled');
  });

  test('gives its attempts under way to nobody: the next one sends every event itself', async (t) => {
    const scene = await createDeliveryScene(t);
    const { stream, ids } = await withPast(scene, 12);
    scene.transport.respond = () => undefined;
    const former = await replay(scene, stream);
    await scene.clock.advance(50);
    await scene.store.replays.cancel(scene.tenant, stream.id, former.id);
    const begun = await replay(scene, stream);
    await scene.clock.advance(500);
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(2000);
    assert.deepEqual(sentAfter(scene, 12 + 3).toSorted(), ids.toSorted());
    const expected = { status: 'done', matched: 12, sent: 12, failed: 0 };
    assert.deepEqual(await progress(scene, begun), expected);
  });

  test('begins nothing that was claimed before it was heard of', async (t) => {
    const claimed = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    let holds = false;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          claimDue: async (...args) => {
            const answers = await store.deliveries.claimDue(...args);
            if (holds) {
              claimed.resolve();
              await goOn.promise;
            }
            return answers;
          },
        },
      }),
    });
    const { stream } = await withPast(scene, 12);
    holds = true;
    const begun = await replay(scene, stream);
    await claimed.promise;
    holds = false;
    await scene.store.replays.cancel(scene.tenant, stream.id, begun.id);
    goOn.resolve();
    await scene.clock.advance(20_000);
    assert.deepEqual(sentAfter(scene, 12), []);
    assert.equal(scene.dispatcher.state().inFlight, 0);
  });
});
