import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Stream } from '../../../src/core/types.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Engine } from './engine.ts';
import {
  claimDue,
  createFixture,
  delivered,
  failed,
  failuresOf,
  type Fixture,
  newEvent,
  newId,
  parked,
  raiseOf,
  retry,
  start,
  waitRule,
} from './fixture.ts';

export function pausesContract(engine: Engine): void {
  describe(`${engine.name}: a paused stream`, () => pauseContract(engine));
  describe(`${engine.name}: cycles of a paused stream`, () => cycleContract(engine));
  describe(`${engine.name}: streams.facts`, () => factsContract(engine));
}

async function change(fixture: Fixture, stream: Stream, to: Partial<Stream>): Promise<Stream> {
  const result = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, ...to },
  }));
  assert.ok('updated' in result);
  return result.updated;
}

/** The instant is the store's, whatever the caller sends. */
const pause = (fixture: Fixture, stream: Stream, reason?: string) =>
  change(fixture, stream, { paused: { at: 0, reason } });
const resume = (fixture: Fixture, stream: Stream) => change(fixture, stream, { paused: undefined });

async function ownedNow(fixture: Fixture, stream: Stream): Promise<OwnedStream> {
  const refs = [{ tenant: fixture.tenant, stream: stream.id }];
  const [owned] = await fixture.store.ownership.owned(await fixture.node(), refs, waitRule);
  assert.ok(owned);
  return owned;
}

async function claimedIds(fixture: Fixture, owned: OwnedStream): Promise<string[]> {
  const { rows } = await claimDue(fixture, owned);
  return rows.map(({ event }) => event.id);
}

function pauseContract(engine: Engine): void {
  test('a pause begins now by the clock of the store, and keeps status and reason', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    await fixture.own(stream);
    fixture.now += 5000;
    fixture.hints.length = 0;
    const paused = await pause(fixture, stream, 'upgrade');
    assert.deepEqual(
      [paused.status, paused.paused, paused.version],
      ['enabled', { at: start + 5000, reason: 'upgrade' }, 2],
    );
    const ref = { tenant: fixture.tenant, stream: stream.id };
    assert.deepEqual(fixture.hints, [{ kind: 'stream', ...ref }]);
    assert.equal(await fixture.store.ownership.hasSeen(ref), false);
    assert.deepEqual((await ownedNow(fixture, stream)).stream, paused);
    assert.equal(await fixture.store.ownership.hasSeen(ref), true);
    fixture.now += 1000;
    const renamed = await change(fixture, paused, { name: 'other' });
    assert.deepEqual(renamed.paused, paused.paused);
    const resumed = await resume(fixture, stream);
    assert.equal(resumed.paused, undefined);
    assert.deepEqual(await fixture.store.streams.get(fixture.tenant, stream.id), resumed);
  });

  test('disabling and enabling leave the pause, and a paused stream can be deleted', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const { paused } = await pause(fixture, stream);
    assert.deepEqual((await change(fixture, stream, { status: 'disabled' })).paused, paused);
    assert.deepEqual((await change(fixture, stream, { status: 'enabled' })).paused, paused);
    assert.equal(await fixture.store.streams.delete(fixture.tenant, stream.id), true);
  });

  test('claimDue: a paused stream returns redeliveries and tests only, and the rest once it is resumed', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [waiting, open] = await fixture.publish('user.created', 'user.created');
    assert.ok(waiting && open);
    await fixture.settle(owned, { outcomes: [retry(waiting), failed(open)] });
    await pause(fixture, stream);
    await store.deliveries.redeliver(tenant, stream.id, open.id);
    const tested = newEvent();
    assert.equal(await store.deliveries.addTest(tenant, stream.id, tested), 'accepted');
    fixture.now += 60_000;
    assert.deepEqual(
      (await claimedIds(fixture, owned)).toSorted(),
      [open.id, tested.id].toSorted(),
    );
    const { rows, nextDueInMs } = await claimDue(fixture, owned);
    assert.deepEqual([rows, typeof nextDueInMs], [[], 'number'], 'the leases of the two');
    await resume(fixture, stream);
    assert.deepEqual(await claimedIds(fixture, owned), [waiting.id]);
  });

  test('owned: nextDueInMs ignores rows that wait for the end of the pause', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [waiting] = await fixture.publish('user.created');
    assert.ok(waiting);
    await fixture.settle(owned, { outcomes: [retry(waiting)] });
    await pause(fixture, stream);
    const paused = await ownedNow(fixture, stream);
    assert.deepEqual([paused.nextDueInMs, paused.waiting], [undefined, 1]);
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, newEvent());
    assert.equal((await ownedNow(fixture, stream)).nextDueInMs, 0);
    await resume(fixture, stream);
    fixture.now += 60_000;
    assert.equal((await ownedNow(fixture, stream)).nextDueInMs, 0);
  });

  test('rows that a former owner parked wait for the end of the pause, and do not fail', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const former = await fixture.own(stream);
    const [slow] = await fixture.publish('user.created');
    assert.ok(slow);
    await fixture.settle(former, { outcomes: [parked(slow)] });
    await pause(fixture, stream);
    await fixture.store.ownership.release(await fixture.node(), [raiseOf(former)]);
    const owned = await fixture.own(stream);
    fixture.now += 60_000;
    assert.deepEqual(await claimedIds(fixture, owned), []);
    assert.deepEqual(await failuresOf(fixture, stream), []);
    await resume(fixture, stream);
    assert.deepEqual(await claimedIds(fixture, owned), [slow.id]);
  });

  test('a replay of a paused stream waits: no events become rows, and those that did wait', async (t) => {
    const fixture = await createFixture(engine, t);
    const { replays } = fixture.store;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events = await fixture.publish('user.created', 'user.created');
    const cursor = events.at(-1)?.offset ?? 0;
    await fixture.settle(owned, { cursor, outcomes: events.map((event) => delivered(event)) });
    const ref = { tenant: fixture.tenant, stream: stream.id };
    const id = newId('rpl');
    await replays.create({ ...ref, id, from: 0, to: cursor, types: undefined });
    const request = { ...raiseOf({ ...owned, cursor }), replay: id, take: 1, waitingMax: 100 };
    assert.equal((await replays.materialize(request)).materialized, 1);
    await pause(fixture, stream);
    assert.equal((await replays.materialize(request)).materialized, 0);
    fixture.now += 60_000;
    assert.deepEqual(await claimedIds(fixture, owned), []);
    await resume(fixture, stream);
    assert.equal((await replays.materialize(request)).materialized, 1);
    assert.equal((await claimDue(fixture, owned)).rows.length, 2);
  });

  test('a stream that reaches a limit while it is paused is disabled, and its retries become failures', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.limits = { consecutive: 1, total: 100 };
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one, other] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && other);
    await pause(fixture, stream);
    const settled = await fixture.settle(owned, { outcomes: [retry(one), failed(other)] });
    assert.equal(settled.disabledBy, 'consecutive');
    assert.equal((await failuresOf(fixture, stream)).length, 2);
    const after = await fixture.store.streams.get(fixture.tenant, stream.id);
    assert.deepEqual([after?.status, after?.paused?.at], ['disabled', start]);
  });
}

function cycleContract(engine: Engine): void {
  const minutes = 60_000;
  const within = { delayMs: minutes, cycleMaxMs: 10 * minutes };

  /** Creates a stream with a delivery whose cycle began now. */
  async function withCycle(fixture: Fixture) {
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [retry(event, within)] });
    const fail = (attempt: number) =>
      fixture.settle(owned, { outcomes: [retry(event, { ...within, attempt, hasRow: true })] });
    return { stream, owned, event, fail };
  }

  test('pauses that ended do not count: the cycle ends that much later', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, event, fail } = await withCycle(fixture);
    for (const length of [60 * minutes, 600 * minutes]) {
      await pause(fixture, stream);
      fixture.now += length;
      await resume(fixture, stream);
    }
    fixture.now += 9.5 * minutes;
    assert.deepEqual(await claimedIds(fixture, owned), [event.id]);
    await fail(2);
    assert.deepEqual(await failuresOf(fixture, stream), []);
    assert.equal((await claimDue(fixture, owned)).nextDueInMs, minutes / 2, 'the end of the cycle');
    fixture.now += minutes / 2;
    assert.deepEqual(await claimedIds(fixture, owned), [event.id]);
    await fail(3);
    assert.equal((await failuresOf(fixture, stream)).length, 1);
  });

  test('an attempt that ends during a pause is retried after it', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, event, fail } = await withCycle(fixture);
    fixture.now += 2 * minutes;
    assert.deepEqual(await claimedIds(fixture, owned), [event.id]);
    await pause(fixture, stream);
    fixture.now += 60 * minutes;
    await fail(2);
    assert.deepEqual(await failuresOf(fixture, stream), []);
    await resume(fixture, stream);
    fixture.now += minutes;
    assert.deepEqual(await claimedIds(fixture, owned), [event.id]);
  });

  test('a cycle that begins after a pause, or during one, is no longer than others', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [during, after] = await fixture.publish('user.created', 'user.created');
    assert.ok(during && after);
    await pause(fixture, stream);
    fixture.now += 60 * minutes;
    await fixture.settle(owned, { outcomes: [retry(during, within)] });
    fixture.now += 60 * minutes;
    await resume(fixture, stream);
    await fixture.settle(owned, { outcomes: [retry(after, within)] });
    fixture.now += 10 * minutes;
    assert.equal((await claimDue(fixture, owned)).rows.length, 2);
    const again = { ...within, attempt: 2, hasRow: true };
    await fixture.settle(owned, { outcomes: [retry(during, again), retry(after, again)] });
    assert.equal((await failuresOf(fixture, stream)).length, 2);
  });

  test('a clock that was set back during a pause does not shorten cycles', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, event, fail } = await withCycle(fixture);
    fixture.now += 5 * minutes;
    await pause(fixture, stream);
    fixture.now -= 3 * minutes;
    await resume(fixture, stream);
    fixture.now += 7 * minutes;
    assert.deepEqual(await claimedIds(fixture, owned), [event.id]);
    await fail(2);
    assert.deepEqual(await failuresOf(fixture, stream), []);
  });
}

function factsContract(engine: Engine): void {
  test('facts: an unknown stream has none', async (t) => {
    const fixture = await createFixture(engine, t);
    assert.equal(await fixture.store.streams.facts(fixture.tenant, newId('est')), undefined);
  });

  test('facts: a new stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    assert.deepEqual(await fixture.store.streams.facts(fixture.tenant, stream.id), {
      now: start,
      health: { consecutive: 0, total: 0 },
      disabled: { reason: undefined, since: undefined, code: undefined },
      waiting: { count: 0, atLeast: false, oldestAt: undefined },
      retrying: 0,
      parked: 0,
      parkedUntil: undefined,
      nextDueAt: undefined,
      lastDeliveredAt: undefined,
      lastFailedAt: undefined,
      failingSince: undefined,
      overdueSince: undefined,
      refused: undefined,
      replay: undefined,
    });
  });

  test('facts: events that wait, rows by their state, and the last results', async (t) => {
    const fixture = await createFixture(engine, t);
    const { streams } = fixture.store;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one, two, three] = await fixture.publish(...Array<string>(3).fill('user.created'));
    assert.ok(one && two && three);
    await fixture.settle(owned, { cursor: one.offset, outcomes: [delivered(one)] });
    fixture.now += 1000;
    const busy = retry(two, { status: 503, delayMs: 4000 });
    await fixture.settle(owned, { cursor: two.offset, outcomes: [busy, parked(three)] });
    fixture.now += 1000;
    await fixture.publish('user.deleted', 'user.created', 'user.created');
    fixture.now += 1000;
    const facts = await streams.facts(fixture.tenant, stream.id);
    assert.deepEqual(
      [facts?.waiting, facts?.retrying, facts?.parked, facts?.nextDueAt],
      [{ count: 2, atLeast: false, oldestAt: start + 2000 }, 1, 1, start + 5000],
    );
    assert.deepEqual([facts?.lastDeliveredAt, facts?.lastFailedAt], [start, start + 1000]);
    await pause(fixture, stream);
    const paused = await streams.facts(fixture.tenant, stream.id);
    assert.deepEqual([paused?.retrying, paused?.nextDueAt], [1, undefined]);
  });

  test('facts: counts the wanted ones of the next 10,000 events, and says when there are more', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const facts = () => fixture.store.streams.facts(fixture.tenant, stream.id);
    for (let batch = 0; batch < 10; batch += 1) {
      const types = Array.from({ length: 1000 }, (_, i) =>
        i % 2 ? 'user.created' : 'user.deleted',
      );
      await fixture.publish(...types);
    }
    assert.deepEqual((await facts())?.waiting, { count: 5000, atLeast: false, oldestAt: start });
    await fixture.publish('user.created');
    assert.deepEqual((await facts())?.waiting, { count: 5000, atLeast: true, oldestAt: start });
  });

  test('facts: why a stream was disabled, since when, and the code of its last failed attempt', async (t) => {
    const fixture = await createFixture(engine, t);
    const { streams } = fixture.store;
    fixture.limits = { consecutive: 2, total: 3 };
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events = await fixture.publish(...Array<string>(3).fill('user.created'));
    const [one, two, three] = events;
    assert.ok(one && two && three);
    const disabled = async () => (await streams.facts(fixture.tenant, stream.id))?.disabled;
    fixture.now += 10;
    const refused = { status: undefined, error: 'refused: connect' };
    await fixture.settle(owned, { outcomes: [failed(one), failed(two, refused)] });
    assert.deepEqual(await disabled(), {
      reason: 'consecutive_failures',
      since: start + 10,
      code: 'refused',
    });
    await change(fixture, stream, { status: 'enabled' });
    assert.deepEqual(await disabled(), { reason: undefined, since: undefined, code: undefined });
    const next = await ownedNow(fixture, stream);
    await fixture.settle(next, { outcomes: [failed(three)] });
    assert.deepEqual((await disabled())?.reason, 'open_failures');
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, one.id);
    await change(fixture, stream, { status: 'enabled' });
    fixture.now += 10;
    await change(fixture, stream, { status: 'disabled' });
    assert.deepEqual(await disabled(), { reason: 'by_hand', since: start + 20, code: 'http_503' });
    await change(fixture, stream, { name: 'renamed' });
    assert.equal((await disabled())?.since, start + 20);
  });
}
