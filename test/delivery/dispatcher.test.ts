import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Store } from '../../src/store/port/store.ts';
import { respondedWith, headerOf, ok, timedOut } from '../helpers/transport.ts';
import { addTenant, newEvent } from '../store/contract/fixture.ts';
import {
  createDeliveryFixture,
  secret,
  settings,
  type DeliveryFixture,
  withDeliveries,
} from './fixture.ts';

const busy = respondedWith(503, 'busy');

/** A stream's open failures, newest first. */
async function failures(fixture: DeliveryFixture, stream: Stream) {
  const query = { after: undefined, take: 1000 };
  const page = await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query);
  return page.items;
}

describe('an event that is appended', () => {
  test('an appended event is sent in the same turn and settled, and the cursor passes it', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    let sentWithin = -1;
    fixture.store.watch((hint) => {
      if (hint.kind === 'appended') sentWithin = fixture.transport.posts.length;
    });
    const [id] = await fixture.publish('user.created');
    assert.deepEqual(fixture.sent(), [id]);
    assert.equal(sentWithin, 1);
    await fixture.clock.advance(settings.settleMs);
    assert.equal(await fixture.cursor(stream), 1);
  });

  test('an event is sent to every stream that subscribes to its type, and to no other', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const wanted = await fixture.addStream({ types: ['user.created', 'user.updated'] });
    const twice = await fixture.addStream({ types: ['user.created', 'user.created'] });
    await fixture.addStream({ types: ['user.deleted'] });
    await fixture.addStream({ types: [] });
    await fixture.start();
    await fixture.publish('user.created', 'other.made');
    const bodies = fixture.transport.posts.map(({ request }) => request.body);
    assert.equal(bodies.length, 2);
    assert.match(bodies[0] ?? '', new RegExp(`,"svcstream":"${wanted.id}"}$`));
    assert.match(bodies[1] ?? '', new RegExp(`,"svcstream":"${twice.id}"}$`));
  });

  test('an event from before the dispatcher ran is sent when it runs', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    const ids = await fixture.publishMany(50);
    await fixture.start();
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sent(), ids);
    assert.equal(await fixture.cursor(stream), 50);
  });

  test('an event is sent to a stream that was created while the dispatcher ran', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.start();
    await fixture.publish('user.created');
    await fixture.addStream();
    const [id] = await fixture.publish('user.created');
    assert.deepEqual(fixture.sent(), [id]);
  });

  test('a runner that fell behind the tail sends all events, in order and once', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(300);
    assert.equal(fixture.dispatcher.state().behind, 1);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(500);
    assert.deepEqual(fixture.sent(), ids);
    assert.equal(await fixture.cursor(stream), 300);
    assert.equal(fixture.dispatcher.state().behind, 0);
  });

  test('an event whose hint was lost is found at the next poll', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => hint.kind !== 'appended' && listener(hint)),
      }),
    });
    await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(3);
    assert.deepEqual(fixture.sent(), []);
    await fixture.clock.advance(settings.pollMs);
    assert.deepEqual(fixture.sent(), ids);
  });

  test('the poll reads only logs that have grown, of tenants with streams on this node', async (t) => {
    const commands: (readonly number[])[] = [];
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          heads: (tenants) => {
            commands.push(tenants);
            return store.log.heads(tenants);
          },
        },
      }),
    });
    await addTenant(fixture.store, 'idle');
    const stream = await fixture.addStream();
    await fixture.start();
    const askedAtNextPoll = async (): Promise<(readonly number[])[]> => {
      commands.length = 0;
      await fixture.clock.advance(settings.pollMs);
      return [...commands];
    };
    await askedAtNextPoll();
    assert.deepEqual(await askedAtNextPoll(), []);
    await fixture.publishMany(1);
    assert.deepEqual(await askedAtNextPoll(), [[fixture.tenant]]);
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    await askedAtNextPoll();
    await fixture.publishMany(1);
    assert.deepEqual(await askedAtNextPoll(), []);
    await fixture.addStream();
    const [sent] = await fixture.publishMany(1);
    assert.equal(fixture.sent().at(-1), sent);
  });

  test('an event whose hint was lost in an outage is sent when the outage is over', async (t) => {
    let away = false;
    const fixture = await createDeliveryFixture(t, {
      settings: { pollMs: 1_000_000 },
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => !away && listener(hint)),
        deliveries: {
          ...store.deliveries,
          settle: (...args) => (away ? fixture.unavailable() : store.deliveries.settle(...args)),
        },
      }),
    });
    await fixture.addStream();
    await fixture.start();
    const [reported] = await fixture.publishMany(1);
    away = true;
    await fixture.clock.advance(100);
    const unreported = await fixture.publishMany(3);
    away = false;
    await fixture.clock.advance(5000);
    assert.deepEqual(fixture.sent(), [reported, ...unreported]);
  });

  test('an event after others whose hints were lost is sent after them, each once', async (t) => {
    let deaf = false;
    const fixture = await createDeliveryFixture(t, {
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
    await fixture.addStream();
    await fixture.start();
    const before = await fixture.publishMany(2);
    deaf = true;
    const unreported = await fixture.publishMany(2);
    deaf = false;
    const after = await fixture.publishMany(2);
    assert.deepEqual(fixture.sent(), [...before, ...unreported, ...after]);
  });
});

describe('a request', () => {
  test('a request has the envelope, the authorization and a signature of its own time', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    const [id] = await fixture.publish('user.created');
    const request = fixture.transport.posts[0]?.request;
    assert.ok(request);
    assert.equal(`${request.origin}${request.path}`, stream.destination.endpoint);
    assert.equal(headerOf(request, 'content-type'), 'application/json');
    assert.equal(headerOf(request, 'user-agent'), settings.userAgent);
    assert.equal(headerOf(request, 'authorization'), 'Bearer kept-secret');
    assert.equal(headerOf(request, 'webhook-id'), id);
    const seconds = Math.floor(fixture.clock.now() / 1000);
    assert.equal(headerOf(request, 'webhook-timestamp'), String(seconds));
    assert.match(headerOf(request, 'webhook-signature') ?? '', /^v1,[A-Za-z0-9+/]{43}=$/);
    assert.equal(JSON.parse(request.body).svcstream, stream.id);
  });

  test('the request of a retry differs only in its time and signature', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => busy });
    await fixture.addStream();
    await fixture.start();
    await fixture.publish('user.created');
    await fixture.clock.advance(2000);
    const [first, second] = fixture.transport.posts.map(({ request }) => request);
    assert.ok(first && second);
    assert.equal(second.body, first.body);
    assert.notEqual(headerOf(second, 'webhook-timestamp'), headerOf(first, 'webhook-timestamp'));
  });
});

describe('a cycle', () => {
  test('retries follow 1, 2 and 4 seconds after the end of each attempt', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    const [id] = await fixture.publish('user.created');
    const begun: number[] = [];
    for (let attempt = 1; attempt <= 4; attempt += 1) {
      begun.push(fixture.clock.elapsedMs());
      // An attempt of half a second; the wait counts from its end.
      await fixture.clock.advance(500);
      assert.equal(fixture.transport.posts.length, attempt);
      for (const post of fixture.transport.open) post.end(busy);
      const waitMs = settings.retryDelaysMs[attempt - 1];
      await fixture.clock.advance(waitMs === undefined ? 60_000 : waitMs - 1);
      assert.equal(fixture.transport.posts.length, attempt, 'not before its time');
      if (waitMs !== undefined) await fixture.clock.advance(1);
    }
    assert.deepEqual(begun, [0, 1500, 4000, 8500]);
    assert.equal(fixture.transport.posts.length, 4);
    const [failure] = await failures(fixture, stream);
    assert.equal(failure?.event.id, id);
    assert.deepEqual(
      failure?.attempts.map(({ outcome, error }) => [outcome, error]),
      Array.from({ length: 4 }, () => ['failed', '503 - busy']),
    );
  });

  test('a success ends the cycle and leaves no row', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => busy });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publish('user.created');
    fixture.transport.respond = () => ok;
    await fixture.clock.advance(1100);
    assert.equal(fixture.transport.posts.length, 2);
    assert.deepEqual(await failures(fixture, stream), []);
    assert.deepEqual(await fixture.store.streams.health(fixture.tenant, stream.id), {
      consecutive: 0,
      total: 0,
    });
  });

  test('a status that is not retried ends the cycle at once', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => respondedWith(404, 'gone') });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publish('user.created');
    await fixture.clock.advance(60_000);
    assert.equal(fixture.transport.posts.length, 1);
    assert.equal((await failures(fixture, stream))[0]?.attempts[0]?.error, '404 - gone');
  });

  test('a restart continues the cycle with the next attempt', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => busy });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publish('user.created');
    await fixture.clock.advance(1100);
    assert.equal(fixture.transport.posts.length, 2);
    await fixture.restart();
    await fixture.clock.advance(60_000);
    assert.equal(fixture.transport.posts.length, 4);
    assert.equal((await failures(fixture, stream))[0]?.attempts.length, 4);
  });

  test('no secret of the stream is recorded or reported', async (t) => {
    const echo = respondedWith(503, `you sent kept-secret and ${secret}`);
    const fixture = await createDeliveryFixture(t, { respond: () => echo });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publish('user.created');
    await fixture.clock.advance(10_000);
    const attempts = (await failures(fixture, stream))[0]?.attempts ?? [];
    assert.deepEqual(
      attempts.map(({ error }) => error),
      Array.from(
        { length: 4 },
        () => '503 - (not stored: the response repeats a secret of the stream)',
      ),
    );
    assert.doesNotMatch(JSON.stringify(fixture.reports), /kept-secret|whsec/);
  });
});

describe('a redelivery and a test event', () => {
  test('a redelivery is sent at once and its success closes the failure', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => respondedWith(400) });
    const stream = await fixture.addStream();
    await fixture.start();
    const [id = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(10);
    fixture.transport.respond = () => ok;
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, id);
    await fixture.clock.advance(10);
    assert.deepEqual(fixture.sent(), [id, id]);
    assert.deepEqual(await failures(fixture, stream), []);
  });

  test('a failing redelivery is a whole cycle', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => respondedWith(400) });
    const stream = await fixture.addStream();
    await fixture.start();
    const [id = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(10);
    fixture.transport.respond = () => timedOut;
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, id);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.transport.posts.length, 5);
    assert.deepEqual(await fixture.store.streams.health(fixture.tenant, stream.id), {
      consecutive: 2,
      total: 1,
    });
  });

  test('redelivering all failures uses no more slots than the stream has', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => respondedWith(400) });
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(40);
    await fixture.clock.advance(100);
    fixture.transport.respond = () => undefined;
    await fixture.store.deliveries.redeliverMany(fixture.tenant, stream.id, {});
    await fixture.clock.advance(100);
    assert.equal(fixture.transport.open.length, settings.streamConcurrency);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent().slice(40).toSorted(), ids.toSorted());
    assert.deepEqual(await failures(fixture, stream), []);
  });

  test('a test event is sent to its stream, also without a subscription to its type', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream({ types: [] });
    await fixture.addStream();
    await fixture.start();
    const event = newEvent();
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, event);
    await fixture.clock.advance(10);
    assert.deepEqual(fixture.sent(), [event.id]);
    assert.equal(JSON.parse(fixture.transport.posts[0]?.request.body ?? '').svcstream, stream.id);
  });

  test('a test event whose hint was lost is found at the next poll', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => hint.kind !== 'stream' && listener(hint)),
      }),
    });
    const stream = await fixture.addStream();
    await fixture.start();
    const event = newEvent();
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, event);
    await fixture.clock.advance(settings.pollMs + 10);
    assert.deepEqual(fixture.sent(), [event.id]);
  });
});

describe('slots', () => {
  const holding: Partial<DeliverySettings> = { streamConcurrency: 4, concurrency: 6 };

  test('a stream has no more attempts at once than its own slots, the node no more than all slots', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: holding });
    await fixture.addStream();
    await fixture.addStream({ types: ['user.created', 'other.made'] });
    await fixture.start();
    await fixture.publishMany(1);
    fixture.transport.respond = () => undefined;
    await fixture.publish(...Array.from({ length: 10 }, () => 'other.made'));
    assert.equal(fixture.transport.open.length, 4);
    await fixture.publishMany(10);
    assert.equal(fixture.transport.open.length, 6);
  });

  test('free slots go round robin over the streams that wait', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      settings: { streamConcurrency: 4, concurrency: 4 },
    });
    const { id: a } = await fixture.addStream();
    const { id: b } = await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(1);
    fixture.transport.respond = () => undefined;
    await fixture.publishMany(4);
    const order = fixture.transport.posts.map(({ request }) => JSON.parse(request.body).svcstream);
    assert.deepEqual(order.slice(2), [a, b, a, b]);
  });

  test('slots of the node are granted to waiting streams one at a time', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      settings: { streamConcurrency: 4, concurrency: 1 },
    });
    const streams = [];
    for (let count = 0; count < 3; count += 1) streams.push(await fixture.addStream());
    await fixture.start();
    await fixture.publishMany(1);
    fixture.transport.respond = () => undefined;
    await fixture.publishMany(4);
    for (let count = 0; count < 11; count += 1) {
      fixture.transport.open[0]?.end(ok);
      await fixture.clock.advance(0);
    }
    const order = fixture.transport.posts.map(({ request }) => JSON.parse(request.body).svcstream);
    const [a, b, c] = streams.map(({ id }) => id);
    assert.deepEqual(order.slice(3), [a, b, c, a, b, c, a, b, c, a, b, c]);
  });

  test('a stream whose endpoint hangs does not take the slots of others', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: { concurrency: 8 } });
    const hanging = await fixture.addStream();
    const healthy = await fixture.addStream();
    fixture.transport.respond = ({ request }) =>
      request.body.includes(hanging.id) ? undefined : ok;
    await fixture.start();
    await fixture.publishMany(200);
    await fixture.clock.advance(500);
    const sentTo = (id: string) =>
      fixture.transport.posts.filter(({ request }) => request.body.includes(id)).length;
    assert.equal(sentTo(hanging.id), settings.streamConcurrency);
    assert.equal(sentTo(healthy.id), 200);
  });

  test('retries and fresh events share the slots of a stream while both wait', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => respondedWith(400) });
    const stream = await fixture.addStream();
    await fixture.start();
    const old = await fixture.publishMany(40);
    await fixture.clock.advance(200);
    fixture.transport.respond = () => undefined;
    await fixture.store.deliveries.redeliverMany(fixture.tenant, stream.id, {});
    const fresh = new Set(await fixture.publishMany(40));
    const seen = { fresh: 0, due: 0 };
    for (let count = 0; count < 40; count += 1) {
      await fixture.clock.advance(20);
      const first = fixture.transport.open[0];
      seen[fresh.has(first?.eventId ?? '') ? 'fresh' : 'due'] += 1;
      first?.end(ok);
    }
    assert.ok(old.length === 40);
    assert.ok(seen.fresh >= 10, `${seen.fresh} of 40 were fresh`);
    assert.ok(seen.due >= 10, `${seen.due} of 40 were due`);
  });
});

describe('an attempt that takes long', () => {
  test('an attempt is parked after a second, and the cursor passes it', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    const [first, second] = await fixture.publishHanging('user.created', 'user.created');
    fixture.transport.respond = () => ok;
    second?.end(ok);
    await fixture.clock.advance(900);
    assert.equal(await fixture.cursor(stream), 0);
    await fixture.clock.advance(150);
    assert.equal(await fixture.cursor(stream), 2);
    first?.end(ok);
    await fixture.clock.advance(10);
    assert.deepEqual(fixture.sent().length, 2);
    assert.deepEqual(await failures(fixture, stream), []);
  });

  test('an attempt is parked as soon as enough later events have settled', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    const [first] = await fixture.publishHanging('user.created');
    fixture.transport.respond = () => ok;
    await fixture.publishMany(settings.parkAfterEvents - 1);
    await fixture.clock.advance(20);
    assert.equal(await fixture.cursor(stream), 0);
    await fixture.publishMany(1);
    await fixture.clock.advance(20);
    assert.equal(await fixture.cursor(stream), settings.parkAfterEvents + 1);
    first?.end(busy);
    fixture.transport.respond = () => ok;
    await fixture.clock.advance(1100);
    assert.equal(fixture.sent().filter((id) => id === first?.eventId).length, 2);
    assert.deepEqual(await failures(fixture, stream), []);
  });

  test('the next owner sends a parked attempt again with the same number', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    const [first] = await fixture.publishHanging('user.created');
    await fixture.clock.advance(1100);
    assert.equal(await fixture.cursor(stream), 1);
    fixture.transport.respond = () => busy;
    await fixture.crash();
    await fixture.clock.advance(60_000);
    // The attempt that was cut off left no trace: four are recorded.
    assert.equal(fixture.sent().filter((id) => id === first?.eventId).length, 5);
    assert.equal((await failures(fixture, stream))[0]?.attempts.length, 4);
  });
});

describe('the bounds of a stream', () => {
  test('no fresh event is taken while too many are settled above the cursor', async (t) => {
    let refuse = false;
    const fixture = await createDeliveryFixture(t, {
      settings: { settleMax: 2, concurrency: 1000 },
      through: (store) =>
        withDeliveries(store, {
          settle: (...args) => (refuse ? fixture.unavailable() : store.deliveries.settle(...args)),
        }),
    });
    await fixture.addStream();
    await fixture.start();
    refuse = true;
    await fixture.publishMany(100);
    await fixture.clock.advance(1000);
    const most = settings.parkAfterEvents + settings.streamConcurrency;
    assert.ok(fixture.sent().length > most);
    assert.ok(fixture.sent().length <= most + settings.streamConcurrency);
    refuse = false;
    await fixture.clock.advance(5000);
    assert.equal(new Set(fixture.sent()).size, 100);
    assert.equal(fixture.sent().length, 100);
  });

  test('no attempt begins while as many results wait for the store as slots and a batch', async (t) => {
    let away = false;
    const fixture = await createDeliveryFixture(t, {
      through: (store) =>
        withDeliveries(store, {
          settle: (...args) => (away ? fixture.unavailable() : store.deliveries.settle(...args)),
        }),
    });
    for (let count = 0; count < 20; count += 1) await fixture.addStream();
    await fixture.start();
    away = true;
    await fixture.publishMany(12);
    await fixture.clock.advance(1000);
    const most = settings.settleMax + settings.concurrency;
    assert.ok(fixture.sent().length >= most);
    assert.ok(fixture.sent().length < most + settings.concurrency, `${fixture.sent().length} sent`);
    away = false;
    await fixture.clock.advance(5000);
    assert.equal(fixture.sent().length, 20 * 12);
  });

  test('no fresh event is taken while as many as disable a stream wait for a retry', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      settings: { disable: { consecutive: 10, total: 5000 }, retryDelaysMs: [60_000] },
      respond: () => busy,
    });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(200);
    await fixture.clock.advance(5000);
    assert.ok(fixture.sent().length >= 10);
    assert.ok(fixture.sent().length < 10 + settings.streamConcurrency);
    await fixture.clock.advance(56_000);
    await fixture.clock.advance(1000);
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.ok(health && health.total < 10 + 10 + settings.streamConcurrency, `${health?.total}`);
    assert.equal((await fixture.store.streams.get(fixture.tenant, stream.id))?.status, 'disabled');
    assert.equal(fixture.reported('stream_disabled').length, 1);
  });

  test('after a crash no more events are sent twice than the bound allows', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.addStream();
    await fixture.start();
    for (let round = 0; round < 5; round += 1) {
      // Some hang, so that much settles above the cursor.
      fixture.transport.respond = ({ eventId }) => (/[05]$/.test(eventId) ? undefined : ok);
      await fixture.publishMany(40);
      const before = fixture.sent();
      await fixture.crash();
      const again = fixture
        .sent()
        .slice(before.length)
        .filter((id) => before.includes(id));
      const most = settings.streamConcurrency + settings.parkAfterEvents + settings.settleMax;
      assert.ok(again.length <= most, `${again.length} were sent twice`);
    }
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(60_000);
    assert.equal(new Set(fixture.sent()).size, 200);
  });
});

describe('a stream that changes', () => {
  test('a new destination applies from the next attempt on, also to a retry', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => busy });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publish('user.created');
    const endpoint = 'https://other.example.net/hook?a=1';
    await fixture.update(stream, { destination: { ...stream.destination, endpoint } });
    await fixture.clock.advance(1100);
    await fixture.publish('user.created');
    const targets = fixture.transport.posts.map(({ request }) => request.origin + request.path);
    assert.deepEqual(targets, [stream.destination.endpoint, endpoint, endpoint]);
  });

  test('new subscriptions apply from the next event on, also for a stream far behind', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream({ types: ['a.made'] });
    await fixture.start();
    const types = Array.from({ length: 150 }, (_, index) => (index % 2 ? 'a.made' : 'b.made'));
    const before = await fixture.publish(...types);
    await fixture.update(stream, { types: ['b.made'] });
    const after = await fixture.publish(...types);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(500);
    const wanted = [
      ...before.filter((_, index) => index % 2 === 1),
      ...after.filter((_, index) => index % 2 === 0),
    ];
    assert.deepEqual(fixture.sent(), wanted);
  });

  test('attempts of a deleted stream are cut off, and it is sent nothing more', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(10);
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    await fixture.clock.advance(0);
    assert.ok(fixture.transport.posts.every((post) => post.cancelled));
    await fixture.publishMany(10);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.transport.posts.length, settings.streamConcurrency);
    assert.equal(fixture.dispatcher.state().streams, 0);
    assert.equal(fixture.dispatcher.state().inFlight, 0);
    assert.equal(fixture.reported('stream_lost').length, 1);
    assert.deepEqual(fixture.reported('attempt'), []);
  });

  test('a stream whose change hint was lost is refreshed after the next batch', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      settings: { pollMs: 1_000_000 },
      through: (store) => ({
        ...store,
        watch: (listener) => store.watch((hint) => hint.kind === 'appended' && listener(hint)),
      }),
    });
    const stream = await fixture.addStream();
    await fixture.start();
    const endpoint = 'https://other.example.net/hook';
    await fixture.update(stream, { destination: { ...stream.destination, endpoint } });
    await fixture.publishMany(1);
    await fixture.clock.advance(settings.settleMs);
    await fixture.publishMany(1);
    const targets = fixture.transport.posts.map(({ request }) => request.origin + request.path);
    assert.deepEqual(targets, [stream.destination.endpoint, endpoint]);
  });

  test('a stream that changes while it is claimed is read again', async (t) => {
    let release: () => void = () => undefined;
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          claim: async (...args) => {
            const result = await store.ownership.claim(...args);
            await new Promise<void>((resolve) => (release = resolve));
            return result;
          },
        },
      }),
    });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.update(stream, { status: 'disabled' });
    release();
    await fixture.publishMany(3);
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), []);
  });

  test('a page that was read before a change is not used after it', async (t) => {
    let release: () => void = () => undefined;
    let slow = true;
    const fixture = await createDeliveryFixture(t, {
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
    const stream = await fixture.addStream({ types: ['a.made'] });
    const [before] = await fixture.publish('a.made');
    await fixture.start();
    await fixture.update(stream, { types: ['b.made'] });
    const [, after] = await fixture.publish('a.made', 'b.made');
    slow = false;
    release();
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sent(), [before, after]);
  });

  test('no queued event is sent between the commit of a change and the refresh', async (t) => {
    let release: () => void = () => undefined;
    let slow = false;
    const fixture = await createDeliveryFixture(t, {
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
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(10);
    slow = true;
    await fixture.update(stream, { name: 'renamed' });
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(0);
    assert.equal(fixture.sent().length, settings.streamConcurrency);
    slow = false;
    release();
    await fixture.clock.advance(0);
    assert.equal(fixture.sent().length, 2 * settings.streamConcurrency);
  });

  test('no attempt begins between the commit of a change and the refresh', async (t) => {
    let release: () => void = () => undefined;
    let slow = false;
    const fixture = await createDeliveryFixture(t, {
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
    const stream = await fixture.addStream();
    await fixture.start();
    slow = true;
    await fixture.update(stream, { status: 'disabled' });
    await fixture.publishMany(3);
    assert.deepEqual(fixture.sent(), []);
    slow = false;
    release();
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), []);
  });

  test('a stream that changes again while it is refreshed is refreshed again', async (t) => {
    let release: () => void = () => undefined;
    let slow = false;
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          owned: async (...args) => {
            const result = await store.ownership.owned(...args);
            if (slow) await new Promise<void>((resolve) => (release = resolve));
            return result;
          },
        },
      }),
    });
    const stream = await fixture.addStream();
    await fixture.start();
    slow = true;
    await fixture.update(stream, { name: 'renamed' });
    await fixture.update(stream, { status: 'disabled' });
    await fixture.publishMany(3);
    slow = false;
    release();
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), []);
  });
});

describe('a stream that is disabled', () => {
  test('a stream that an operator disables is sent nothing; its retries become failures', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => busy });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publish('user.created');
    await fixture.clock.advance(10);
    await fixture.update(stream, { status: 'disabled' });
    await fixture.publishMany(5);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.transport.posts.length, 1);
    const [failure] = await failures(fixture, stream);
    assert.equal(failure?.attempts.at(-1)?.error, 'The event stream is disabled');
  });

  test('a disabled stream is owned only while it has redeliveries to send', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => respondedWith(400) });
    const stream = await fixture.addStream();
    await fixture.start();
    const [id = ''] = await fixture.publish('user.created');
    await fixture.clock.advance(10);
    await fixture.update(stream, { status: 'disabled' });
    assert.equal(fixture.dispatcher.state().streams, 0);
    fixture.transport.respond = () => undefined;
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, id);
    await fixture.clock.advance(10);
    assert.deepEqual(fixture.sent(), [id, id]);
    assert.equal(fixture.dispatcher.state().streams, 1);
    fixture.transport.open[0]?.end(ok);
    await fixture.clock.advance(10);
    assert.equal(fixture.dispatcher.state().streams, 0);
    assert.deepEqual(await failures(fixture, stream), []);
  });

  test('a stream disabled at a limit sends nothing that was queued, and its last attempts count', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      settings: { disable: { consecutive: 3, total: 5000 } },
      respond: () => undefined,
    });
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(10);
    const [a, b, c, d] = fixture.transport.open;
    for (const post of [a, b, c]) post?.end(respondedWith(400));
    // Ends before the three are settled: the stream is not disabled yet.
    await fixture.clock.advance(10);
    assert.equal(fixture.reported('stream_disabled').length, 1);
    const begun = fixture.sent().length;
    for (const post of fixture.transport.open) if (post !== d) post.end(ok);
    d?.end(busy);
    await fixture.clock.advance(60_000);
    assert.equal(fixture.sent().length, begun);
    assert.ok(begun < ids.length);
    const listed = await failures(fixture, stream);
    assert.deepEqual(
      listed.map(({ event }) => event.id).toSorted(),
      [a, b, c, d].map((post) => post?.eventId ?? '').toSorted(),
    );
  });

  test('a retry that was claimed before its stream was disabled is not sent', async (t) => {
    const claimed = Promise.withResolvers<undefined>();
    const fixture = await createDeliveryFixture(t, {
      respond: () => busy,
      through: (store) =>
        withDeliveries(store, {
          claimDue: async (...args) => {
            const rows = await store.deliveries.claimDue(...args);
            await claimed.promise;
            return rows;
          },
        }),
    });
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(1);
    await fixture.clock.advance(1100);
    await fixture.update(stream, { status: 'disabled' });
    claimed.resolve(undefined);
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), ids);
    const [failure] = await failures(fixture, stream);
    assert.equal(failure?.attempts.at(-1)?.error, 'The event stream is disabled');
  });

  test('an enabled stream continues with later events', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    const before = await fixture.publishMany(3);
    const disabled = await fixture.update(stream, { status: 'disabled' });
    await fixture.publishMany(3);
    await fixture.update(disabled, { status: 'enabled' });
    const after = await fixture.publishMany(3);
    assert.deepEqual(fixture.sent(), [...before, ...after]);
  });

  test('a stream that continues with later events does not send what was queued', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    const before = await fixture.publishMany(10);
    const disabled = await fixture.update(stream, { status: 'disabled' });
    await fixture.update(disabled, { status: 'enabled' });
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    const after = await fixture.publishMany(2);
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sent(), [...before.slice(0, settings.streamConcurrency), ...after]);
  });

  test('a stream that resumes with held events sends each of them once', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream();
    await fixture.start();
    const before = await fixture.publishMany(3);
    const disabled = await fixture.update(stream, { status: 'disabled' });
    const held = await fixture.publishMany(30);
    await fixture.update(disabled, { status: 'enabled' }, 'held');
    const after = await fixture.publishMany(3);
    await fixture.clock.advance(500);
    assert.deepEqual(fixture.sent(), [...before, ...held, ...after]);
    assert.equal(await fixture.cursor(stream), 36);
  });

  test('resuming with held events: an attempt still under way is not sent a second time', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    const before = await fixture.publishMany(3);
    const [first, second, third] = fixture.transport.open;
    // Settled above the cursor of the run that ends.
    second?.end(ok);
    await fixture.clock.advance(10);
    const disabled = await fixture.update(stream, { status: 'disabled' });
    const held = await fixture.publishMany(2);
    await fixture.update(disabled, { status: 'enabled' }, 'held');
    first?.end(ok);
    third?.end(ok);
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sent(), [...before, ...held]);
    assert.equal(await fixture.cursor(stream), 5);
  });

  test('resuming with the latest events: an attempt still under way counts, but does not move the cursor of the new run', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(2);
    const [first, second] = fixture.transport.open;
    const disabled = await fixture.update(stream, { status: 'disabled' });
    await fixture.publishMany(2);
    await fixture.update(disabled, { status: 'enabled' }, 'latest');
    const [fresh] = await fixture.publishHanging('user.created');
    second?.end(ok);
    await fixture.clock.advance(10);
    assert.equal(await fixture.cursor(stream), 4);
    // An attempt still under way does not block the cursor of the new run either.
    fresh?.end(ok);
    await fixture.clock.advance(10);
    assert.equal(await fixture.cursor(stream), 5);
    first?.end(respondedWith(400));
    await fixture.clock.advance(10);
    assert.equal(await fixture.cursor(stream), 5);
    const [failure] = await failures(fixture, stream);
    assert.equal(failure?.event.id, first?.eventId);
  });
});

describe('stopping', () => {
  test('stopping waits for attempts under way, records them and releases the streams', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(10);
    const stopped = fixture.stop();
    await fixture.clock.advance(500);
    assert.equal(fixture.transport.posts.length, settings.streamConcurrency);
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(0);
    await stopped;
    assert.equal(fixture.transport.posts.length, settings.streamConcurrency);
    fixture.transport.respond = () => ok;
    await fixture.restart();
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sent(), ids);
    assert.equal(await fixture.cursor(stream), 10);
  });

  test('stopping leaves no timer', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => busy });
    await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(10);
    await fixture.clock.advance(100);
    await fixture.stop();
    // The timer that bounds the stop is set until it ends.
    assert.ok(fixture.clock.pending <= 1, `${fixture.clock.pending} timers wait`);
  });

  test('stopping ends within a bounded time while the store is unavailable', async (t) => {
    let away = false;
    const fixture = await createDeliveryFixture(t, {
      through: (store) =>
        withDeliveries(store, {
          settle: (...args) => (away ? fixture.unavailable() : store.deliveries.settle(...args)),
        }),
    });
    await fixture.addStream();
    await fixture.start();
    away = true;
    await fixture.publishMany(1);
    const stopped = fixture.stop();
    await fixture.clock.advance(settings.attemptTimeoutMs + settings.leaseGraceMs);
    await stopped;
    assert.equal(fixture.reported('store_unavailable').length, 1);
  });

  test('a kill cuts off the attempts under way and issues no more store commands', async (t) => {
    let killed = false;
    let commands = 0;
    const fixture = await createDeliveryFixture(t, {
      respond: () => undefined,
      through: (store) =>
        withDeliveries(store, {
          settle: (...args) => {
            if (killed) commands += 1;
            return store.deliveries.settle(...args);
          },
        }),
    });
    await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(3);
    killed = true;
    fixture.transport.open[0]?.end(ok);
    fixture.dispatcher.kill();
    await fixture.clock.advance(60_000);
    assert.ok(fixture.transport.posts.slice(1).every((post) => post.cancelled));
    assert.equal(commands, 0);
    assert.equal(fixture.clock.pending, 0);
  });
});

describe('many streams', () => {
  /** A fixture that records the streams of each claim. */
  async function claiming(t: TestContext, dueClaims: string[][]): Promise<DeliveryFixture> {
    return createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        ownership: {
          ...store.ownership,
          claim: async (...args) => {
            const result = await store.ownership.claim(...args);
            dueClaims.push(result.map(({ stream }) => stream.id));
            return result;
          },
        },
      }),
    });
  }

  test('many streams are claimed without delay, some at a time', async (t) => {
    const dueClaims: string[][] = [];
    const fixture = await claiming(t, dueClaims);
    for (let count = 0; count < 600; count += 1) await fixture.addStream({ types: [] });
    await fixture.start();
    assert.equal(fixture.dispatcher.state().streams, 600);
    assert.ok(dueClaims.every((ids) => ids.length <= 256));
    assert.equal(new Set(dueClaims.flat()).size, 600);
    assert.equal(dueClaims.flat().length, 600, 'each is claimed once');
  });

  test('streams with events after their cursor are claimed first', async (t) => {
    const dueClaims: string[][] = [];
    const fixture = await claiming(t, dueClaims);
    for (let count = 0; count < 600; count += 1) await fixture.addStream({ types: [] });
    const other = await addTenant(fixture.store, 'other');
    const waiting = await fixture.addStream({ tenant: other.id });
    await fixture.store.log.append(other.id, [newEvent()]);
    await fixture.start();
    const claim = dueClaims.findIndex((ids) => ids.includes(waiting.id));
    assert.equal(claim, 1, 'next after the first, which takes what comes first');
    assert.equal(fixture.dispatcher.state().streams, 601);
    assert.equal(fixture.transport.posts.length, 1);
  });
});

describe('idle streams', () => {
  /** Passes the number of cursors that are written together. */
  const noting =
    (note: (count: number) => void) =>
    (store: Store): Store => ({
      ...store,
      ownership: {
        ...store.ownership,
        raiseCursors: (cursors) => {
          note(cursors.length);
          return store.ownership.raiseCursors(cursors);
        },
      },
    });

  test('cursors of many streams are written in parts, between which other work has its turn', async (t) => {
    const done: (number | string)[] = [];
    const fixture = await createDeliveryFixture(t, {
      through: noting((count) => {
        done.push(count);
        fixture.clock.after(0, () => done.push('other work'));
      }),
    });
    for (let count = 0; count < 600; count += 1) await fixture.addStream({ types: ['never.made'] });
    await fixture.start();
    await fixture.publishMany(50);
    await fixture.clock.advance(65_000);
    assert.deepEqual(done, [256, 'other work', 256, 'other work', 88, 'other work']);
  });

  test('a store that is replaced while cursors are written gets no update without cursors', async (t) => {
    const written: number[] = [];
    const listeners = new Set<(hint: Hint) => void>();
    const replaced = () => listeners.forEach((listener) => listener({ kind: 'replaced' }));
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...noting((count) => {
          written.push(count);
          if (written.length === 1) fixture.clock.after(0, replaced);
        })(store),
        watch: (listener) => {
          listeners.add(listener);
          return store.watch(listener);
        },
      }),
    });
    for (let count = 0; count < 600; count += 1) await fixture.addStream({ types: ['never.made'] });
    await fixture.start();
    await fixture.publishMany(50);
    await fixture.clock.advance(65_000);
    assert.deepEqual(written, [256]);
    await fixture.clock.advance(65_000);
    assert.deepEqual(written, [256, 256, 88], 'of the node that has joined again');
  });

  test('idle streams cost no write; cursors over skipped events are written together, rarely', async (t) => {
    const written: number[] = [];
    const fixture = await createDeliveryFixture(t, {
      through: noting((count) => written.push(count)),
    });
    const streams = [];
    for (let count = 0; count < 5; count += 1) {
      streams.push(await fixture.addStream({ types: ['never.made'] }));
    }
    await fixture.start();
    await fixture.publishMany(50);
    await fixture.clock.advance(50_000);
    assert.deepEqual(written, []);
    await fixture.clock.advance(15_000);
    assert.deepEqual(written, [5]);
    for (const stream of streams) assert.equal(await fixture.cursor(stream), 50);
    await fixture.clock.advance(200_000);
    assert.deepEqual(written, [5]);
    assert.deepEqual(fixture.sent(), []);
  });

  test('cursors are written earlier when many events are skipped', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: { lagOffsetsMax: 40 } });
    const stream = await fixture.addStream({ types: ['never.made'] });
    await fixture.start();
    await fixture.publishMany(50);
    await fixture.clock.advance(settings.pollMs);
    assert.equal(await fixture.cursor(stream), 50);
  });

  test('idle streams wait with two timers in total, the poll and the lease', async (t) => {
    const fixture = await createDeliveryFixture(t);
    for (let count = 0; count < 20; count += 1) await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(2);
    await fixture.clock.advance(3000);
    assert.equal(fixture.clock.pending, 2);
  });

  test('the cursor passes skipped events when the stream is released', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const stream = await fixture.addStream({ types: ['never.made'] });
    await fixture.start();
    await fixture.publishMany(7);
    await fixture.restart();
    assert.equal(await fixture.cursor(stream), 7);
  });
});

describe('a store that fails', () => {
  test('an outage of the store is reported once, and delivery continues after it', async (t) => {
    let away = false;
    const fail = () => fixture.unavailable();
    const fixture = await createDeliveryFixture(t, {
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
    const stream = await fixture.addStream();
    await fixture.start();
    fixture.transport.respond = ({ eventId }) => (eventId.endsWith('3') ? busy : ok);
    await fixture.publishMany(10);
    away = true;
    const ids = await fixture.publishMany(200);
    await fixture.clock.advance(30_000);
    assert.equal(fixture.dispatcher.state().storeFails, true);
    fixture.transport.respond = () => ok;
    away = false;
    await fixture.clock.advance(30_000);
    assert.equal(fixture.dispatcher.state().storeFails, false);
    assert.equal(fixture.reported('store_unavailable').length, 1);
    assert.equal(fixture.reported('store_recovered').length, 1);
    assert.equal(await fixture.cursor(stream), 210);
    assert.ok(ids.every((id) => fixture.sent().includes(id)));
    assert.deepEqual(await failures(fixture, stream), []);
  });

  test('a row whose outcome waits for the store is not sent again', async (t) => {
    let away = false;
    const fixture = await createDeliveryFixture(t, {
      respond: () => undefined,
      through: (store) =>
        withDeliveries(store, {
          settle: (...args) => (away ? fixture.unavailable() : store.deliveries.settle(...args)),
        }),
    });
    const stream = await fixture.addStream();
    await fixture.start();
    const [id] = await fixture.publishMany(1);
    await fixture.clock.advance(1100);
    away = true;
    fixture.transport.open[0]?.end(ok);
    // Long after the lease of the parked row.
    await fixture.clock.advance(60_000);
    away = false;
    await fixture.clock.advance(10_000);
    assert.deepEqual(fixture.sent(), [id]);
    assert.deepEqual(await failures(fixture, stream), []);
  });
});
