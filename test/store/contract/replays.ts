import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withSelection } from '../../../src/core/subscription.ts';
import type { Replay, Stream } from '../../../src/core/types.ts';
import { dayMs } from '../../../src/core/units.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import type {
  MaterializeResult,
  MaterializeRequest,
  NewReplay,
} from '../../../src/store/port/replays.ts';
import type { Engine } from './engine.ts';
import { startWork } from './failure-work.ts';
import {
  claimDue,
  createFixture,
  delivered,
  failed,
  failuresOf,
  leaseMs,
  newEvent,
  newId,
  nextClaim,
  raiseOf,
  retry,
  settlementOf,
  start,
  type Fixture,
  waitRule,
} from './fixture.ts';

export function replaysContract(engine: Engine): void {
  describe(`${engine.name}: replays.create`, { tags: engine.sharedTags }, () =>
    createContract(engine),
  );
  describe(`${engine.name}: replays.materialize`, { tags: engine.sharedTags }, () =>
    materializeContract(engine),
  );
  describe(`${engine.name}: a replay of a stream with a filter`, { tags: engine.sharedTags }, () =>
    filteredContract(engine),
  );
  describe(`${engine.name}: deliveries of a replay`, () => deliveryContract(engine));
  describe(`${engine.name}: a replay of a disabled stream`, { tags: engine.sharedTags }, () =>
    pauseContract(engine),
  );
  describe(`${engine.name}: replays.cancel`, () => cancelContract(engine));
  describe(`${engine.name}: replays.prune`, { tags: engine.sharedTags }, () =>
    pruneContract(engine),
  );
}

const again = { kind: 'replay', hasRow: true } as const;
/** Far enough from the acceptance of a replay to exceed any difference of clocks. */
const muchLater = start + 60_000;

/** Creates a stream that was sent `count` events, with its cursor after them. */
async function withPast(fixture: Fixture, count: number) {
  const stream = await fixture.addStream();
  const owned = await fixture.own(stream);
  const events = await fixture.publish(...Array.from({ length: count }, () => 'user.created'));
  const cursor = events.at(-1)?.offset ?? 0;
  await fixture.settle(owned, { cursor, outcomes: events.map((event) => delivered(event)) });
  return { stream, owned: { ...owned, cursor }, events };
}

const newReplay = (stream: Stream, options: Partial<NewReplay> = {}): NewReplay => ({
  tenant: stream.tenant,
  stream: stream.id,
  id: newId('rpl'),
  from: 0,
  to: 0,
  types: undefined,
  ...options,
});

/** Accepts a replay up to the head of the log by default. */
async function begin(
  fixture: Fixture,
  stream: Stream,
  options: Partial<NewReplay> = {},
): Promise<Replay> {
  const to = await fixture.store.log.head(fixture.tenant);
  const result = await fixture.store.replays.create(newReplay(stream, { to, ...options }));
  assert.ok('created' in result);
  return result.created;
}

function materialize(
  fixture: Fixture,
  owned: OwnedStream,
  replay: Replay,
  options: Partial<MaterializeRequest> = {},
): Promise<MaterializeResult> {
  const request = { ...raiseOf(owned), replay: replay.id, take: 100, waitingMax: 100, ...options };
  return fixture.store.replays.materialize(request);
}

async function progress(fixture: Fixture, { stream, id }: Replay) {
  const replay = await fixture.store.replays.get(fixture.tenant, stream, id);
  assert.ok(replay);
  const { status, matched, sent, failed: failures, finishedAt } = replay;
  return { status, matched, sent, failed: failures, finishedAt };
}

const idsOf = (events: readonly { readonly id: string }[]) => events.map(({ id }) => id);

async function claimedIds(fixture: Fixture, owned: OwnedStream, take?: number): Promise<string[]> {
  const { rows } = await claimDue(fixture, owned, take);
  return rows.map(({ event }) => event.id);
}

async function disable(fixture: Fixture, stream: Stream, status: Stream['status'] = 'disabled') {
  const result = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, status },
  }));
  assert.ok('updated' in result);
}

function createContract(engine: Engine): void {
  test('create: accepts a replay, emits a hint, and the owner finds it', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withPast(fixture, 3);
    fixture.hints.length = 0;
    const replay = await begin(fixture, stream, { from: 1 });
    assert.deepEqual(replay, {
      tenant: fixture.tenant,
      stream: stream.id,
      id: replay.id,
      status: 'running',
      from: 1,
      matched: 0,
      sent: 0,
      failed: 0,
      createdAt: start,
      finishedAt: undefined,
    });
    assert.deepEqual(await fixture.store.replays.get(fixture.tenant, stream.id, replay.id), replay);
    assert.deepEqual(fixture.hints, [
      { kind: 'stream', tenant: fixture.tenant, stream: stream.id },
    ]);
    const ref = { tenant: fixture.tenant, stream: stream.id };
    assert.equal(await fixture.store.ownership.hasSeen(ref), false);
    const [owned] = await fixture.store.ownership.owned(await fixture.node(), [ref], waitRule);
    assert.equal(owned?.replay, replay.id);
  });

  test('create: chosen events alone are sent again, far apart and filtered, in the order of the log', async (t) => {
    const fixture = await createFixture(engine, t);
    const filter = JSON.stringify({ 'data.plan': 'pro' });
    for (const selection of [{}, { filter }]) {
      const stream = await fixture.addStream(selection);
      const owned = await fixture.own(stream);
      const head = await fixture.store.log.head(fixture.tenant);
      const plans = Array.from({ length: 300 }, (_, index) => (index % 4 === 1 ? 'free' : 'pro'));
      const sent = plans.map((plan) => {
        const { id } = newEvent();
        return newEvent({ id, body: JSON.stringify({ id, type: 'user.created', data: { plan } }) });
      });
      await fixture.store.log.append(fixture.tenant, sent);
      const cursor = head + sent.length;
      await fixture.settle(owned, { cursor });
      const chosen = [0, 1, 2, 250, 299];
      const offsets = chosen.map((index) => head + 1 + index);
      const replay = await begin(fixture, stream, { from: head, to: cursor, offsets });
      const claimed: string[] = [];
      let filtered: MaterializeRequest['filtered'];
      for (let rounds = 0; rounds < 20; rounds += 1) {
        const request = { ...raiseOf({ ...owned, cursor }), replay: replay.id, filtered };
        const result = await fixture.store.replays.materialize({
          ...request,
          take: 2,
          waitingMax: 100,
        });
        const { unfiltered } = result;
        const inStretch = offsets.filter((offset) => plans[offset - head - 1] === 'pro');
        filtered = unfiltered && { ...unfiltered, offsets: inStretch };
        const { rows } = await claimDue(fixture, owned);
        claimed.push(...rows.map(({ event }) => event.id));
        const outcomes = rows.map(({ event }) => delivered(event, again));
        await fixture.settle(owned, { outcomes });
        if (result.result === 'over') break;
      }
      const wanted = 'filter' in selection ? chosen.filter((index) => index !== 1) : chosen;
      assert.deepEqual(
        claimed,
        wanted.map((index) => sent[index]?.id),
      );
      assert.equal((await progress(fixture, replay)).status, 'done');
    }
  });

  test('list: the replays of a stream, newest first, in pages', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withPast(fixture, 3);
    const other = await fixture.addStream();
    await begin(fixture, other);
    const made: Replay[] = [];
    for (let count = 0; count < 5; count += 1)
      made.unshift(await begin(fixture, stream, { to: 0 }));
    const seen: Replay[] = [];
    let after: string | undefined;
    do {
      const page = await fixture.store.replays.list(fixture.tenant, stream.id, { after, take: 2 });
      seen.push(...page.items);
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(seen, made);
  });

  test('create: refuses a second replay, a disabled stream, and an unknown stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withPast(fixture, 3);
    const { create } = fixture.store.replays;
    const unknown = { ...stream, id: newId('est') };
    assert.deepEqual(await create(newReplay(unknown, { to: 3 })), { refused: 'unknown' });
    await begin(fixture, stream);
    assert.deepEqual(await create(newReplay(stream, { to: 3 })), { refused: 'running' });
    await disable(fixture, stream);
    assert.deepEqual(await create(newReplay(stream, { to: 3 })), { refused: 'disabled' });
    await disable(fixture, stream, 'enabled');
    assert.deepEqual(await create(newReplay(stream, { to: 3 })), { refused: 'running' });
  });

  test('create: one stream may replay while another does', async (t) => {
    const fixture = await createFixture(engine, t);
    const one = await withPast(fixture, 1);
    const other = await withPast(fixture, 1);
    await begin(fixture, one.stream);
    assert.equal((await begin(fixture, other.stream)).status, 'running');
    const foreign = fixture.store.replays.get(fixture.tenant, one.stream.id, newId('rpl'));
    assert.equal(await foreign, undefined);
  });

  test('create: an empty range is done at once, and the next may begin', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withPast(fixture, 3);
    for (const options of [
      { from: 3 },
      { from: 2, to: 2 },
      { from: 0, to: 0 },
      { from: 3, to: 1 },
    ]) {
      const replay = await begin(fixture, stream, options);
      assert.deepEqual(
        [replay.status, replay.finishedAt],
        ['done', start],
        JSON.stringify(options),
      );
    }
  });

  test('create: begins after the pruned events', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 3);
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 2 });
    const replay = await begin(fixture, stream);
    assert.equal(replay.from, 2);
    assert.equal((await materialize(fixture, owned, replay)).materialized, 1);
    assert.deepEqual(await claimedIds(fixture, owned), idsOf(events.slice(2)));
  });

  test('create: ends at the head of a log that became shorter since the end was chosen', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withPast(fixture, 3);
    const replay = await begin(fixture, stream, { from: 2, to: 7 });
    assert.equal((await materialize(fixture, owned, replay)).materialized, 1);
    await fixture.store.replays.cancel(fixture.tenant, stream.id, replay.id);
    assert.equal((await begin(fixture, stream, { from: 3, to: 7 })).status, 'done');
  });

  test('create: a replay is removed with its stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withPast(fixture, 3);
    const replay = await begin(fixture, stream);
    await materialize(fixture, owned, replay);
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    assert.equal(await fixture.store.replays.get(fixture.tenant, stream.id, replay.id), undefined);
    assert.equal((await materialize(fixture, owned, replay)).result, 'lost');
  });
}

function materializeContract(engine: Engine): void {
  test('materialize: turns the events of the range into rows, with the bodies of the log', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 5);
    const replay = await begin(fixture, stream, { from: 1, to: 4 });
    const result = await materialize(fixture, owned, replay);
    assert.deepEqual(result, { result: 'running', cursor: 5, materialized: 3, more: false });
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(
      rows.map(({ event, kind, state, attempt }) => ({ event, kind, state, attempt })),
      events.slice(1, 4).map((event) => ({ event, kind: 'replay', state: 'parked', attempt: 1 })),
    );
    const expected = { status: 'running', matched: 3, sent: 0, failed: 0, finishedAt: undefined };
    assert.deepEqual(await progress(fixture, replay), expected);
  });

  test('materialize: adds no more than requested, and no more than may wait', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 6);
    const replay = await begin(fixture, stream);
    assert.equal((await materialize(fixture, owned, replay, { take: 2 })).materialized, 2);
    assert.deepEqual(await claimedIds(fixture, owned), idsOf(events.slice(0, 2)));
    assert.equal((await materialize(fixture, owned, replay, { waitingMax: 3 })).materialized, 1);
    assert.equal((await materialize(fixture, owned, replay, { waitingMax: 3 })).materialized, 0);
    const [first] = events;
    assert.ok(first);
    await fixture.settle(owned, { outcomes: [delivered(first, again)] });
    assert.equal((await materialize(fixture, owned, replay, { waitingMax: 3 })).materialized, 1);
    assert.deepEqual(await claimedIds(fixture, owned), idsOf(events.slice(2, 4)));
  });

  test('materialize: takes events that both the stream and the replay want', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ types: ['a.a'] });
    const owned = await fixture.own(stream);
    const events = await fixture.publish('a.a', 'b.b', 'c.c', 'a.a', 'b.b');
    await fixture.store.streams.update(fixture.tenant, stream.id, (before, { head }) => ({
      after: { ...before, subscriptions: [{ after: head, types: ['b.b', 'c.c', 'b.b'] }] },
    }));
    const now = { ...owned, cursor: 5, stream: { ...stream, version: 2 } };
    const replay = await begin(fixture, stream, { types: ['b.b', 'a.a'] });
    assert.equal((await materialize(fixture, now, replay)).materialized, 2);
    const wanted = events.filter(({ type }) => type === 'b.b');
    assert.deepEqual(await claimedIds(fixture, now), idsOf(wanted));
  });

  test('materialize: skips events that have an open failure, or any other row', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 1);
    const [fails, waits, redelivered, goes] = await fixture.publish(...fourTimes);
    assert.ok(fails && waits && redelivered && goes);
    const outcomes = [failed(fails), retry(waits), failed(redelivered), delivered(goes)];
    await fixture.settle(owned, { cursor: 5, outcomes });
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, redelivered.id);
    await claimDue(fixture, owned);
    const replay = await begin(fixture, stream);
    const result = await materialize(fixture, owned, replay);
    assert.deepEqual([result.materialized, result.cursor], [2, 5]);
    assert.deepEqual(await claimedIds(fixture, owned), [...idsOf(events), goes.id]);
  });

  test('materialize: stays below the cursor, which it raises as far as the owner requests', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withPast(fixture, 2);
    await fixture.publish('other.made', 'other.made');
    const replay = await begin(fixture, stream);
    assert.deepEqual(await materialize(fixture, owned, replay), {
      result: 'running',
      cursor: 2,
      materialized: 2,
      more: false,
    });
    const result = await materialize(fixture, { ...owned, cursor: 4 }, replay);
    assert.deepEqual(result, { result: 'running', cursor: 4, materialized: 0, more: false });
  });

  test('materialize: sends events that were first sent just before it was accepted, even above the cursor of then', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [slow, sent] = await fixture.publish('user.created', 'user.created');
    assert.ok(slow && sent);
    const replay = await begin(fixture, stream);
    fixture.now = muchLater;
    const outcomes = [
      delivered(sent, { agoMs: muchLater - start - 5 }),
      delivered(slow, { agoMs: muchLater - start - 10 }),
    ];
    await fixture.settle(owned, { cursor: 2, outcomes });
    assert.equal((await materialize(fixture, { ...owned, cursor: 2 }, replay)).materialized, 2);
  });

  test('materialize: sends events whose earliest attempt is from before it was accepted, also when the clock was set back after another', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    fixture.now = muchLater;
    await fixture.settle(owned, { outcomes: [delivered(event)] });
    fixture.now = start;
    const replay = await begin(fixture, stream);
    await fixture.settle(owned, { cursor: 1, outcomes: [delivered(event)] });
    assert.equal((await materialize(fixture, { ...owned, cursor: 1 }, replay)).materialized, 1);
  });

  test('materialize: skips events that were first sent after it was accepted', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 1);
    const waiting = await fixture.publish('user.created', 'user.created');
    const replay = await begin(fixture, stream);
    fixture.now = muchLater;
    await fixture.settle(owned, {
      cursor: 3,
      outcomes: waiting.map((event) => delivered(event)),
    });
    assert.equal((await materialize(fixture, owned, replay)).materialized, 1);
    assert.deepEqual(await claimedIds(fixture, owned), idsOf(events));
    const [event] = events;
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [delivered(event, again)] });
    assert.equal((await materialize(fixture, owned, replay)).result, 'over');
    assert.equal((await progress(fixture, replay)).matched, 1);
  });

  test('materialize: skips them, too, when their history is kept beyond its day', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const replay = await begin(fixture, stream);
    fixture.now = muchLater;
    await fixture.settle(owned, { cursor: 1, outcomes: [failed(event)] });
    fixture.now = start + 2 * dayMs;
    await fixture.publish('user.changed');
    const query = { olderThanMs: dayMs, take: 10 };
    while ((await store.deliveries.pruneAttempts(query)) > 0);
    const id = await startWork(store, 'dismissals', { tenant });
    // What it closed has no room when it is opened again.
    fixture.now = start + 4 * dayMs;
    const [other] = await fixture.publish('user.created');
    assert.ok(other);
    assert.equal(await store.dismissals.reopen(tenant, id, 2), 'accepted');
    await fixture.settle(owned, { cursor: other.offset ?? 0, outcomes: [failed(other)] });
    while ((await store.dismissals.step(tenant, id, dayMs)) !== 'done');
    assert.equal((await store.dismissals.get(tenant, id))?.reopened, 0);
    const result = await materialize(fixture, { ...owned, cursor: 3 }, replay);
    assert.equal(result.result, 'over');
    assert.deepEqual(await claimedIds(fixture, owned), []);
  });

  test('materialize: scans a long stretch without a match in steps', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withPast(fixture, 1);
    for (let part = 0; part < 11; part += 1) {
      await fixture.publish(...Array.from({ length: 1000 }, () => 'other.made'));
    }
    const [last] = await fixture.publish('user.created');
    assert.ok(last);
    await fixture.settle(owned, { cursor: last.offset, outcomes: [delivered(last)] });
    const replay = await begin(fixture, stream, { from: 1 });
    const result = await materialize(fixture, owned, replay);
    assert.deepEqual([result.materialized, result.more], [0, true]);
    const next = await materialize(fixture, owned, replay);
    assert.deepEqual([next.materialized, next.more], [1, false]);
  });

  test('materialize: a replay of a stream without types is over at once', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ types: [] });
    const owned = { ...(await fixture.own(stream)), cursor: 2 };
    await fixture.publish('a.a', 'b.b');
    const replay = await begin(fixture, stream);
    assert.equal((await materialize(fixture, owned, replay)).result, 'over');
    const expected = { status: 'done', matched: 0, sent: 0, failed: 0, finishedAt: start };
    assert.deepEqual(await progress(fixture, replay), expected);
  });

  test('materialize: a former owner adds nothing and moves nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withPast(fixture, 3);
    const replay = await begin(fixture, stream);
    const node = await fixture.node();
    await fixture.store.ownership.release(node, [raiseOf(owned)]);
    const [next] = await fixture.store.ownership.claim(node, {
      claim: nextClaim(),
      take: 10,
      ...waitRule,
    });
    assert.equal(next?.replay, replay.id);
    const lost = { result: 'lost', cursor: 0, materialized: 0, more: false };
    assert.deepEqual(await materialize(fixture, owned, replay), lost);
    assert.equal((await materialize(fixture, next, replay)).materialized, 3);
  });

  test('materialize: a request for a replay that is over adds nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withPast(fixture, 3);
    const former = await begin(fixture, stream);
    await fixture.store.replays.cancel(fixture.tenant, stream.id, former.id);
    await begin(fixture, stream);
    const result = await materialize(fixture, owned, former);
    assert.deepEqual([result.result, result.materialized], ['over', 0]);
    assert.deepEqual(await claimedIds(fixture, owned), []);
  });

  test('materialize: continues after events that are pruned ahead of it', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 6);
    const replay = await begin(fixture, stream);
    assert.equal((await materialize(fixture, owned, replay, { take: 1 })).materialized, 1);
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 4 }), 4);
    assert.equal((await materialize(fixture, owned, replay)).materialized, 2);
    const left = [events[0], ...events.slice(4)].flatMap((event) => event ?? []);
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(
      rows.map(({ event }) => event.body),
      left.map(({ body }) => body),
    );
    await fixture.settle(owned, { outcomes: left.map((event) => delivered(event, again)) });
    assert.equal((await materialize(fixture, owned, replay)).result, 'over');
    const expected = { status: 'done', matched: 3, sent: 3, failed: 0, finishedAt: fixture.now };
    assert.deepEqual(await progress(fixture, replay), expected);
  });

  test('materialize: the replay fails once the rest of the range was pruned, after its deliveries in progress', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 5);
    const replay = await begin(fixture, stream);
    assert.equal((await materialize(fixture, owned, replay, { take: 2 })).materialized, 2);
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 5 }), 5);
    assert.deepEqual([(await materialize(fixture, owned, replay)).result], ['running']);
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(
      rows.map(({ event }) => event.body),
      events.slice(0, 2).map(({ body }) => body),
    );
    const outcomes = events.slice(0, 2).map((event) => delivered(event, again));
    await fixture.settle(owned, { outcomes });
    fixture.now += 1000;
    assert.equal((await materialize(fixture, owned, replay)).result, 'over');
    const finishedAt = fixture.now;
    assert.deepEqual(await progress(fixture, replay), {
      status: 'failed',
      matched: 2,
      sent: 2,
      failed: 0,
      finishedAt,
    });
  });
}

const fourTimes = Array.from({ length: 4 }, () => 'user.created');

function filteredContract(engine: Engine): void {
  const filter = '{"id":"x"}';

  const withFilter = async (fixture: Fixture, count: number) => {
    const past = await withPast(fixture, count);
    const result = await fixture.store.streams.update(
      fixture.tenant,
      past.stream.id,
      (before, { head }) => ({
        after: {
          ...before,
          subscriptions: withSelection(
            before.subscriptions,
            { types: ['user.created'], filter },
            head,
          ),
        },
      }),
    );
    assert.ok('updated' in result);
    return past;
  };

  test('materialize: returns the stretch to filter, and adds the events that match', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withFilter(fixture, 6);
    const replay = await begin(fixture, stream);
    const unfiltered = { after: 0, upTo: 6, types: ['user.created'], filter };
    const first = await materialize(fixture, owned, replay);
    assert.partialDeepStrictEqual(first, { result: 'running', materialized: 0, unfiltered });
    const part = { after: 0, upTo: 4, filter, types: ['user.created'], offsets: [2, 3] };
    const second = await materialize(fixture, owned, replay, { filtered: part });
    assert.partialDeepStrictEqual(second, { result: 'running', materialized: 2, more: true });
    assert.deepEqual(await claimedIds(fixture, owned), idsOf(events.slice(1, 3)));
    const third = await materialize(fixture, owned, replay, { filtered: part });
    assert.partialDeepStrictEqual(third, { materialized: 0, unfiltered: { after: 4, upTo: 6 } });
    const last = { after: 4, upTo: 6, filter, types: ['user.created'], offsets: [] };
    const fourth = await materialize(fixture, owned, replay, { filtered: last });
    assert.partialDeepStrictEqual(fourth, { result: 'running', materialized: 0, more: false });
  });

  test('materialize: a stretch that was filtered by a former filter is filtered again', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withFilter(fixture, 3);
    const replay = await begin(fixture, stream);
    const stale = { after: 0, upTo: 3, filter: '{}', types: ['user.created'], offsets: [1, 2, 3] };
    const result = await materialize(fixture, owned, replay, { filtered: stale });
    assert.partialDeepStrictEqual(result, { materialized: 0, unfiltered: { filter } });
    assert.deepEqual(await claimedIds(fixture, owned), []);
  });

  test('materialize: a stretch that was filtered without a type of now is filtered again', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withFilter(fixture, 3);
    const replay = await begin(fixture, stream);
    const stale = { after: 0, upTo: 3, filter, types: ['user.deleted'], offsets: [] };
    const types = ['user.created'];
    const result = await materialize(fixture, owned, replay, { filtered: stale });
    assert.partialDeepStrictEqual(result, { result: 'running', unfiltered: { after: 0, types } });
  });

  test('materialize: takes no more of the matching events than it may, and continues after them', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withFilter(fixture, 6);
    const replay = await begin(fixture, stream);
    const filtered = { after: 0, upTo: 6, filter, types: ['user.created'], offsets: [1, 3, 5] };
    const result = await materialize(fixture, owned, replay, { filtered, take: 2 });
    assert.partialDeepStrictEqual(result, { materialized: 2, more: false });
    assert.deepEqual(await claimedIds(fixture, owned), [events[0]?.id, events[2]?.id]);
    const next = await materialize(fixture, owned, replay);
    assert.deepEqual(next.unfiltered?.after, 3);
  });
}

function deliveryContract(engine: Engine): void {
  async function replaying(fixture: Fixture, count: number) {
    const past = await withPast(fixture, count);
    const replay = await begin(fixture, past.stream);
    assert.equal((await materialize(fixture, past.owned, replay)).materialized, count);
    return { ...past, replay };
  }

  test('replay deliveries: a late result of a redelivery from before opens no failure', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 1);
    const [event] = events;
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    // The lease of its row ended before the first attempt did; the second one succeeded.
    const redelivery = { kind: 'redelivery', hasRow: true } as const;
    await fixture.settle(owned, { outcomes: [delivered(event, redelivery)] });
    const replay = await begin(fixture, stream);
    assert.equal((await materialize(fixture, owned, replay)).materialized, 1);
    await fixture.settle(owned, { outcomes: [retry(event, redelivery)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    fixture.now = start + 1000;
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual([rows[0]?.event.id, rows[0]?.kind], [event.id, 'replay']);
  });

  test('replay deliveries: count in the health, the list and the progress', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events, replay } = await replaying(fixture, 3);
    const [one, two, three] = events;
    assert.ok(one && two && three);
    await claimDue(fixture, owned);
    await fixture.settle(owned, {
      outcomes: [failed(one, again), delivered(two, again), retry(three, again)],
    });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 1 });
    assert.deepEqual(await progress(fixture, replay), {
      status: 'running',
      matched: 3,
      sent: 1,
      failed: 1,
      finishedAt: undefined,
    });
    const [failure] = await failuresOf(fixture, stream);
    assert.equal(failure?.event.id, one.id);
    assert.deepEqual(
      failure.attempts.map(({ outcome }) => outcome),
      ['delivered', 'failed'],
    );
    fixture.now = start + 1000;
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual([rows[0]?.event.id, rows[0]?.attempt], [three.id, 2]);
    await fixture.settle(owned, { outcomes: [failed(three, { ...again, attempt: 2 })] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 2 });
    assert.equal((await materialize(fixture, owned, replay)).result, 'over');
    assert.deepEqual(await progress(fixture, replay), {
      status: 'done',
      matched: 3,
      sent: 1,
      failed: 2,
      finishedAt: start + 1000,
    });
  });

  test('replay deliveries: each counts once, however often it is sent', async (t) => {
    const fixture = await createFixture(engine, t);
    const { owned, events, replay } = await replaying(fixture, 2);
    const [one, two] = events;
    assert.ok(one && two);
    const twice = [delivered(one, again), delivered(one, again), failed(one, again)];
    await fixture.settle(owned, { outcomes: twice });
    await fixture.settle(owned, { outcomes: [failed(two, again)] });
    await fixture.settle(owned, { outcomes: [failed(two, again), retry(two, again)] });
    await fixture.settle(owned, { outcomes: [delivered(two, again)] });
    const { sent, failed: failures } = await progress(fixture, replay);
    assert.deepEqual([sent, failures], [1, 1]);
  });

  test('replay deliveries: failed ones are redelivered like any failure, without the replay', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events, replay } = await replaying(fixture, 1);
    const [event] = events;
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [failed(event, again)] });
    assert.equal((await materialize(fixture, owned, replay)).result, 'over');
    const { redeliver } = fixture.store.deliveries;
    assert.equal(await redeliver(fixture.tenant, stream.id, event.id), 'accepted');
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual([rows.length, rows[0]?.kind], [1, 'redelivery']);
    await fixture.settle(owned, {
      outcomes: [delivered(event, { kind: 'redelivery', hasRow: true })],
    });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    assert.equal((await progress(fixture, replay)).sent, 0);
  });

  test('replay deliveries: failed ones may be redelivered while the replay runs, and each counts once', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events, replay } = await replaying(fixture, 3);
    const [one, two, three] = events;
    assert.ok(one && two && three);
    await claimDue(fixture, owned);
    await fixture.settle(owned, { outcomes: [failed(one, again), failed(two, again)] });
    const { redeliverMany } = fixture.store.deliveries;
    const all = { types: undefined, from: undefined, to: undefined };
    assert.equal(await redeliverMany(fixture.tenant, stream.id, all), 2);
    const redelivery = { kind: 'redelivery', hasRow: true } as const;
    await fixture.settle(owned, {
      outcomes: [delivered(one, redelivery), failed(two, redelivery), delivered(three, again)],
    });
    assert.equal((await materialize(fixture, owned, replay)).result, 'over');
    const expected = { status: 'done', matched: 3, sent: 1, failed: 2, finishedAt: start };
    assert.deepEqual(await progress(fixture, replay), expected);
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 1 });
    const next = await begin(fixture, stream);
    assert.equal((await materialize(fixture, owned, next)).materialized, 2);
  });

  test('replay deliveries: are claimed after all other due rows', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await replaying(fixture, 2);
    fixture.now += 1000;
    const [waits, later] = await fixture.publish('user.created', 'user.created');
    assert.ok(waits && later);
    const outcomes = [retry(waits, { delayMs: 0 }), retry(later, { delayMs: 3_600_000 })];
    await fixture.settle(owned, { cursor: 4, outcomes });
    const [first, second, third] = [
      await claimDue(fixture, owned, 1),
      await claimDue(fixture, owned, 1),
      await claimDue(fixture, owned, 5),
    ];
    assert.deepEqual(
      [first, second, third].map(({ rows }) => rows.map(({ event }) => event.id)),
      [[waits.id], [events[0]?.id], [events[1]?.id]],
    );
    assert.deepEqual(
      [first, second].map(({ nextDueInMs }) => nextDueInMs),
      [0, 0],
    );
    assert.equal(third.nextDueInMs, 15_000);
    assert.equal((await fixture.store.streams.get(fixture.tenant, stream.id))?.status, 'enabled');
  });

  test('replay deliveries: do not count as waiting, and stay below the cursor', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await replaying(fixture, 3);
    const refs = [{ tenant: fixture.tenant, stream: stream.id }];
    const [owned] = await fixture.store.ownership.owned(await fixture.node(), refs, waitRule);
    assert.deepEqual([owned?.waiting, owned?.takenAbove, owned?.nextDueInMs], [0, [], 0]);
    assert.equal(owned?.waitingReplays, 3);
  });

  test('replay deliveries: continue with the next owner, those in progress at once', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events, replay } = await replaying(fixture, 3);
    await claimDue(fixture, owned, 2);
    await fixture.retire();
    const node = await fixture.store.ownership.join('node-b', leaseMs);
    const [next] = await fixture.store.ownership.claim(node, {
      claim: nextClaim(),
      take: 10,
      ...waitRule,
    });
    assert.deepEqual([next?.stream.id, next?.replay, next?.nextDueInMs], [stream.id, replay.id, 0]);
    assert.ok(next);
    assert.deepEqual(await claimedIds(fixture, next), idsOf(events));
    const [event] = events;
    assert.ok(event);
    const late = await fixture.settle(owned, { outcomes: [delivered(event, again)] });
    assert.equal(late.result, 'lost');
    assert.equal((await progress(fixture, replay)).sent, 0);
    const settlements = [
      settlementOf(next, { outcomes: events.map((one) => delivered(one, again)) }),
    ];
    const { limits } = fixture;
    await fixture.store.deliveries.settle(node, 1, settlements, limits);
    assert.equal((await materialize(fixture, next, replay)).result, 'over');
    assert.deepEqual(await progress(fixture, replay), {
      status: 'done',
      matched: 3,
      sent: 3,
      failed: 0,
      finishedAt: start,
    });
  });
}

function pauseContract(engine: Engine): void {
  test('disabled stream: its replay keeps its deliveries, sends none, and needs no owner', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 3);
    const replay = await begin(fixture, stream);
    await materialize(fixture, owned, replay);
    const [one, two] = events;
    assert.ok(one && two);
    await claimDue(fixture, owned, 2);
    await disable(fixture, stream);
    // One attempt in progress ends so that another would follow, and one ends the cycle.
    await fixture.settle(owned, { outcomes: [retry(one, again), failed(two, again)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
    assert.deepEqual(await claimedIds(fixture, owned), []);
    assert.deepEqual(await materialize(fixture, owned, replay), {
      result: 'running',
      cursor: 3,
      materialized: 0,
      more: false,
    });
    const node = await fixture.node();
    const refs = [{ tenant: fixture.tenant, stream: stream.id }];
    const [paused] = await fixture.store.ownership.owned(node, refs, waitRule);
    assert.deepEqual([paused?.nextDueInMs, paused?.replay], [undefined, replay.id]);
    await fixture.store.ownership.release(node, [raiseOf(owned)]);
    const claim = { claim: nextClaim(), take: 10, ...waitRule };
    assert.deepEqual(await fixture.store.ownership.claim(node, claim), []);
    assert.deepEqual(await progress(fixture, replay), {
      status: 'running',
      matched: 3,
      sent: 0,
      failed: 1,
      finishedAt: undefined,
    });
  });

  test('disabled stream: its replay continues when the stream is enabled again', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 4);
    const replay = await begin(fixture, stream);
    await materialize(fixture, owned, replay, { take: 2 });
    await claimDue(fixture, owned, 1);
    await disable(fixture, stream);
    await fixture.store.ownership.release(await fixture.node(), [raiseOf(owned)]);
    await fixture.publish('user.created', 'user.created');
    await disable(fixture, stream, 'enabled');
    const next = await fixture.own(stream);
    assert.equal(next.replay, replay.id);
    assert.equal((await materialize(fixture, next, replay)).materialized, 2);
    assert.deepEqual(await claimedIds(fixture, next), idsOf(events));
    await fixture.settle(next, { outcomes: events.map((event) => delivered(event, again)) });
    assert.equal((await materialize(fixture, next, replay)).result, 'over');
    assert.deepEqual(await progress(fixture, replay), {
      status: 'done',
      matched: 4,
      sent: 4,
      failed: 0,
      finishedAt: start,
    });
  });

  test('disabled stream: a threshold that its own failures reach pauses the replay too', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 4);
    const replay = await begin(fixture, stream);
    await materialize(fixture, owned, replay);
    const [fresh] = await fixture.publish('user.created');
    assert.ok(fresh);
    fixture.limits = { consecutive: 2, total: 100 };
    const [one, two, three] = events;
    assert.ok(one && two && three);
    const settled = await fixture.settle(owned, {
      outcomes: [retry(fresh), failed(one, again), failed(two, again), retry(three, again)],
    });
    assert.equal(settled.disabledBy, 'consecutive');
    // Retries of the log became failures, waiting deliveries of the replay did not.
    assert.deepEqual(await fixture.health(stream), { consecutive: 3, total: 3 });
    assert.deepEqual(await progress(fixture, replay), {
      status: 'running',
      matched: 4,
      sent: 0,
      failed: 2,
      finishedAt: undefined,
    });
  });
}

function cancelContract(engine: Engine): void {
  test('cancel: drops waiting deliveries, and results of attempts in progress are history', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 4);
    const replay = await begin(fixture, stream);
    await materialize(fixture, owned, replay);
    await claimDue(fixture, owned, 3);
    fixture.hints.length = 0;
    fixture.now += 1000;
    const { cancel } = fixture.store.replays;
    assert.equal(await cancel(fixture.tenant, stream.id, replay.id), true);
    assert.deepEqual(fixture.hints, [
      { kind: 'stream', tenant: fixture.tenant, stream: stream.id },
    ]);
    const expected = {
      status: 'cancelled',
      matched: 4,
      sent: 0,
      failed: 0,
      finishedAt: fixture.now,
    };
    assert.deepEqual(await progress(fixture, replay), expected);
    const [one, two, three] = events;
    assert.ok(one && two && three);
    const [fresh] = await fixture.publish('user.created');
    assert.ok(fresh);
    await fixture.settle(owned, { outcomes: [failed(fresh)] });
    await fixture.settle(owned, {
      outcomes: [retry(one, again), failed(two, again), delivered(three, again)],
    });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 1 });
    fixture.now = muchLater;
    assert.deepEqual(await claimedIds(fixture, owned), []);
    assert.deepEqual(await progress(fixture, replay), expected);
    assert.equal((await failuresOf(fixture, stream)).length, 1);
  });

  test('cancel: keeps failures and other deliveries', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withPast(fixture, 2);
    const replay = await begin(fixture, stream);
    await materialize(fixture, owned, replay);
    const [one] = events;
    const [waits] = await fixture.publish('user.created');
    assert.ok(one && waits);
    await fixture.settle(owned, { cursor: 3, outcomes: [failed(one, again), retry(waits)] });
    await fixture.store.replays.cancel(fixture.tenant, stream.id, replay.id);
    assert.deepEqual(idsOf((await failuresOf(fixture, stream)).map(({ event }) => event)), [
      one.id,
    ]);
    fixture.now = muchLater;
    assert.deepEqual(await claimedIds(fixture, owned), [waits.id]);
  });

  test('cancel: changes no finished replay, and returns false for an unknown one', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withPast(fixture, 2);
    const done = await begin(fixture, stream, { to: 0 });
    const cancelled = await begin(fixture, stream);
    const { cancel } = fixture.store.replays;
    await cancel(fixture.tenant, stream.id, cancelled.id);
    fixture.hints.length = 0;
    for (const replay of [done, cancelled]) {
      const before = await progress(fixture, replay);
      assert.equal(await cancel(fixture.tenant, stream.id, replay.id), true);
      assert.deepEqual(await progress(fixture, replay), before);
    }
    assert.equal(await cancel(fixture.tenant, stream.id, newId('rpl')), false);
    assert.equal(await cancel(fixture.tenant, newId('est'), done.id), false);
    assert.deepEqual(fixture.hints, []);
  });

  test('cancel: works while the stream is disabled', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withPast(fixture, 2);
    const replay = await begin(fixture, stream);
    await materialize(fixture, owned, replay);
    await disable(fixture, stream);
    await fixture.store.replays.cancel(fixture.tenant, stream.id, replay.id);
    await disable(fixture, stream, 'enabled');
    assert.deepEqual(await claimedIds(fixture, owned), []);
    assert.equal((await begin(fixture, stream)).status, 'running');
  });
}

function pruneContract(engine: Engine): void {
  test('prune: deletes replays that were over before an instant, a few at a time', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withPast(fixture, 2);
    const over: Replay[] = [];
    for (let number = 0; number < 4; number += 1) {
      over.push(await begin(fixture, stream, { to: 0 }));
      fixture.now += 1000;
    }
    const running = await begin(fixture, stream);
    // The newest event of the store is of `start`.
    const olderThanMs = -3000;
    const { prune, get } = fixture.store.replays;
    assert.equal(await prune({ olderThanMs, take: 2 }), 2);
    assert.equal(await prune({ olderThanMs, take: 2 }), 1);
    assert.equal(await prune({ olderThanMs, take: 2 }), 0);
    const left = [];
    for (const { id } of [...over, running]) {
      left.push((await get(fixture.tenant, stream.id, id)) !== undefined);
    }
    assert.deepEqual(left, [false, false, false, true, true]);
  });
}
