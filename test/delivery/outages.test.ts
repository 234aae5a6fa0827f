import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../src/core/errors.ts';
import type { DeliveryOptions, Stream } from '../../src/core/types.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { Store } from '../../src/store/port/store.ts';
import { respondedWith } from '../helpers/transport.ts';
import { newEvent, newId } from '../store/contract/fixture.ts';
import {
  createDeliveryFixture,
  type DeliveryFixture,
  settings,
  withDeliveries,
} from './fixture.ts';

/** Days pass in these tests: fewer heartbeats and polls make them short. */
const calm = { heartbeatMs: 600_000, leaseStopMs: 1_800_000, leaseMs: 3_600_000, pollMs: 600_000 };

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** No attempt by the schedule comes within an hour. */
const slow: DeliveryOptions = { retry: { delaysSeconds: [7200, 7200] } };

interface Outage extends DeliveryFixture {
  readonly stream: Stream;
  /** Whether the receiver fails. */
  isDown: boolean;
  /** Ids of events that always fail. */
  readonly poison: Set<string>;
  /** Ids of the events that were delivered, in order. */
  readonly arrived: string[];
}

/** Runs a dispatcher with a stream whose receiver is down. */
async function outageOf(
  t: TestContext,
  options: {
    readonly disable?: DeliverySettings['disable'];
    readonly delivery?: DeliveryOptions;
    readonly through?: (store: Store) => Store;
  } = {},
): Promise<Outage> {
  const { disable = { consecutive: 10, total: 1000 }, delivery = slow, through } = options;
  const fixture = await createDeliveryFixture(t, {
    settings: { ...calm, disable },
    ...(through && { through }),
  });
  const stream = await fixture.addStream({ delivery });
  const state = { isDown: true, poison: new Set<string>(), arrived: [] as string[] };
  fixture.transport.respond = ({ eventId }) => {
    if (state.isDown || state.poison.has(eventId)) return respondedWith(503, 'busy');
    state.arrived.push(eventId);
    return respondedWith(204);
  };
  await fixture.start();
  const { start, stop, restart, crash, publishMany, sent, update } = fixture;
  return Object.defineProperties(state, {
    ...Object.getOwnPropertyDescriptors(fixture),
    ...Object.getOwnPropertyDescriptors({ stream, start, stop, restart, crash, publishMany, sent }),
    update: { value: update },
  }) as unknown as Outage;
}

const healthOf = ({ store, tenant, stream }: Outage) => store.streams.health(tenant, stream.id);

const statusOf = async ({ store, tenant, stream }: Outage) =>
  (await store.streams.get(tenant, stream.id))?.status;

const unique = (ids: readonly string[]): Set<string> => new Set(ids);

describe('a receiver that is down', () => {
  test('fresh events wait, one delivery is tried each minute, and a success sends all', async (t) => {
    const outage = await outageOf(t);
    const ids = await outage.publishMany(30);
    await outage.clock.advance(1000);
    const before = outage.sent().length;
    assert.ok(before >= 10 && before < 10 + settings.streamConcurrency, `${before} were sent`);
    await outage.clock.advance(5 * minuteMs);
    assert.deepEqual(outage.sent().slice(before), ids.slice(0, 5));
    outage.isDown = false;
    await outage.clock.advance(minuteMs);
    assert.deepEqual(unique(outage.arrived), unique(ids));
    assert.equal(outage.arrived.length, 30);
    assert.deepEqual(await healthOf(outage), { consecutive: 0, total: 0 });
    assert.equal(await outage.cursor(outage.stream), 30);
    assert.equal(outage.reported('receiver_down').length, 1);
    assert.equal(outage.reported('receiver_up').length, 1);
  });

  test('a pause while waiting deliveries are released is no failure of the receiver', async (t) => {
    const outage = await outageOf(t, { disable: { consecutive: 300, total: 1000 } });
    const ids = await outage.publishMany(400);
    await outage.clock.advance(10_000);
    const { respond } = outage.transport;
    let isPausing = true;
    outage.transport.respond = (post) => {
      const result = respond(post);
      if (isPausing) {
        void outage.store.streams.update(outage.tenant, outage.stream.id, (before) => ({
          after: { ...before, paused: { at: 0 } },
        }));
      }
      isPausing = false;
      return result;
    };
    outage.isDown = false;
    await outage.clock.advance(hourMs);
    assert.ok(outage.arrived.length < 100, `${outage.arrived.length} arrived`);
    assert.equal(outage.reported('receiver_down').length, 1);
    await outage.update(outage.stream, { paused: undefined });
    await outage.clock.advance(2 * minuteMs);
    assert.deepEqual(unique(outage.arrived), unique(ids));
    assert.equal(outage.reported('receiver_down').length, 1);
  });

  test('what is tried each minute uses up no attempt of the schedule', async (t) => {
    const outage = await outageOf(t, { disable: { consecutive: 2, total: 100 } });
    await outage.publishMany(2);
    await outage.clock.advance(3.5 * hourMs);
    assert.equal(await statusOf(outage), 'enabled');
    const attempts = outage.reported('attempt');
    assert.ok(attempts.length > 200, `${attempts.length} attempts`);
    assert.ok(attempts.every(({ attempt, result }) => attempt <= 2 && result === 'retry'));
    await outage.clock.advance(1.2 * hourMs);
    assert.equal(await statusOf(outage), 'disabled');
    assert.deepEqual(await healthOf(outage), { consecutive: 2, total: 2 });
  });

  test('fresh events wait before waiting retries and open failures reach the limit', async (t) => {
    const outage = await outageOf(t, { disable: { consecutive: 100, total: 20 } });
    const ids = await outage.publishMany(50);
    await outage.clock.advance(30 * minuteMs);
    assert.ok(unique(outage.sent()).size < 20, `${unique(outage.sent()).size} were sent`);
    await outage.clock.advance(6 * hourMs);
    assert.equal(await statusOf(outage), 'enabled');
    outage.isDown = false;
    await outage.clock.advance(2 * minuteMs);
    const open = (await healthOf(outage))?.total ?? 0;
    assert.equal(unique(outage.arrived).size, ids.length - open);
  });

  test('a stream without a schedule of its own takes no trials', async (t) => {
    const outage = await outageOf(t, { delivery: { perSecond: 100 } });
    await outage.publishMany(30);
    await outage.clock.advance(hourMs);
    assert.equal(await statusOf(outage), 'disabled');
    const { length } = outage.sent();
    await outage.clock.advance(hourMs);
    assert.equal(outage.sent().length, length);
  });

  test('a receiver that is back is found although events that always fail are tried first', async (t) => {
    const outage = await outageOf(t);
    const ids = await outage.publishMany(30);
    await outage.clock.advance(1000);
    for (const id of ids.slice(0, 3)) outage.poison.add(id);
    outage.isDown = false;
    await outage.clock.advance(3 * minuteMs);
    assert.deepEqual(outage.arrived, []);
    await outage.clock.advance(minuteMs);
    assert.deepEqual(unique(outage.arrived), unique(ids.slice(3)));
  });

  test('with nothing but events that always fail the next event is tried', async (t) => {
    const outage = await outageOf(t, { disable: { consecutive: 3, total: 100 } });
    const ids = await outage.publishMany(20);
    await outage.clock.advance(1000);
    for (const id of outage.sent()) outage.poison.add(id);
    outage.isDown = false;
    await outage.clock.advance(10 * minuteMs);
    const healthy = ids.filter((id) => !outage.poison.has(id));
    assert.deepEqual(unique(outage.arrived), unique(healthy));
  });

  test('a receiver that accepts one request and no more uses up the schedules of few', async (t) => {
    const disable = { consecutive: 600, total: 5000 };
    const outage = await outageOf(t, { disable });
    await outage.publishMany(600);
    await outage.clock.advance(1000);
    const before = outage.sent().length;
    const { respond } = outage.transport;
    let accepted = 0;
    outage.transport.respond = (post) => {
      accepted += 1;
      return accepted === 1 ? respondedWith(204) : respond(post);
    };
    await outage.clock.advance(1.9 * minuteMs);
    assert.equal(outage.sent().length - before, 1 + 256);
    await outage.clock.advance(minuteMs);
    assert.equal(outage.sent().length - before, 1 + 256 + 1, 'one is tried each minute again');
    outage.transport.respond = respond;
    outage.isDown = false;
    await outage.clock.advance(2 * minuteMs);
    assert.equal(unique(outage.arrived).size, 599);
  });

  test('the next owner continues: few events are tried, and a success sends all', async (t) => {
    const outage = await outageOf(t);
    const ids = await outage.publishMany(100);
    await outage.clock.advance(1000);
    await outage.crash();
    await outage.clock.advance(5 * minuteMs);
    const tried = unique(outage.sent()).size;
    assert.ok(tried < 10 + 3 * settings.streamConcurrency, `${tried} were tried`);
    outage.isDown = false;
    await outage.clock.advance(2 * minuteMs);
    assert.deepEqual(unique(outage.arrived), unique(ids));
  });

  test('an owner that ends after the success, before the others are due, leaves it to the next', async (t) => {
    let isAway = true;
    const outage = await outageOf(t, {
      through: (store) =>
        withDeliveries(store, {
          releaseWaiting: (request) =>
            isAway ? new Promise(() => undefined) : store.deliveries.releaseWaiting(request),
        }),
    });
    const ids = await outage.publishMany(12);
    await outage.clock.advance(1000);
    outage.isDown = false;
    await outage.clock.advance(minuteMs);
    assert.ok(outage.arrived.length > 0 && outage.arrived.length < 12);
    isAway = false;
    await outage.crash();
    await outage.clock.advance(2 * minuteMs);
    assert.deepEqual(unique(outage.arrived), unique(ids));
  });

  test('a new endpoint is tried at once', async (t) => {
    const outage = await outageOf(t);
    const ids = await outage.publishMany(30);
    await outage.clock.advance(1000);
    outage.isDown = false;
    const { destination } = outage.stream;
    const endpoint = 'https://other.example.net/leat';
    await outage.update(outage.stream, { destination: { ...destination, endpoint } });
    await outage.clock.advance(1000);
    assert.deepEqual(unique(outage.arrived), unique(ids));
  });

  test('retry now sends what waits, and the outage ends with it', async (t) => {
    const outage = await outageOf(t);
    const ids = await outage.publishMany(30);
    await outage.clock.advance(1000);
    outage.isDown = false;
    const due = await outage.store.deliveries.retryNow(outage.tenant, outage.stream.id);
    assert.ok(due >= 10);
    await outage.clock.advance(1000);
    assert.deepEqual(unique(outage.arrived), unique(ids));
  });

  test('nothing is tried while the stream is disabled', async (t) => {
    const outage = await outageOf(t);
    await outage.publishMany(30);
    await outage.clock.advance(1000);
    await outage.update(outage.stream, { status: 'disabled' });
    const before = outage.sent().length;
    await outage.clock.advance(hourMs);
    assert.equal(outage.sent().length, before);
  });

  test('nothing is tried while the stream is paused, and all is sent once it resumes', async (t) => {
    const outage = await outageOf(t);
    const ids = await outage.publishMany(30);
    await outage.clock.advance(1000);
    const paused = { at: outage.clock.now(), reason: undefined };
    await outage.update(outage.stream, { paused });
    const before = outage.sent().length;
    await outage.clock.advance(hourMs);
    assert.equal(outage.sent().length, before);
    outage.isDown = false;
    await outage.update(outage.stream, { paused: undefined });
    await outage.clock.advance(2 * minuteMs);
    assert.deepEqual(unique(outage.arrived), unique(ids));
  });

  test('a change while it is down: the first success sends what waits, however few', async (t) => {
    const outage = await outageOf(t);
    const { clock, transport, stream } = outage;
    const ids = await outage.publishMany(30);
    await clock.advance(1000);
    const { respond } = transport;
    transport.respond = ({ eventId }) => {
      outage.poison.add(eventId);
      return respondedWith(400, 'no');
    };
    await clock.advance(6 * minuteMs);
    assert.equal(outage.poison.size, 6);
    transport.respond = respond;
    outage.isDown = false;
    const name = 'another';
    await outage.update(stream, { name });
    await clock.advance(3 * minuteMs);
    assert.equal(unique(outage.arrived).size, ids.length - outage.poison.size);
    assert.equal(outage.reported('receiver_down').length, 1);
    assert.equal(outage.reported('receiver_up').length, 1);
  });

  for (const lost of ['bringForward', 'releaseWaiting'] as const) {
    test(`a result of ${lost} that is lost delays nothing`, async (t) => {
      let calls = 0;
      const outage = await outageOf(t, {
        through: (store) => {
          const losing = async <R>(result: Promise<R>): Promise<R> => {
            calls += 1;
            const isLost = calls === 1;
            const value = await result;
            if (isLost) throw new StoreUnavailable('away');
            return value;
          };
          const { deliveries } = store;
          return {
            ...store,
            deliveries: {
              ...deliveries,
              ...(lost === 'bringForward'
                ? { bringForward: (request) => losing(deliveries.bringForward(request)) }
                : { releaseWaiting: (request) => losing(deliveries.releaseWaiting(request)) }),
            },
          };
        },
      });
      const ids = await outage.publishMany(30);
      await outage.clock.advance(1000);
      outage.isDown = false;
      await outage.clock.advance(2 * minuteMs);
      assert.ok(calls > 1);
      assert.deepEqual(unique(outage.arrived), unique(ids));
    });
  }

  test('a delivery that was in progress when nothing else could be tried is tried later', async (t) => {
    const delivery = { ...slow, concurrency: 1, timeoutMs: 30_000 };
    const outage = await outageOf(t, { disable: { consecutive: 1, total: 100 }, delivery });
    const { clock, transport, store, tenant, stream } = outage;
    const ids = await outage.publishMany(1);
    await clock.advance(minuteMs - 5000);
    const { respond } = transport;
    transport.respond = () => undefined;
    await store.deliveries.retryNow(tenant, stream.id);
    await clock.advance(10_000);
    transport.respond = respond;
    transport.posts.at(-1)?.end(respondedWith(503, 'busy'));
    await clock.advance(0);
    outage.isDown = false;
    await clock.advance(2 * minuteMs);
    assert.deepEqual(outage.arrived, ids);
  });
});

describe('a replay while its receiver is down', () => {
  test('where nothing else can be tried one of its deliveries is', async (t) => {
    const outage = await outageOf(t, { disable: { consecutive: 100, total: 20 } });
    const { store, tenant, stream, clock, transport } = outage;
    const { respond } = transport;
    outage.isDown = false;
    const ids = await outage.publishMany(3);
    const refuse = (): ReturnType<typeof respondedWith> => respondedWith(400, 'no');
    transport.respond = refuse;
    await outage.publishMany(16);
    transport.respond = respond;
    outage.isDown = true;
    await outage.publishMany(1);
    transport.respond = refuse;
    await clock.advance(minuteMs + 1000);
    assert.deepEqual(await healthOf(outage), { consecutive: 17, total: 17 }, 'none waits');
    assert.equal(outage.reported('receiver_down').length, 1);
    transport.respond = respond;
    const before = outage.sent().length;
    const replay = { tenant, stream: stream.id, id: newId('rpl'), from: 0, to: 3 };
    await store.replays.create({ ...replay, types: undefined });
    await clock.advance(3 * minuteMs);
    const tried = outage.sent().length - before;
    assert.ok(tried >= 1 && tried <= 3, `${tried} were tried`);
    outage.isDown = false;
    outage.arrived.length = 0;
    await clock.advance(5 * minuteMs);
    assert.deepEqual(unique(outage.arrived), unique(ids));
  });

  test('cancelling it ends the trial of a delivery of it, and others follow', async (t) => {
    const outage = await outageOf(t, {
      disable: { consecutive: 10, total: 5 },
      delivery: { ...slow, perSecond: 0.1 },
    });
    const { store, tenant, stream, clock } = outage;
    outage.isDown = false;
    const [first] = await outage.publishMany(1);
    await clock.advance(minuteMs);
    outage.isDown = true;
    const replay = { tenant, stream: stream.id, id: newId('rpl') };
    await store.replays.create({ ...replay, from: 0, to: 1, types: undefined });
    await clock.advance(minuteMs - 1000);
    // Takes the only attempt of the next ten seconds: the trial has to wait.
    await store.deliveries.addTest(tenant, stream.id, newEvent({ time: clock.now() }));
    await clock.advance(2000);
    assert.deepEqual(outage.sent().slice(0, 2), [first, first]);
    await store.replays.cancel(tenant, stream.id, replay.id);
    await clock.advance(2 * minuteMs);
    outage.isDown = false;
    const before = outage.arrived.length;
    const ids = await outage.publishMany(1);
    await clock.advance(3 * minuteMs);
    assert.deepEqual(outage.arrived.slice(before), ids);
  });
});

describe('events that always fail', () => {
  test('they stop neither the others nor the stream, however many wait', async (t) => {
    const outage = await outageOf(t, { delivery: { retry: 'days' } });
    outage.isDown = false;
    const { store, tenant, clock } = outage;
    for (let round = 0; round < 20; round += 1) {
      const events = Array.from({ length: 20 }, () => newEvent({ time: clock.now() }));
      for (const { id } of events.slice(9, 11)) outage.poison.add(id);
      await store.log.append(tenant, events);
      await clock.advance(0);
      assert.equal(outage.arrived.length, 18 * (round + 1), 'at once');
    }
    await clock.advance(hourMs);
    const ids = await outage.publishMany(50);
    assert.deepEqual(outage.arrived.slice(18 * 20), ids);
    assert.equal(await statusOf(outage), 'enabled');
  });

  test('a replay is not held up by more of them than it has slots', async (t) => {
    const outage = await outageOf(t, { delivery: { retry: 'days' } });
    outage.isDown = false;
    const ids = await outage.publishMany(60);
    for (const id of ids.filter((_, index) => index % 6 === 0)) outage.poison.add(id);
    await outage.clock.advance(1000);
    outage.arrived.length = 0;
    const { tenant, stream } = outage;
    const replay = { tenant, stream: stream.id, id: newId('rpl'), from: 0, to: 60 };
    await outage.store.replays.create({ ...replay, types: undefined });
    await outage.clock.advance(4000);
    assert.deepEqual(
      outage.arrived,
      ids.filter((id) => !outage.poison.has(id)),
    );
  });
});

describe('a day with an outage of eight hours', () => {
  test(
    'nothing is lost and nothing disabled; other streams notice nothing',
    { tags: ['long'] },
    async (t) => {
      const outage = await outageOf(t, {
        disable: settings.disable,
        delivery: { retry: 'days' },
      });
      outage.isDown = false;
      const other = await outage.addStream({ types: ['other.made'] });
      const { tenant, stream, clock, store, transport } = outage;
      const others: string[] = [];
      const { respond } = transport;
      transport.respond = (post) => {
        if (!post.request.body.includes('other.made')) return respond(post);
        others.push(post.eventId);
        return respondedWith(204);
      };
      const published: string[] = [];
      const rounds = 100;
      for (let round = 0; round < rounds; round += 1) {
        // Away from the second hour to the tenth.
        outage.isDown = round >= 8 && round < 42;
        const fails = newId('evt');
        if (round % 2 === 0) outage.poison.add(fails);
        const before = outage.arrived.length;
        const made = await store.log.append(tenant, [newEvent({ id: fails, time: clock.now() })]);
        assert.equal(made.length, 1);
        published.push(fails, ...(await outage.publishMany(99)));
        await outage.publish('other.made');
        assert.equal(others.length, round + 1, 'at once');
        if (round < 8 || round > 43) assert.ok(outage.arrived.length >= before + 99, 'at once');
        if (round % 10 === 5) {
          const replay = {
            tenant,
            stream: stream.id,
            id: newId('rpl'),
            from: round,
            to: round + 50,
          };
          await store.replays.create({ ...replay, types: undefined });
        }
        await clock.advance((24 * hourMs) / rounds);
      }
      assert.equal(await statusOf(outage), 'enabled');
      assert.equal((await store.streams.get(tenant, other.id))?.status, 'enabled');
      const arrived = unique(outage.arrived);
      assert.deepEqual(
        published.filter((id) => !arrived.has(id)),
        [...outage.poison],
      );
      assert.deepEqual(await healthOf(outage), { consecutive: 0, total: 0 }, 'all wait');
    },
  );
});
