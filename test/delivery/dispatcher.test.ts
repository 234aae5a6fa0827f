import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import { answered, headerOf, ok, timedOut } from '../helpers/transport.ts';
import { addTenant, newEvent } from '../store/contract/fixture.ts';
import { createDeliveryScene, secret, settings, type DeliveryScene } from './fixture.ts';

const busy = answered(503, 'busy');

/** A stream's open failures, newest first. */
async function failures(scene: DeliveryScene, stream: Stream) {
  const query = { after: undefined, take: 1000 };
  const page = await scene.store.deliveries.listFailures(scene.tenant, stream.id, query);
  return page.items;
}

describe('an event that is appended', () => {
  test('is sent in the same turn, settled, and the cursor passes it', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    let sentWithin = -1;
    scene.store.watch((hint) => {
      if (hint.kind === 'appended') sentWithin = scene.transport.posts.length;
    });
    const [id] = await scene.publish('user.created');
    assert.deepEqual(scene.sent(), [id]);
    assert.equal(sentWithin, 1);
    await scene.clock.advance(settings.settleMs);
    assert.equal(await scene.cursor(stream), 1);
  });

  test('goes to every stream that wants its type, and to no other', async (t) => {
    const scene = await createDeliveryScene(t);
    const wanted = await scene.addStream({ types: ['user.created', 'user.updated'] });
    const twice = await scene.addStream({ types: ['user.created', 'user.created'] });
    await scene.addStream({ types: ['user.deleted'] });
    await scene.addStream({ types: [] });
    await scene.start();
    await scene.publish('user.created', 'other.made');
    const bodies = scene.transport.posts.map(({ request }) => request.body);
    assert.equal(bodies.length, 2);
    assert.match(bodies[0] ?? '', new RegExp(`,"svcstream":"${wanted.id}"}$`));
    assert.match(bodies[1] ?? '', new RegExp(`,"svcstream":"${twice.id}"}$`));
  });

  test('before the dispatcher ran waits in the log and is sent when it does', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    const ids = await scene.publishMany(50);
    await scene.start();
    await scene.clock.advance(100);
    assert.deepEqual(scene.sent(), ids);
    assert.equal(await scene.cursor(stream), 50);
  });

  test('is sent to a stream that was created while the dispatcher ran', async (t) => {
    const scene = await createDeliveryScene(t);
    await scene.start();
    await scene.publish('user.created');
    await scene.addStream();
    const [id] = await scene.publish('user.created');
    assert.deepEqual(scene.sent(), [id]);
  });

  test('reaches a runner that fell behind the tail, in order and once', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(300);
    assert.equal(scene.dispatcher.state().behind, 1);
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(500);
    assert.deepEqual(scene.sent(), ids);
    assert.equal(await scene.cursor(stream), 300);
    assert.equal(scene.dispatcher.state().behind, 0);
  });

  test('that was not heard of is found at the next look', async (t) => {
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => hint.kind !== 'appended' && listener(hint)),
      }),
    });
    await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(3);
    assert.deepEqual(scene.sent(), []);
    await scene.clock.advance(settings.pollMs);
    assert.deepEqual(scene.sent(), ids);
  });

  test('that was not heard of is looked for in logs that have grown, of tenants with streams here', async (t) => {
    const asked: (readonly number[])[] = [];
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          heads: (tenants) => {
            asked.push(tenants);
            return store.log.heads(tenants);
          },
        },
      }),
    });
    await addTenant(scene.store, 'idle');
    const stream = await scene.addStream();
    await scene.start();
    const askedAtNextPoll = async (): Promise<(readonly number[])[]> => {
      asked.length = 0;
      await scene.clock.advance(settings.pollMs);
      return [...asked];
    };
    await askedAtNextPoll();
    assert.deepEqual(await askedAtNextPoll(), []);
    await scene.publishMany(1);
    assert.deepEqual(await askedAtNextPoll(), [[scene.tenant]]);
    await scene.store.streams.delete(scene.tenant, stream.id);
    await askedAtNextPoll();
    await scene.publishMany(1);
    assert.deepEqual(await askedAtNextPoll(), []);
    await scene.addStream();
    const [sent] = await scene.publishMany(1);
    assert.equal(scene.sent().at(-1), sent);
  });

  test('that was not heard of during an outage is sent when it is over', async (t) => {
    let away = false;
    const scene = await createDeliveryScene(t, {
      settings: { pollMs: 1_000_000 },
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => !away && listener(hint)),
        deliveries: {
          ...store.deliveries,
          settle: (...args) => (away ? scene.unavailable() : store.deliveries.settle(...args)),
        },
      }),
    });
    await scene.addStream();
    await scene.start();
    const [heard] = await scene.publishMany(1);
    away = true;
    await scene.clock.advance(100);
    const unheard = await scene.publishMany(3);
    away = false;
    await scene.clock.advance(5000);
    assert.deepEqual(scene.sent(), [heard, ...unheard]);
  });

  test('after others that were not heard of is sent after them, each once', async (t) => {
    let deaf = false;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        watch: (listener) =>
          store.watch((hint) => {
            if (hint.kind === 'appended' && deaf) return;
            listener(hint);
            listener(hint);
          }),
      }),
    });
    await scene.addStream();
    await scene.start();
    const before = await scene.publishMany(2);
    deaf = true;
    const unheard = await scene.publishMany(2);
    deaf = false;
    const after = await scene.publishMany(2);
    assert.deepEqual(scene.sent(), [...before, ...unheard, ...after]);
  });
});

describe('a request', () => {
  test('carries the envelope, the authorization and a signature of its own time', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    const [id] = await scene.publish('user.created');
    const request = scene.transport.posts[0]?.request;
    assert.ok(request);
    assert.equal(`${request.origin}${request.path}`, stream.destination.endpoint);
    assert.equal(headerOf(request, 'content-type'), 'application/json');
    assert.equal(headerOf(request, 'user-agent'), settings.userAgent);
    assert.equal(headerOf(request, 'authorization'), 'Bearer kept-secret');
    assert.equal(headerOf(request, 'webhook-id'), id);
    const seconds = Math.floor(scene.clock.now() / 1000);
    assert.equal(headerOf(request, 'webhook-timestamp'), String(seconds));
    assert.match(headerOf(request, 'webhook-signature') ?? '', /^v1,[A-Za-z0-9+/]{43}=$/);
    assert.equal(JSON.parse(request.body).svcstream, stream.id);
  });

  test('of a retry is the same but for its time', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => busy });
    await scene.addStream();
    await scene.start();
    await scene.publish('user.created');
    await scene.clock.advance(2000);
    const [first, second] = scene.transport.posts.map(({ request }) => request);
    assert.ok(first && second);
    assert.equal(second.body, first.body);
    assert.notEqual(headerOf(second, 'webhook-timestamp'), headerOf(first, 'webhook-timestamp'));
  });
});

describe('a cycle', () => {
  test('has its retries after 1, 2 and 4 seconds from the end of each attempt', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    await scene.start();
    const [id] = await scene.publish('user.created');
    const begun: number[] = [];
    for (let attempt = 1; attempt <= 4; attempt += 1) {
      begun.push(scene.clock.elapsedMs());
      // An attempt of half a second; the wait counts from its end.
      await scene.clock.advance(500);
      assert.equal(scene.transport.posts.length, attempt);
      for (const post of scene.transport.open) post.end(busy);
      const waitMs = settings.retryDelaysMs[attempt - 1];
      await scene.clock.advance(waitMs === undefined ? 60_000 : waitMs - 1);
      assert.equal(scene.transport.posts.length, attempt, 'not before its time');
      if (waitMs !== undefined) await scene.clock.advance(1);
    }
    assert.deepEqual(begun, [0, 1500, 4000, 8500]);
    assert.equal(scene.transport.posts.length, 4);
    const [failure] = await failures(scene, stream);
    assert.equal(failure?.event.id, id);
    assert.deepEqual(
      failure?.attempts.map(({ outcome, error }) => [outcome, error]),
      Array.from({ length: 4 }, () => ['failed', '503 - busy']),
    );
  });

  test('ends with a success, which leaves nothing behind', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => busy });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publish('user.created');
    scene.transport.respond = () => ok;
    await scene.clock.advance(1100);
    assert.equal(scene.transport.posts.length, 2);
    assert.deepEqual(await failures(scene, stream), []);
    assert.deepEqual(await scene.store.streams.health(scene.tenant, stream.id), {
      consecutive: 0,
      total: 0,
    });
  });

  test('is over at once where a retry cannot help', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => answered(410, 'gone') });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publish('user.created');
    await scene.clock.advance(60_000);
    assert.equal(scene.transport.posts.length, 1);
    assert.equal((await failures(scene, stream))[0]?.attempts[0]?.error, '410 - gone');
  });

  test('goes on after a restart with the attempt that is next', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => busy });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publish('user.created');
    await scene.clock.advance(1100);
    assert.equal(scene.transport.posts.length, 2);
    await scene.restart();
    await scene.clock.advance(60_000);
    assert.equal(scene.transport.posts.length, 4);
    assert.equal((await failures(scene, stream))[0]?.attempts.length, 4);
  });

  test('keeps the secrets of the stream out of what is recorded and reported', async (t) => {
    const echo = answered(503, `you sent kept-secret and ${secret}`);
    const scene = await createDeliveryScene(t, { respond: () => echo });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publish('user.created');
    await scene.clock.advance(10_000);
    const attempts = (await failures(scene, stream))[0]?.attempts ?? [];
    assert.deepEqual(
      attempts.map(({ error }) => error),
      Array.from({ length: 4 }, () => '503 - you sent *** and ***'),
    );
    assert.doesNotMatch(JSON.stringify(scene.reports), /kept-secret|whsec/);
  });
});

describe('a redelivery and a test event', () => {
  test('a redelivery is sent at once and its success closes the failure', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => answered(400) });
    const stream = await scene.addStream();
    await scene.start();
    const [id = ''] = await scene.publish('user.created');
    await scene.clock.advance(10);
    scene.transport.respond = () => ok;
    await scene.store.deliveries.redeliver(scene.tenant, stream.id, id);
    await scene.clock.advance(10);
    assert.deepEqual(scene.sent(), [id, id]);
    assert.deepEqual(await failures(scene, stream), []);
  });

  test('a failing redelivery is a whole cycle', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => answered(400) });
    const stream = await scene.addStream();
    await scene.start();
    const [id = ''] = await scene.publish('user.created');
    await scene.clock.advance(10);
    scene.transport.respond = () => timedOut;
    await scene.store.deliveries.redeliver(scene.tenant, stream.id, id);
    await scene.clock.advance(60_000);
    assert.equal(scene.transport.posts.length, 5);
    assert.deepEqual(await scene.store.streams.health(scene.tenant, stream.id), {
      consecutive: 2,
      total: 1,
    });
  });

  test('all failures are sent again, no more at once than there are slots', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => answered(400) });
    const stream = await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(40);
    await scene.clock.advance(100);
    scene.transport.respond = () => undefined;
    await scene.store.deliveries.redeliverMany(scene.tenant, stream.id, {});
    await scene.clock.advance(100);
    assert.equal(scene.transport.open.length, settings.streamConcurrency);
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(1000);
    assert.deepEqual(scene.sent().slice(40).toSorted(), ids.toSorted());
    assert.deepEqual(await failures(scene, stream), []);
  });

  test('a test event is sent to its stream, whatever it is subscribed to', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream({ types: [] });
    await scene.addStream();
    await scene.start();
    const event = newEvent();
    await scene.store.deliveries.addTest(scene.tenant, stream.id, event);
    await scene.clock.advance(10);
    assert.deepEqual(scene.sent(), [event.id]);
    assert.equal(JSON.parse(scene.transport.posts[0]?.request.body ?? '').svcstream, stream.id);
  });

  test('one that was not heard of is found at the next look', async (t) => {
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => hint.kind !== 'stream' && listener(hint)),
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    const event = newEvent();
    await scene.store.deliveries.addTest(scene.tenant, stream.id, event);
    await scene.clock.advance(settings.pollMs + 10);
    assert.deepEqual(scene.sent(), [event.id]);
  });
});

describe('slots', () => {
  const holding: Partial<DeliverySettings> = { streamConcurrency: 4, concurrency: 6 };

  test('a stream has no more attempts at once than its own, the node no more than all', async (t) => {
    const scene = await createDeliveryScene(t, { settings: holding });
    await scene.addStream();
    await scene.addStream({ types: ['user.created', 'other.made'] });
    await scene.start();
    await scene.publishMany(1);
    scene.transport.respond = () => undefined;
    await scene.publish(...Array.from({ length: 10 }, () => 'other.made'));
    assert.equal(scene.transport.open.length, 4);
    await scene.publishMany(10);
    assert.equal(scene.transport.open.length, 6);
  });

  test('those that are free go round over the streams that wait', async (t) => {
    const scene = await createDeliveryScene(t, {
      settings: { streamConcurrency: 4, concurrency: 4 },
    });
    const { id: a } = await scene.addStream();
    const { id: b } = await scene.addStream();
    await scene.start();
    await scene.publishMany(1);
    scene.transport.respond = () => undefined;
    await scene.publishMany(4);
    const order = scene.transport.posts.map(({ request }) => JSON.parse(request.body).svcstream);
    assert.deepEqual(order.slice(2), [a, b, a, b]);
  });

  test('those of the node go round over the streams that wait, one by one', async (t) => {
    const scene = await createDeliveryScene(t, {
      settings: { streamConcurrency: 4, concurrency: 1 },
    });
    const streams = [];
    for (let count = 0; count < 3; count += 1) streams.push(await scene.addStream());
    await scene.start();
    await scene.publishMany(1);
    scene.transport.respond = () => undefined;
    await scene.publishMany(4);
    for (let count = 0; count < 11; count += 1) {
      scene.transport.open[0]?.end(ok);
      await scene.clock.advance(0);
    }
    const order = scene.transport.posts.map(({ request }) => JSON.parse(request.body).svcstream);
    const [a, b, c] = streams.map(({ id }) => id);
    assert.deepEqual(order.slice(3), [a, b, c, a, b, c, a, b, c, a, b, c]);
  });

  test('a stream whose endpoint hangs leaves the others theirs', async (t) => {
    const scene = await createDeliveryScene(t, { settings: { concurrency: 8 } });
    const hanging = await scene.addStream();
    const healthy = await scene.addStream();
    scene.transport.respond = ({ request }) => (request.body.includes(hanging.id) ? undefined : ok);
    await scene.start();
    await scene.publishMany(200);
    await scene.clock.advance(500);
    const sentTo = (id: string) =>
      scene.transport.posts.filter(({ request }) => request.body.includes(id)).length;
    assert.equal(sentTo(hanging.id), settings.streamConcurrency);
    assert.equal(sentTo(healthy.id), 200);
  });

  test('retries and fresh events share those of a stream while both wait', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => answered(400) });
    const stream = await scene.addStream();
    await scene.start();
    const old = await scene.publishMany(40);
    await scene.clock.advance(200);
    scene.transport.respond = () => undefined;
    await scene.store.deliveries.redeliverMany(scene.tenant, stream.id, {});
    const fresh = new Set(await scene.publishMany(40));
    const seen = { fresh: 0, due: 0 };
    for (let count = 0; count < 40; count += 1) {
      await scene.clock.advance(20);
      const first = scene.transport.open[0];
      seen[fresh.has(first?.eventId ?? '') ? 'fresh' : 'due'] += 1;
      first?.end(ok);
    }
    assert.ok(old.length === 40);
    assert.ok(seen.fresh >= 10, `${seen.fresh} of 40 were fresh`);
    assert.ok(seen.due >= 10, `${seen.due} of 40 were due`);
  });
});

describe('an attempt that takes long', () => {
  test('is parked after a second, so that the cursor passes it', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    const [first, second] = await scene.publishHanging('user.created', 'user.created');
    scene.transport.respond = () => ok;
    second?.end(ok);
    await scene.clock.advance(900);
    assert.equal(await scene.cursor(stream), 0);
    await scene.clock.advance(150);
    assert.equal(await scene.cursor(stream), 2);
    first?.end(ok);
    await scene.clock.advance(10);
    assert.deepEqual(scene.sent().length, 2);
    assert.deepEqual(await failures(scene, stream), []);
  });

  test('is parked as soon as enough later events have settled', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    const [first] = await scene.publishHanging('user.created');
    scene.transport.respond = () => ok;
    await scene.publishMany(settings.parkAfterEvents - 1);
    await scene.clock.advance(20);
    assert.equal(await scene.cursor(stream), 0);
    await scene.publishMany(1);
    await scene.clock.advance(20);
    assert.equal(await scene.cursor(stream), settings.parkAfterEvents + 1);
    first?.end(busy);
    scene.transport.respond = () => ok;
    await scene.clock.advance(1100);
    assert.equal(scene.sent().filter((id) => id === first?.eventId).length, 2);
    assert.deepEqual(await failures(scene, stream), []);
  });

  test('is sent again by the next owner with the same number, once it is gone', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    const [first] = await scene.publishHanging('user.created');
    await scene.clock.advance(1100);
    assert.equal(await scene.cursor(stream), 1);
    scene.transport.respond = () => busy;
    await scene.crash();
    await scene.clock.advance(60_000);
    // The attempt that was cut off left no trace: four are recorded.
    assert.equal(scene.sent().filter((id) => id === first?.eventId).length, 5);
    assert.equal((await failures(scene, stream))[0]?.attempts.length, 4);
  });
});

describe('the bounds of a stream', () => {
  test('no fresh event is taken while too many are settled above the cursor', async (t) => {
    let refuse = false;
    const scene = await createDeliveryScene(t, {
      settings: { settleMax: 2, concurrency: 1000 },
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          settle: (...args) => (refuse ? scene.unavailable() : store.deliveries.settle(...args)),
        },
      }),
    });
    await scene.addStream();
    await scene.start();
    refuse = true;
    await scene.publishMany(100);
    await scene.clock.advance(1000);
    const most = settings.parkAfterEvents + settings.streamConcurrency;
    assert.ok(scene.sent().length > most);
    assert.ok(scene.sent().length <= most + settings.streamConcurrency);
    refuse = false;
    await scene.clock.advance(5000);
    assert.equal(new Set(scene.sent()).size, 100);
    assert.equal(scene.sent().length, 100);
  });

  test('nothing begins while as many results wait for the store as slots and a batch', async (t) => {
    let away = false;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          settle: (...args) => (away ? scene.unavailable() : store.deliveries.settle(...args)),
        },
      }),
    });
    for (let count = 0; count < 20; count += 1) await scene.addStream();
    await scene.start();
    away = true;
    await scene.publishMany(12);
    await scene.clock.advance(1000);
    const most = settings.settleMax + settings.concurrency;
    assert.ok(scene.sent().length >= most);
    assert.ok(scene.sent().length < most + settings.concurrency, `${scene.sent().length} sent`);
    away = false;
    await scene.clock.advance(5000);
    assert.equal(scene.sent().length, 20 * 12);
  });

  test('no fresh event is taken while as many as disable a stream wait for a retry', async (t) => {
    const scene = await createDeliveryScene(t, {
      settings: { disable: { consecutive: 10, total: 5000 }, retryDelaysMs: [60_000] },
      respond: () => busy,
    });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publishMany(200);
    await scene.clock.advance(5000);
    assert.ok(scene.sent().length >= 10);
    assert.ok(scene.sent().length < 10 + settings.streamConcurrency);
    await scene.clock.advance(56_000);
    await scene.clock.advance(1000);
    const health = await scene.store.streams.health(scene.tenant, stream.id);
    assert.ok(health && health.total < 10 + 10 + settings.streamConcurrency, `${health?.total}`);
    assert.equal((await scene.store.streams.get(scene.tenant, stream.id))?.status, 'disabled');
    assert.equal(scene.reported('stream_disabled').length, 1);
  });

  test('after a crash no more is sent twice than the bound says', async (t) => {
    const scene = await createDeliveryScene(t);
    await scene.addStream();
    await scene.start();
    for (let round = 0; round < 5; round += 1) {
      // Some hang, so that much settles above the cursor.
      scene.transport.respond = ({ eventId }) => (/[05]$/.test(eventId) ? undefined : ok);
      await scene.publishMany(40);
      const before = scene.sent();
      await scene.crash();
      const again = scene
        .sent()
        .slice(before.length)
        .filter((id) => before.includes(id));
      const most = settings.streamConcurrency + settings.parkAfterEvents + settings.settleMax;
      assert.ok(again.length <= most, `${again.length} were sent twice`);
    }
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(60_000);
    assert.equal(new Set(scene.sent()).size, 200);
  });
});

describe('a stream that changes', () => {
  test('a new destination holds from the next attempt on, also of a retry', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => busy });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publish('user.created');
    const endpoint = 'https://other.example.net/hook?a=1';
    await scene.update(stream, { destination: { ...stream.destination, endpoint } });
    await scene.clock.advance(1100);
    await scene.publish('user.created');
    const targets = scene.transport.posts.map(({ request }) => request.origin + request.path);
    assert.deepEqual(targets, [stream.destination.endpoint, endpoint, endpoint]);
  });

  test('new subscriptions hold from the next event on, also for one far behind', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream({ types: ['a.made'] });
    await scene.start();
    const types = Array.from({ length: 150 }, (_, index) => (index % 2 ? 'a.made' : 'b.made'));
    const before = await scene.publish(...types);
    await scene.update(stream, { types: ['b.made'] });
    const after = await scene.publish(...types);
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(500);
    const wanted = [
      ...before.filter((_, index) => index % 2 === 1),
      ...after.filter((_, index) => index % 2 === 0),
    ];
    assert.deepEqual(scene.sent(), wanted);
  });

  test('a deleted one is cut off and sent nothing more', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publishMany(10);
    await scene.store.streams.delete(scene.tenant, stream.id);
    await scene.clock.advance(0);
    assert.ok(scene.transport.posts.every((post) => post.cancelled));
    await scene.publishMany(10);
    await scene.clock.advance(60_000);
    assert.equal(scene.transport.posts.length, settings.streamConcurrency);
    assert.equal(scene.dispatcher.state().streams, 0);
    assert.equal(scene.dispatcher.state().inFlight, 0);
    assert.equal(scene.reported('stream_lost').length, 1);
    assert.deepEqual(scene.reported('attempt'), []);
  });

  test('one whose change was not heard of is read after the next batch', async (t) => {
    const scene = await createDeliveryScene(t, {
      settings: { pollMs: 1_000_000 },
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => hint.kind === 'appended' && listener(hint)),
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    const endpoint = 'https://other.example.net/hook';
    await scene.update(stream, { destination: { ...stream.destination, endpoint } });
    await scene.publishMany(1);
    await scene.clock.advance(settings.settleMs);
    await scene.publishMany(1);
    const targets = scene.transport.posts.map(({ request }) => request.origin + request.path);
    assert.deepEqual(targets, [stream.destination.endpoint, endpoint]);
  });

  test('one that changes while it is claimed is read again', async (t) => {
    let release: () => void = () => undefined;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          claim: async (...args) => {
            const answer = await store.ownership.claim(...args);
            await new Promise<void>((resolve) => (release = resolve));
            return answer;
          },
        },
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    await scene.update(stream, { status: 'disabled' });
    release();
    await scene.publishMany(3);
    await scene.clock.advance(1000);
    assert.deepEqual(scene.sent(), []);
  });

  test('what was read for it before the change is not used after it', async (t) => {
    let release: () => void = () => undefined;
    let slow = true;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: async (...args) => {
            if (slow) await new Promise<void>((resolve) => (release = resolve));
            return store.log.page(...args);
          },
        },
      }),
    });
    const stream = await scene.addStream({ types: ['a.made'] });
    const [before] = await scene.publish('a.made');
    await scene.start();
    await scene.update(stream, { types: ['b.made'] });
    const [, after] = await scene.publish('a.made', 'b.made');
    slow = false;
    release();
    await scene.clock.advance(100);
    assert.deepEqual(scene.sent(), [before, after]);
  });

  test('nothing of its queue begins between the commit of a change and its being read', async (t) => {
    let release: () => void = () => undefined;
    let slow = false;
    const scene = await createDeliveryScene(t, {
      respond: () => undefined,
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          owned: async (...args) => {
            if (slow) await new Promise<void>((resolve) => (release = resolve));
            return store.ownership.owned(...args);
          },
        },
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publishMany(10);
    slow = true;
    await scene.update(stream, { name: 'renamed' });
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(0);
    assert.equal(scene.sent().length, settings.streamConcurrency);
    slow = false;
    release();
    await scene.clock.advance(0);
    assert.equal(scene.sent().length, 2 * settings.streamConcurrency);
  });

  test('nothing begins between the commit of a change and its being read', async (t) => {
    let release: () => void = () => undefined;
    let slow = false;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          owned: async (...args) => {
            if (slow) await new Promise<void>((resolve) => (release = resolve));
            return store.ownership.owned(...args);
          },
        },
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    slow = true;
    await scene.update(stream, { status: 'disabled' });
    await scene.publishMany(3);
    assert.deepEqual(scene.sent(), []);
    slow = false;
    release();
    await scene.clock.advance(1000);
    assert.deepEqual(scene.sent(), []);
  });

  test('one that changes again while it is read is read again', async (t) => {
    let release: () => void = () => undefined;
    let slow = false;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          owned: async (...args) => {
            const answer = await store.ownership.owned(...args);
            if (slow) await new Promise<void>((resolve) => (release = resolve));
            return answer;
          },
        },
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    slow = true;
    await scene.update(stream, { name: 'renamed' });
    await scene.update(stream, { status: 'disabled' });
    await scene.publishMany(3);
    slow = false;
    release();
    await scene.clock.advance(1000);
    assert.deepEqual(scene.sent(), []);
  });
});

describe('a stream that is disabled', () => {
  test('by hand is sent nothing; its retries become failures', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => busy });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publish('user.created');
    await scene.clock.advance(10);
    await scene.update(stream, { status: 'disabled' });
    await scene.publishMany(5);
    await scene.clock.advance(60_000);
    assert.equal(scene.transport.posts.length, 1);
    const [failure] = await failures(scene, stream);
    assert.equal(failure?.attempts.at(-1)?.error, 'The event stream is disabled');
  });

  test('is owned only while it has redeliveries to send', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => answered(400) });
    const stream = await scene.addStream();
    await scene.start();
    const [id = ''] = await scene.publish('user.created');
    await scene.clock.advance(10);
    await scene.update(stream, { status: 'disabled' });
    assert.equal(scene.dispatcher.state().streams, 0);
    scene.transport.respond = () => undefined;
    await scene.store.deliveries.redeliver(scene.tenant, stream.id, id);
    await scene.clock.advance(10);
    assert.deepEqual(scene.sent(), [id, id]);
    assert.equal(scene.dispatcher.state().streams, 1);
    scene.transport.open[0]?.end(ok);
    await scene.clock.advance(10);
    assert.equal(scene.dispatcher.state().streams, 0);
    assert.deepEqual(await failures(scene, stream), []);
  });

  test('at a threshold takes nothing that was queued, and its last attempts count', async (t) => {
    const scene = await createDeliveryScene(t, {
      settings: { disable: { consecutive: 3, total: 5000 } },
      respond: () => undefined,
    });
    const stream = await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(10);
    const [a, b, c, d] = scene.transport.open;
    for (const post of [a, b, c]) post?.end(answered(400));
    // Ends before the three are settled; nothing says yet that the stream is disabled.
    await scene.clock.advance(10);
    assert.equal(scene.reported('stream_disabled').length, 1);
    const begun = scene.sent().length;
    for (const post of scene.transport.open) if (post !== d) post.end(ok);
    d?.end(busy);
    await scene.clock.advance(60_000);
    assert.equal(scene.sent().length, begun);
    assert.ok(begun < ids.length);
    const listed = await failures(scene, stream);
    assert.deepEqual(
      listed.map(({ event }) => event.id).toSorted(),
      [a, b, c, d].map((post) => post?.eventId ?? '').toSorted(),
    );
  });

  test('goes on with later events when it is enabled', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    const before = await scene.publishMany(3);
    const disabled = await scene.update(stream, { status: 'disabled' });
    await scene.publishMany(3);
    await scene.update(disabled, { status: 'enabled' });
    const after = await scene.publishMany(3);
    assert.deepEqual(scene.sent(), [...before, ...after]);
  });

  test('does not send what it had queued when it goes on with later events', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    await scene.start();
    const before = await scene.publishMany(10);
    const disabled = await scene.update(stream, { status: 'disabled' });
    await scene.update(disabled, { status: 'enabled' });
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    const after = await scene.publishMany(2);
    await scene.clock.advance(100);
    assert.deepEqual(scene.sent(), [...before.slice(0, settings.streamConcurrency), ...after]);
  });

  test('goes on with the held events, none of them twice, when it is asked to', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    const before = await scene.publishMany(3);
    const disabled = await scene.update(stream, { status: 'disabled' });
    const held = await scene.publishMany(30);
    await scene.update(disabled, { status: 'enabled' }, 'held');
    const after = await scene.publishMany(3);
    await scene.clock.advance(500);
    assert.deepEqual(scene.sent(), [...before, ...held, ...after]);
    assert.equal(await scene.cursor(stream), 36);
  });

  test('held: what was under way all the time is not sent a second time', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    await scene.start();
    const before = await scene.publishMany(3);
    const [first, second, third] = scene.transport.open;
    // Settled above the cursor of the run that ends.
    second?.end(ok);
    await scene.clock.advance(10);
    const disabled = await scene.update(stream, { status: 'disabled' });
    const held = await scene.publishMany(2);
    await scene.update(disabled, { status: 'enabled' }, 'held');
    first?.end(ok);
    third?.end(ok);
    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(100);
    assert.deepEqual(scene.sent(), [...before, ...held]);
    assert.equal(await scene.cursor(stream), 5);
  });

  test('latest: what was under way counts, but moves no cursor of the new run', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    await scene.start();
    await scene.publishMany(2);
    const [first, second] = scene.transport.open;
    const disabled = await scene.update(stream, { status: 'disabled' });
    await scene.publishMany(2);
    await scene.update(disabled, { status: 'enabled' }, 'latest');
    const [fresh] = await scene.publishHanging('user.created');
    second?.end(ok);
    await scene.clock.advance(10);
    assert.equal(await scene.cursor(stream), 4);
    // Neither does one that is still under way hold the new run's cursor.
    fresh?.end(ok);
    await scene.clock.advance(10);
    assert.equal(await scene.cursor(stream), 5);
    first?.end(answered(400));
    await scene.clock.advance(10);
    assert.equal(await scene.cursor(stream), 5);
    const [failure] = await failures(scene, stream);
    assert.equal(failure?.event.id, first?.eventId);
  });
});

describe('ending', () => {
  test('lets attempts under way end, records them and gives the streams up', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(10);
    const stopped = scene.stop();
    await scene.clock.advance(500);
    assert.equal(scene.transport.posts.length, settings.streamConcurrency);
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(0);
    await stopped;
    assert.equal(scene.transport.posts.length, settings.streamConcurrency);
    scene.transport.respond = () => ok;
    await scene.restart();
    await scene.clock.advance(100);
    assert.deepEqual(scene.sent(), ids);
    assert.equal(await scene.cursor(stream), 10);
  });

  test('leaves no timer behind', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => busy });
    await scene.addStream();
    await scene.start();
    await scene.publishMany(10);
    await scene.clock.advance(100);
    await scene.stop();
    // The bound on the ending itself stays until it is over.
    assert.ok(scene.clock.pending <= 1, `${scene.clock.pending} timers wait`);
  });

  test('does not wait for ever for a store that is away', async (t) => {
    let away = false;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          settle: (...args) => (away ? scene.unavailable() : store.deliveries.settle(...args)),
        },
      }),
    });
    await scene.addStream();
    await scene.start();
    away = true;
    await scene.publishMany(1);
    const stopped = scene.stop();
    await scene.clock.advance(settings.attemptTimeoutMs + settings.leaseGraceMs);
    await stopped;
    assert.equal(scene.reported('store_unavailable').length, 1);
  });

  test('a kill cuts off what is under way and asks the store nothing more', async (t) => {
    let killed = false;
    let asked = 0;
    const scene = await createDeliveryScene(t, {
      respond: () => undefined,
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          settle: (...args) => {
            if (killed) asked += 1;
            return store.deliveries.settle(...args);
          },
        },
      }),
    });
    await scene.addStream();
    await scene.start();
    await scene.publishMany(3);
    killed = true;
    scene.transport.open[0]?.end(ok);
    scene.dispatcher.kill();
    await scene.clock.advance(60_000);
    assert.ok(scene.transport.posts.slice(1).every((post) => post.cancelled));
    assert.equal(asked, 0);
    assert.equal(scene.clock.pending, 0);
  });
});

describe('many streams', () => {
  /** A scene that notes which streams each claim took. */
  async function claiming(t: TestContext, dueClaims: string[][]): Promise<DeliveryScene> {
    return createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          claim: async (...args) => {
            const answer = await store.ownership.claim(...args);
            dueClaims.push(answer.map(({ stream }) => stream.id));
            return answer;
          },
        },
      }),
    });
  }

  test('are owned without delay, some at a time', async (t) => {
    const dueClaims: string[][] = [];
    const scene = await claiming(t, dueClaims);
    for (let count = 0; count < 600; count += 1) await scene.addStream({ types: [] });
    await scene.start();
    assert.equal(scene.dispatcher.state().streams, 600);
    assert.ok(dueClaims.every((ids) => ids.length <= 256));
    assert.equal(new Set(dueClaims.flat()).size, 600);
    assert.equal(dueClaims.flat().length, 600, 'each is claimed once');
  });

  test('those with events after their cursor are claimed first', async (t) => {
    const dueClaims: string[][] = [];
    const scene = await claiming(t, dueClaims);
    for (let count = 0; count < 600; count += 1) await scene.addStream({ types: [] });
    const other = await addTenant(scene.store, 'other');
    const waiting = await scene.addStream({ tenant: other.id });
    await scene.store.log.append(other.id, [newEvent()]);
    await scene.start();
    const claim = dueClaims.findIndex((ids) => ids.includes(waiting.id));
    assert.equal(claim, 1, 'next after the first, which takes what comes first');
    assert.equal(scene.dispatcher.state().streams, 601);
    assert.equal(scene.transport.posts.length, 1);
  });
});

describe('idle streams', () => {
  test('cost no write; skipped events are written for all together, seldom', async (t) => {
    const written: number[] = [];
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          raiseCursors: (cursors) => {
            written.push(cursors.length);
            return store.ownership.raiseCursors(cursors);
          },
        },
      }),
    });
    const streams = [];
    for (let count = 0; count < 5; count += 1) {
      streams.push(await scene.addStream({ types: ['never.made'] }));
    }
    await scene.start();
    await scene.publishMany(50);
    await scene.clock.advance(50_000);
    assert.deepEqual(written, []);
    await scene.clock.advance(15_000);
    assert.deepEqual(written, [5]);
    for (const stream of streams) assert.equal(await scene.cursor(stream), 50);
    await scene.clock.advance(200_000);
    assert.deepEqual(written, [5]);
    assert.deepEqual(scene.sent(), []);
  });

  test('skipped events are written earlier when they are many', async (t) => {
    const scene = await createDeliveryScene(t, { settings: { lagOffsetsMax: 40 } });
    const stream = await scene.addStream({ types: ['never.made'] });
    await scene.start();
    await scene.publishMany(50);
    await scene.clock.advance(settings.pollMs);
    assert.equal(await scene.cursor(stream), 50);
  });

  test('wait with two timers for all of them, the look and the lease', async (t) => {
    const scene = await createDeliveryScene(t);
    for (let count = 0; count < 20; count += 1) await scene.addStream();
    await scene.start();
    await scene.publishMany(2);
    await scene.clock.advance(3000);
    assert.equal(scene.clock.pending, 2);
  });

  test('a cursor passes skipped events when the stream is given up', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream({ types: ['never.made'] });
    await scene.start();
    await scene.publishMany(7);
    await scene.restart();
    assert.equal(await scene.cursor(stream), 7);
  });
});

describe('a store that fails', () => {
  test('does not end the work: it is reported once, and everything goes on afterwards', async (t) => {
    let away = false;
    const fail = () => scene.unavailable();
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: (...args) => (away ? fail() : store.log.page(...args)),
          heads: (...args) => (away ? fail() : store.log.heads(...args)),
        },
        deliveries: {
          ...store.deliveries,
          settle: (...args) => (away ? fail() : store.deliveries.settle(...args)),
          claimDue: (...args) => (away ? fail() : store.deliveries.claimDue(...args)),
        },
        ownership: {
          ...store.ownership,
          owned: (...args) => (away ? fail() : store.ownership.owned(...args)),
          claim: (...args) => (away ? fail() : store.ownership.claim(...args)),
        },
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    scene.transport.respond = ({ eventId }) => (eventId.endsWith('3') ? busy : ok);
    await scene.publishMany(10);
    away = true;
    const ids = await scene.publishMany(200);
    await scene.clock.advance(30_000);
    assert.equal(scene.dispatcher.state().storeFails, true);
    scene.transport.respond = () => ok;
    away = false;
    await scene.clock.advance(30_000);
    assert.equal(scene.dispatcher.state().storeFails, false);
    assert.equal(scene.reported('store_unavailable').length, 1);
    assert.equal(scene.reported('store_recovered').length, 1);
    assert.equal(await scene.cursor(stream), 210);
    assert.ok(ids.every((id) => scene.sent().includes(id)));
    assert.deepEqual(await failures(scene, stream), []);
  });

  test('a row whose result waits for the store is not sent again', async (t) => {
    let away = false;
    const scene = await createDeliveryScene(t, {
      respond: () => undefined,
      through: (store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          settle: (...args) => (away ? scene.unavailable() : store.deliveries.settle(...args)),
        },
      }),
    });
    const stream = await scene.addStream();
    await scene.start();
    const [id] = await scene.publishMany(1);
    await scene.clock.advance(1100);
    away = true;
    scene.transport.open[0]?.end(ok);
    // Far beyond the lease of the parked row.
    await scene.clock.advance(60_000);
    away = false;
    await scene.clock.advance(10_000);
    assert.deepEqual(scene.sent(), [id]);
    assert.deepEqual(await failures(scene, stream), []);
  });
});
