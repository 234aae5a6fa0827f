import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreContentRefused } from '../../src/core/errors.ts';
import type { Stream, StreamRef } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { ok, respondedWith } from '../helpers/transport.ts';
import { newId } from '../store/contract/fixture.ts';
import { createDeliveryFixture, type DeliveryFixture, withDeliveries } from './fixture.ts';

const cause = Object.assign(new Error('invalid input syntax'), { code: '22P02' });
const refuse = (): Promise<never> =>
  Promise.reject(new StoreContentRefused('invalid input syntax', { cause }));

interface Refusing {
  readonly fixture: DeliveryFixture;
  /** Streams whose results the store refuses. */
  readonly refused: Set<string>;
  /** Returns the state of a stream, and why its results are refused. */
  standing(stream: Stream): Promise<readonly [state: string | undefined, refused: unknown]>;
}

async function createRefusing(t: TestContext): Promise<Refusing> {
  const refused = new Set<string>();
  const through = (store: Store): Store => ({
    ...store,
    deliveries: {
      ...store.deliveries,
      settle: (...args) =>
        args[2].some(({ stream }) => refused.has(stream))
          ? refuse()
          : store.deliveries.settle(...args),
    },
  });
  const fixture = await createDeliveryFixture(t, { respond: () => ok, through });
  const { store, tenant } = fixture;
  return {
    fixture,
    refused,
    standing: async ({ id }) => {
      const { streams } = await store.streams.states(tenant, { lagsOf: 'none' });
      const facts = await store.streams.facts(tenant, id);
      return [streams.find((one) => one.id === id)?.state, facts?.refused];
    },
  };
}

describe('a stream whose results the store refuses', () => {
  test('is failing with the reason, and is sent again soon after the store records results', async (t) => {
    const { fixture, refused, standing } = await createRefusing(t);
    const { clock } = fixture;
    const stream = await fixture.addStream();
    await fixture.start();
    refused.add(stream.id);
    const ids = await fixture.publishMany(5);
    await clock.advance(100);
    const [state, reason] = await standing(stream);
    assert.deepEqual([state, reason], ['failing', { since: clock.now() - 90, code: '22P02' }]);
    refused.delete(stream.id);
    await clock.advance(1000);
    assert.equal(await fixture.cursor(stream), 5);
    assert.deepEqual(new Set(fixture.sent()), new Set(ids));
    assert.deepEqual(await standing(stream), ['ok', undefined]);
  });

  test('a change of it is seen although the stream waits', async (t) => {
    const { fixture, refused } = await createRefusing(t);
    const { clock, store, tenant } = fixture;
    const stream = await fixture.addStream();
    await fixture.start();
    refused.add(stream.id);
    await fixture.publishMany(5);
    // Its waits are long by now.
    await clock.advance(300_000);
    const before = fixture.sent().length;
    await fixture.update(stream, { paused: { at: clock.now() } });
    assert.equal(await store.ownership.hasSeen({ tenant, stream: stream.id }), true);
    await clock.advance(300_000);
    assert.equal(fixture.sent().length, before, 'it is paused');
  });

  test('waits grow to a minute while the store refuses, and other streams are not affected', async (t) => {
    const { fixture, refused, standing } = await createRefusing(t);
    const { clock } = fixture;
    const stream = await fixture.addStream({ types: ['a.made'] });
    const other = await fixture.addStream({ types: ['b.made'] });
    await fixture.start();
    refused.add(stream.id);
    await fixture.publish('a.made', 'b.made');
    const tries: number[] = [];
    for (let minute = 0; minute < 6; minute += 1) {
      const before = fixture.reported('settle_stuck').length;
      await clock.advance(60_000);
      tries.push(fixture.reported('settle_stuck').length - before);
    }
    // After 0, 1, 3, 7, 15 and 31 s, and then once a minute.
    assert.deepEqual(tries, [6, 1, 1, 1, 1, 1]);
    assert.equal(await fixture.cursor(other), 2);
    assert.deepEqual((await standing(other))[0], 'ok');
    assert.equal(fixture.dispatcher.state().unsettled, 0);
  });
});

test('a stream of which the store refuses every change of its row holds up no other', async (t) => {
  const damaged = new Set<string>();
  const fixture = await createDeliveryFixture(t, {
    respond: () => ok,
    through: (store) => ({
      ...store,
      deliveries: {
        ...store.deliveries,
        settle: (...args) =>
          args[2].some(({ stream }) => damaged.has(stream))
            ? refuse()
            : store.deliveries.settle(...args),
      },
      ownership: {
        ...store.ownership,
        noteRefusal: (...args) =>
          damaged.has(args[1].stream) ? refuse() : store.ownership.noteRefusal(...args),
        raiseCursors: (cursors) =>
          cursors.some(({ stream }) => damaged.has(stream))
            ? refuse()
            : store.ownership.raiseCursors(cursors),
        release: (...args) =>
          args[1].some(({ stream }) => damaged.has(stream))
            ? refuse()
            : store.ownership.release(...args),
      },
    }),
  });
  const { clock } = fixture;
  const stream = await fixture.addStream({ types: ['a.made'] });
  const other = await fixture.addStream({ types: ['b.made'] });
  // Nothing is sent to these, so that their cursors are raised together.
  const idle = await fixture.addStream({ types: ['c.made'] });
  const damagedIdle = await fixture.addStream({ types: ['c.made'] });
  await fixture.start();
  damaged.add(stream.id);
  damaged.add(damagedIdle.id);
  for (let minute = 1; minute <= 3; minute += 1) {
    await fixture.publish('a.made', 'b.made');
    await clock.advance(60_000);
    assert.equal(await fixture.cursor(other), 2 * minute);
  }
  const cursorsOfIdle = async (): Promise<readonly number[]> => [
    await fixture.cursor(idle),
    await fixture.cursor(damagedIdle),
  ];
  assert.deepEqual(await cursorsOfIdle(), [6, 0]);
  damaged.clear();
  await clock.advance(120_000);
  assert.equal(await fixture.cursor(stream), 6);
  assert.deepEqual(await cursorsOfIdle(), [6, 6]);
});

test('a claim that the store refuses for its values is repeated', async (t) => {
  let refusals = 3;
  const fixture = await createDeliveryFixture(t, {
    respond: () => ok,
    through: (store) => ({
      ...store,
      ownership: {
        ...store.ownership,
        claim: (...args) => {
          refusals -= 1;
          return refusals >= 0 ? refuse() : store.ownership.claim(...args);
        },
      },
    }),
  });
  const stream = await fixture.addStream();
  await fixture.start();
  await fixture.publishMany(3);
  await fixture.clock.advance(6000);
  assert.equal(fixture.reported('unexpected').length, 3);
  assert.equal(await fixture.cursor(stream), 3);
});

/** Refuses to change the parked rows of a stream when it is claimed. */
function refusingToBegin(store: Store, damaged: () => StreamRef | undefined): Store {
  const { ownership } = store;
  return {
    ...store,
    ownership: {
      ...ownership,
      claim: async (node, request) => {
        const ref = damaged();
        const meetsIt = ref !== undefined && (await ownership.owner(ref)) === undefined;
        return meetsIt && request.takesOnly !== true ? refuse() : ownership.claim(node, request);
      },
      begin: (node, refs, rule) =>
        refs.some(({ stream }) => stream === damaged()?.stream)
          ? refuse()
          : ownership.begin(node, refs, rule),
    },
  };
}

test('a free stream of which the store refuses to change a row holds up no other', async (t) => {
  let damaged: StreamRef | undefined;
  const fixture = await createDeliveryFixture(t, {
    respond: () => ok,
    through: (store) => refusingToBegin(store, () => damaged),
  });
  const { clock, store, tenant } = fixture;
  const stream = await fixture.addStream({ types: ['a.made'] });
  const other = await fixture.addStream({ types: ['b.made'] });
  damaged = { tenant, stream: stream.id };
  await fixture.start();
  await fixture.publish('a.made', 'b.made');
  await clock.advance(100);
  assert.equal(await fixture.cursor(other), 2);
  assert.equal((await store.streams.facts(tenant, stream.id))?.refused?.code, '22P02');
  // Nor are streams that become free meanwhile.
  const later = await fixture.addStream({ types: ['b.made'] });
  await clock.advance(300_000);
  await fixture.publish('b.made');
  await clock.advance(1000);
  assert.deepEqual([await fixture.cursor(other), await fixture.cursor(later)], [3, 3]);
  const tries = fixture.reported('unexpected').length;
  await clock.advance(300_000);
  assert.equal(fixture.reported('unexpected').length - tries, 10, 'once a minute');
  damaged = undefined;
  await clock.advance(60_000);
  assert.equal(await fixture.cursor(stream), 3);
  await fixture.publish('a.made');
  await clock.advance(1000);
  assert.equal((await store.streams.facts(tenant, stream.id))?.refused, undefined);
});

test('claims that the store refuses hold up no stream that has its owner', async (t) => {
  let isRefusing = false;
  const fixture = await createDeliveryFixture(t, {
    respond: () => ok,
    through: (store) => ({
      ...store,
      ownership: {
        ...store.ownership,
        claim: (...args) => (isRefusing ? refuse() : store.ownership.claim(...args)),
      },
    }),
  });
  const stream = await fixture.addStream();
  await fixture.start();
  isRefusing = true;
  const later = await fixture.addStream();
  await fixture.clock.advance(10_000);
  await fixture.publishMany(3);
  await fixture.clock.advance(1000);
  assert.equal(await fixture.cursor(stream), 3);
  isRefusing = false;
  await fixture.clock.advance(10_000);
  assert.equal(await fixture.cursor(later), 3);
});

test('a stream that the store refuses to read again holds up no other', async (t) => {
  let damaged: string | undefined;
  const fixture = await createDeliveryFixture(t, {
    respond: () => ok,
    through: (store) => ({
      ...store,
      ownership: {
        ...store.ownership,
        owned: (...args) =>
          args[1].some(({ stream }) => stream === damaged)
            ? refuse()
            : store.ownership.owned(...args),
      },
    }),
  });
  const { clock } = fixture;
  const stream = await fixture.addStream({ types: ['a.made'] });
  const other = await fixture.addStream({ types: ['b.made'] });
  await fixture.start();
  damaged = stream.id;
  for (const each of [stream, other]) await fixture.update(each, { name: `${each.name}2` });
  await fixture.publish('a.made', 'b.made');
  await clock.advance(100);
  assert.equal(await fixture.cursor(other), 2);
  damaged = undefined;
  await clock.advance(60_000);
  assert.equal(await fixture.cursor(stream), 2);
});

test('a node whose streams the store refuses to free ends without that', async (t) => {
  const fixture = await createDeliveryFixture(t, {
    through: (store) => ({ ...store, ownership: { ...store.ownership, leave: refuse } }),
  });
  await fixture.start();
  await fixture.stop();
  assert.equal(fixture.reported('unexpected').length, 1);
});

test('a stream of which the store refuses to claim a row holds up no other', async (t) => {
  let damaged: string | undefined;
  const fixture = await createDeliveryFixture(t, {
    respond: () => respondedWith(503),
    through: (store) =>
      withDeliveries(store, {
        claimDue: (requests) =>
          requests.some(({ stream }) => stream === damaged)
            ? refuse()
            : store.deliveries.claimDue(requests),
      }),
  });
  const { clock, store, tenant, transport } = fixture;
  const stream = await fixture.addStream();
  const other = await fixture.addStream();
  await fixture.start();
  damaged = stream.id;
  await fixture.publishMany(2);
  await clock.advance(20);
  transport.respond = () => ok;
  await clock.advance(60_000);
  const delivered = ({ id }: Stream): number =>
    fixture.reported('attempt').filter((each) => each.stream === id && each.result === 'delivered')
      .length;
  assert.deepEqual([delivered(stream), delivered(other)], [0, 2]);
  assert.equal((await store.streams.facts(tenant, stream.id))?.refused?.code, '22P02');
  damaged = undefined;
  await clock.advance(60_000);
  assert.equal(delivered(stream), 2);
  assert.equal((await store.streams.facts(tenant, stream.id))?.refused, undefined);
});

describe('a stream of which the store refuses to make deliveries due', () => {
  /** Refuses these commands for the streams in `damaged`. */
  const refusing =
    (damaged: ReadonlySet<string>) =>
    (store: Store): Store => ({
      ...withDeliveries(store, {
        bringForward: (request) =>
          damaged.has(request.stream) ? refuse() : store.deliveries.bringForward(request),
        releaseWaiting: (request) =>
          damaged.has(request.stream) ? refuse() : store.deliveries.releaseWaiting(request),
      }),
      replays: {
        ...store.replays,
        materialize: (request) =>
          damaged.has(request.stream) ? refuse() : store.replays.materialize(request),
      },
    });

  async function createFixture(t: TestContext) {
    const damaged = new Set<string>();
    const receiver = { isDown: false, served: new Set<string>() };
    const fixture = await createDeliveryFixture(t, {
      settings: { disable: { consecutive: 5, total: 1000 } },
      respond: ({ eventId }) =>
        receiver.isDown && !receiver.served.has(eventId) ? respondedWith(503) : ok,
      through: refusing(damaged),
    });
    const stream = await fixture.addStream({
      types: ['a.made'],
      delivery: { retry: { delaysSeconds: [7200, 7200] } },
    });
    const other = await fixture.addStream({ types: ['b.made'] });
    await fixture.start();
    /** The others are served meanwhile. */
    const checkOther = async (): Promise<void> => {
      const [id = ''] = await fixture.publish('b.made');
      receiver.served.add(id);
      await fixture.clock.advance(1000);
      assert.equal(await fixture.cursor(other), await fixture.store.log.head(fixture.tenant));
      assert.deepEqual(await fixture.store.streams.health(fixture.tenant, other.id), {
        consecutive: 0,
        total: 0,
      });
    };
    return { fixture, stream, other, damaged, receiver, checkOther };
  }

  test('for its replay: it holds up no other, and is replayed later', async (t) => {
    const { fixture, stream, damaged, checkOther } = await createFixture(t);
    const { store, tenant, clock } = fixture;
    await fixture.publish('a.made', 'a.made');
    await clock.advance(1000);
    damaged.add(stream.id);
    const to = await store.log.head(tenant);
    const asked = { tenant, stream: stream.id, from: 0, to, types: undefined };
    const result = await store.replays.create({ ...asked, id: newId('rpl') });
    assert.ok('created' in result);
    await clock.advance(1000);
    assert.notEqual(fixture.reported('unexpected').length, 0);
    await checkOther();
    damaged.clear();
    await clock.advance(60_000);
    assert.equal((await store.replays.get(tenant, stream.id, result.created.id))?.sent, 2);
  });

  for (const isBack of [false, true]) {
    const when = isBack ? 'when its receiver is back' : 'for a trial of its receiver';
    test(`${when}: it holds up no other, and is sent later`, async (t) => {
      const { fixture, stream, other, damaged, receiver, checkOther } = await createFixture(t);
      const { clock } = fixture;
      receiver.isDown = true;
      await fixture.publish(...Array.from({ length: 20 }, () => 'a.made'));
      await clock.advance(1000);
      damaged.add(stream.id);
      receiver.isDown = !isBack;
      await clock.advance(90_000);
      assert.notEqual(fixture.reported('unexpected').length, 0);
      await checkOther();
      damaged.clear();
      receiver.isDown = false;
      await clock.advance(7_200_000);
      assert.equal((await fixture.store.streams.health(fixture.tenant, stream.id))?.total, 0);
      assert.equal(await fixture.cursor(stream), await fixture.cursor(other));
    });
  }
});
