import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EventState } from '../../../src/core/event-state.ts';
import { withSelection } from '../../../src/core/subscription.ts';
import type { Selection, Stream } from '../../../src/core/types.ts';
import type { EventDeliveries } from '../../../src/store/port/event-log.ts';
import type { Engine } from './engine.ts';
import { dismissFailures } from './failure-work.ts';
import {
  addTenant,
  blocked,
  claimDue,
  createFixture,
  delivered,
  failed,
  type Fixture,
  newEvent,
  newStream,
  parked,
  retry,
  start,
} from './fixture.ts';

/** Defines the tests of what became of events. */
export function eventLogContract(engine: Engine): void {
  describe(`${engine.name}: eventLog.deliveries`, () => {
    statesContract(engine);
    selectionsContract(engine);
    listContract(engine);
  });
  describe(`${engine.name}: eventLog.find and newest`, () => readsContract(engine));
  describe(`${engine.name}: eventLog.attempts`, () => attemptsContract(engine));
}

const all = { after: undefined, take: 100 };

async function readDeliveries(fixture: Fixture, eventId: string): Promise<EventDeliveries> {
  const event = await fixture.store.eventLog.find(fixture.tenant, eventId);
  assert.ok(event, 'the event is found');
  return fixture.store.eventLog.deliveries(fixture.tenant, event, all);
}

/** Returns the state of an event at each stream that is listed. */
async function statesOf(fixture: Fixture, eventId: string): Promise<Record<string, EventState>> {
  const { items } = await readDeliveries(fixture, eventId);
  return Object.fromEntries(items.map(({ stream, state }) => [stream, state]));
}

async function setStatus(
  fixture: Fixture,
  stream: Stream,
  status: Stream['status'],
  resume?: 'latest' | 'held',
): Promise<void> {
  const result = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, status },
    resume,
  }));
  assert.ok('updated' in result);
}

/** Changes the selection of a stream at the head of the log. */
async function select(fixture: Fixture, stream: Stream, selection: Selection) {
  return fixture.store.streams.update(fixture.tenant, stream.id, (before, { head }) => ({
    after: { ...before, subscriptions: withSelection(before.subscriptions, selection, head) },
  }));
}

const created = 'user.created';

function statesContract(engine: Engine): void {
  test('deliveries: waiting, then the state of the row, then delivered', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish(created);
    assert.ok(event);
    const state = async () => (await statesOf(fixture, event.id))[stream.id];
    assert.equal(await state(), 'waiting');
    await fixture.settle(owned, { outcomes: [parked(event)] });
    assert.equal(await state(), 'in_progress');
    await fixture.settle(owned, { outcomes: [retry(event, { hasRow: true })] });
    assert.equal(await state(), 'retrying');
    await fixture.settle(owned, { outcomes: [failed(event, { hasRow: true, attempt: 2 })] });
    assert.equal(await state(), 'failed');
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    assert.equal(await state(), 'retrying');
    await fixture.settle(owned, {
      cursor: event.offset,
      outcomes: [delivered(event, { kind: 'redelivery', hasRow: true })],
    });
    assert.equal(await state(), 'delivered');
  });

  test('deliveries: a success above the cursor is delivered, an event behind its key is blocked', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ delivery: { orderBy: '/data/id' } });
    const owned = await fixture.own(stream);
    const [one, two, three] = await fixture.publish(created, created, created);
    assert.ok(one && two && three);
    await fixture.settle(owned, {
      outcomes: [delivered(two), blocked(three, { orderKey: 'key' })],
    });
    const states = await Promise.all([one, two, three].map(({ id }) => statesOf(fixture, id)));
    assert.deepEqual(
      states.map((each) => each[stream.id]),
      ['waiting', 'delivered', 'blocked'],
    );
  });

  test('deliveries: the history of a delivery, and when its next attempt is due', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ name: 'crm' });
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish(created);
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [retry(event, { delayMs: 60_000 })] });
    const { items, counts, next } = await readDeliveries(fixture, event.id);
    assert.deepEqual(counts, { retrying: 1 });
    assert.equal(next, undefined);
    const [item] = items;
    assert.equal(item?.name, 'crm');
    assert.equal(item.nextAttemptAt, start + 60_000);
    assert.deepEqual(
      item.attempts.map(({ outcome, status, error }) => [outcome, status, error]),
      [['failed', 503, '503 - busy']],
    );
    await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, paused: { at: 0 } },
    }));
    const [paused] = (await readDeliveries(fixture, event.id)).items;
    assert.equal(paused?.state, 'retrying');
    assert.equal(paused.nextAttemptAt, undefined);
  });

  test('deliveries: dismissed, also without its history; a later success counts more', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish(created);
    assert.ok(event);
    await fixture.settle(owned, { cursor: event.offset, outcomes: [failed(event)] });
    await dismissFailures(store, tenant, stream.id, {});
    assert.deepEqual(await statesOf(fixture, event.id), { [stream.id]: 'dismissed' });
    const day = 86_400_000;
    fixture.now += 4 * day;
    await fixture.publish(created);
    while ((await store.deliveries.pruneAttempts({ olderThanMs: 3 * day, take: 100 })) > 0);
    const [item] = (await readDeliveries(fixture, event.id)).items;
    assert.deepEqual([item?.state, item?.attempts], ['dismissed', []]);
    await fixture.settle(owned, { outcomes: [delivered(event, { kind: 'replay' })] });
    assert.deepEqual(await statesOf(fixture, event.id), { [stream.id]: 'delivered' });
  });

  test('deliveries: an event that was passed and has no history any more is delivered', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish(created);
    assert.ok(event);
    await fixture.settle(owned, { cursor: event.offset });
    const [item] = (await readDeliveries(fixture, event.id)).items;
    assert.deepEqual([item?.state, item?.attempts], ['delivered', []]);
  });

  test('deliveries: skipped by latest, and delivered when a replay sends it', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ status: 'disabled' });
    const [one, other] = await fixture.publish(created, created);
    assert.ok(one && other);
    assert.deepEqual(await statesOf(fixture, one.id), { [stream.id]: 'waiting' });
    await setStatus(fixture, stream, 'enabled');
    assert.deepEqual(await statesOf(fixture, one.id), { [stream.id]: 'skipped' });
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { outcomes: [delivered(one, { kind: 'replay' })] });
    assert.deepEqual(await statesOf(fixture, one.id), { [stream.id]: 'delivered' });
    assert.deepEqual(await statesOf(fixture, other.id), { [stream.id]: 'skipped' });
  });

  test('deliveries: an event that a replay sent by a selection between two changes is listed', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream({ types: ['user.deleted'] });
    const owned = await fixture.own(stream);
    const [sent, other] = await fixture.publish(created, created);
    assert.ok(sent && other);
    await fixture.settle(owned, { cursor: other.offset });
    await select(fixture, stream, { types: ['user.deleted', created] });
    const range = { from: 0, to: other.offset, types: undefined };
    const replay = { tenant, stream: stream.id, id: 'rpl_1', ...range };
    assert.ok('created' in (await store.replays.create(replay)));
    await fixture.settle(owned, { outcomes: [delivered(sent, { kind: 'replay' })] });
    await select(fixture, stream, { types: ['user.deleted'] });
    assert.deepEqual(await statesOf(fixture, sent.id), { [stream.id]: 'delivered' });
    assert.deepEqual(await statesOf(fixture, other.id), {}, 'the replay did not send it');
  });

  test('deliveries: a stream that began later is not listed until the event is replayed to it', async (t) => {
    const fixture = await createFixture(engine, t);
    const [one, two] = await fixture.publish(created, created);
    assert.ok(one && two);
    const late = await fixture.addStream();
    const past = await fixture.store.streams.create(
      { ...newStream(fixture.tenant, fixture.now), cursor: one.offset },
      { streamsMax: 10 },
    );
    assert.ok('created' in past);
    assert.deepEqual(await statesOf(fixture, one.id), {});
    assert.deepEqual(await statesOf(fixture, two.id), { [past.created.id]: 'waiting' });
    const owned = await fixture.own(late);
    await fixture.settle(owned, { outcomes: [delivered(one, { kind: 'replay' })] });
    assert.deepEqual(await statesOf(fixture, one.id), { [late.id]: 'delivered' });
  });

  test('deliveries: an event that the log has no more is found by its open delivery alone', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    await fixture.addStream({ status: 'disabled' });
    const owned = await fixture.own(stream);
    const [event, passed] = await fixture.publish(created, created);
    assert.ok(event && passed);
    await fixture.settle(owned, {
      cursor: passed.offset,
      outcomes: [failed(event), delivered(passed)],
    });
    fixture.now += 1000;
    await fixture.publish('user.deleted');
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: 500, take: 10 });
    const found = await fixture.store.eventLog.find(fixture.tenant, event.id);
    assert.deepEqual(found, { ...event, publishedAt: undefined });
    assert.deepEqual(await statesOf(fixture, event.id), { [stream.id]: 'failed' });
    assert.equal(await fixture.store.eventLog.find(fixture.tenant, passed.id), undefined);
  });

  test('deliveries: a test event is found while its delivery is open', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    await fixture.addStream();
    const event = newEvent();
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, event);
    assert.deepEqual(await statesOf(fixture, event.id), { [stream.id]: 'retrying' });
    const owned = await fixture.own(stream);
    await claimDue(fixture, owned);
    const tested = { ...event, offset: undefined };
    await fixture.settle(owned, { outcomes: [failed(tested, { kind: 'test', hasRow: true })] });
    const [item] = (await readDeliveries(fixture, event.id)).items;
    assert.equal(item?.state, 'failed');
    assert.equal(item.attempts.length, 1);
  });
}

function selectionsContract(engine: Engine): void {
  test('deliveries: filtered by the selection in force then, also when the cursor has passed a change', async (t) => {
    const fixture = await createFixture(engine, t);
    const filter = JSON.stringify({ 'data.plan': 'pro' });
    const stream = await fixture.addStream({ filter });
    const owned = await fixture.own(stream);
    const publish = async (plan: string) => {
      const id = newEvent().id;
      const body = JSON.stringify({ id, type: created, data: { plan } });
      const [appended] = await fixture.store.log.append(fixture.tenant, [
        newEvent({ id, body, time: fixture.now }),
      ]);
      assert.ok(appended);
      return appended;
    };
    const [free, pro] = [await publish('free'), await publish('pro')];
    await select(fixture, stream, { types: ['user.deleted'] });
    const between = await publish('pro');
    await select(fixture, stream, { types: [created] });
    const after = await publish('free');
    const states = async () =>
      Promise.all(
        [free, pro, between, after].map(async ({ id }) => (await statesOf(fixture, id))[stream.id]),
      );
    assert.deepEqual(await states(), ['filtered', 'waiting', 'filtered', 'waiting']);
    const { version } = (await fixture.store.streams.get(fixture.tenant, stream.id)) ?? stream;
    await fixture.settle(owned, { cursor: after.offset, version });
    await select(fixture, stream, { types: [created], filter });
    const [one, ...others] =
      (await fixture.store.streams.get(fixture.tenant, stream.id))?.subscriptions ?? [];
    assert.deepEqual(
      [one?.after, others],
      [after.offset, []],
      'the stream keeps its next selection',
    );
    assert.deepEqual(await states(), ['filtered', 'delivered', 'filtered', 'delivered']);
  });

  test('deliveries: read between changes of a selection, the state is by the one in force', async (t) => {
    const fixture = await createFixture(engine, t);
    const [stream, other] = [await fixture.addStream(), await fixture.addStream()];
    const [event] = await fixture.publish(created);
    assert.ok(event);
    const state = async () => (await statesOf(fixture, event.id))[stream.id];
    const replace = (selection: Selection) =>
      fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
        after: { ...before, subscriptions: [{ after: -1, ...selection }] },
      }));
    assert.equal(await state(), 'waiting');
    await replace({ types: [created], filter: JSON.stringify({ type: 'other.type' }) });
    assert.equal(await state(), 'filtered');
    await replace({ types: ['other.type'] });
    assert.deepEqual(await statesOf(fixture, event.id), { [other.id]: 'waiting' });
    await replace({ types: [created] });
    assert.equal(await state(), 'waiting');
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    assert.deepEqual(await statesOf(fixture, event.id), { [other.id]: 'waiting' });
  });

  for (const [title, more] of [
    ['past selections', []],
    [
      'past selections with many types',
      Array.from({ length: 50 }, (_, n) => `one.of.many.types${n}`),
    ],
  ] as const) {
    test(
      `deliveries: streams of any of more than a thousand ${title} are listed`,
      { tags: ['long'] },
      async (t) => {
        const fixture = await createFixture(engine, t);
        const streams: Stream[] = [];
        for (let index = 0; index < 13; index += 1) {
          streams.push(await fixture.addStream({ status: 'disabled' }));
        }
        const [event] = await fixture.publish(created);
        assert.ok(event);
        for (let index = 0; index < 90; index += 1) {
          const types = [...more, `other.type${index}`];
          await Promise.all(streams.map((stream) => select(fixture, stream, { types })));
          await fixture.publish(created);
        }
        for (const stream of streams) await setStatus(fixture, stream, 'enabled', 'latest');
        const states = streams.map(({ id }) => [id, 'skipped']);
        assert.deepEqual(await statesOf(fixture, event.id), Object.fromEntries(states));
      },
    );
  }

  test('update: a selection too many is refused while the log has events of all of them', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const change = async (index: number) => {
      const [event] = await fixture.publish(created);
      assert.ok(event);
      const { version } = (await fixture.store.streams.get(fixture.tenant, stream.id)) ?? stream;
      await fixture.settle(owned, { cursor: event.offset, version });
      return select(fixture, stream, { types: [created, `a.b${index}`] });
    };
    for (let index = 1; index < 100; index += 1) assert.ok('updated' in (await change(index)));
    const refused = await change(100);
    assert.deepEqual('refused' in refused && refused.refused, 'too_many_changes');
    const renamed = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, name: 'another' },
    }));
    assert.ok('updated' in renamed, 'other changes are possible');
    fixture.now += 1000;
    await fixture.publish(created);
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: 500, take: 1 });
    assert.ok('updated' in (await change(100)), 'the log has no event of the first selection');
  });

  test('prune: removes what is about pruned events alone', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one] = await fixture.publish(created);
    assert.ok(one);
    await fixture.settle(owned, { cursor: one.offset, outcomes: [failed(one)] });
    await dismissFailures(store, tenant, stream.id, {});
    await select(fixture, stream, { types: ['user.deleted'] });
    const [two] = await fixture.publish(created);
    assert.ok(two);
    await fixture.settle(owned, { cursor: two.offset, version: 2 });
    await select(fixture, stream, { types: [created] });
    assert.equal(await store.eventLog.prune(tenant, 10), 0);
    fixture.now += 1000;
    await fixture.publish('a.b');
    await store.log.prune(tenant, { olderThanMs: 500, take: 1 });
    assert.equal(await store.eventLog.prune(tenant, 10), 2, 'a selection and a dismissal');
    assert.deepEqual(await statesOf(fixture, two.id), { [stream.id]: 'filtered' });
    assert.equal(await store.eventLog.prune(tenant, 10), 0);
  });
}

function listContract(engine: Engine): void {
  test('deliveries: pages in the order of ids, with the counts of all streams; none of other tenants', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const other = await addTenant(store, 'other');
    await store.streams.create(newStream(other.id, fixture.now), { streamsMax: 10 });
    const streams: Stream[] = [];
    for (let index = 0; index < 7; index += 1) streams.push(await fixture.addStream());
    const filtered = await fixture.addStream({ filter: '{"type":"a.b"}' });
    await fixture.addStream({ types: ['user.deleted'] });
    const gone = await fixture.addStream();
    const [event] = await fixture.publish(created);
    assert.ok(event);
    await store.streams.delete(tenant, gone.id);
    const found = await store.eventLog.find(tenant, event.id);
    assert.ok(found);
    const seen: string[] = [];
    let after: string | undefined;
    do {
      const page = await store.eventLog.deliveries(tenant, found, { after, take: 3 });
      assert.deepEqual(page.counts, { waiting: 7, filtered: 1 });
      seen.push(...page.items.map(({ stream }) => stream));
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(seen, [...streams, filtered].map(({ id }) => id).toSorted());
  });
}

function readsContract(engine: Engine): void {
  test('newest: newest first, down to where it scanned; by type, size and range', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const events = await fixture.publish(...Array.from({ length: 9 }, (_, n) => `a.b${n % 3}`));
    const query = { before: 10, after: 0, take: 4, bytesMax: 1_000_000 };
    const offsets = async (changes: Partial<typeof query> & { types?: string[] }) => {
      const {
        events: found,
        scannedTo,
        isEnd,
      } = await store.eventLog.newest(tenant, {
        ...query,
        ...changes,
      });
      return [found.map(({ offset }) => offset), scannedTo, isEnd];
    };
    assert.deepEqual(await offsets({}), [[9, 8, 7, 6], 6, false]);
    assert.deepEqual(await offsets({ before: 6 }), [[5, 4, 3, 2], 2, false]);
    assert.deepEqual(await offsets({ before: 2 }), [[1], 1, true]);
    assert.deepEqual(await offsets({ before: 1 }), [[], 1, true]);
    assert.deepEqual(await offsets({ types: ['a.b0'], take: 2 }), [[7, 4], 4, false]);
    assert.deepEqual(await offsets({ types: ['a.b0'] }), [[7, 4, 1], 1, true]);
    assert.deepEqual(await offsets({ types: ['a.none'] }), [[], 1, true]);
    assert.deepEqual(await offsets({ after: 7 }), [[9, 8], 8, true]);
    assert.deepEqual(await offsets({ bytesMax: 1 }), [[9], 9, false]);
    const [newest] = (await store.eventLog.newest(tenant, { ...query, take: 1 })).events;
    assert.deepEqual(newest, { ...events[8], publishedAt: start });
  });

  test('newest: reads the newest days of a log that spans many', async (t) => {
    const fixture = await createFixture(engine, t);
    const days = 20;
    for (let day = 0; day < days; day += 1) {
      await fixture.publish(created);
      fixture.now += 86_400_000;
    }
    const seen: number[] = [];
    for (let before = days + 1; ;) {
      const query = { before, after: 0, take: 30, bytesMax: 1_000_000, types: [created] };
      const page = await fixture.store.eventLog.newest(fixture.tenant, query);
      seen.push(...page.events.map(({ offset }) => offset));
      if (page.isEnd) break;
      assert.ok(page.scannedTo < before, 'every query advances');
      before = page.scannedTo;
    }
    assert.deepEqual(
      seen,
      Array.from({ length: days }, (_, index) => days - index),
    );
  });

  test('find: an event by its id, of its own tenant, with its time of acceptance', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const other = await addTenant(store, 'other');
    const [event] = await fixture.publish(created);
    assert.ok(event);
    assert.deepEqual(await store.eventLog.find(tenant, event.id), { ...event, publishedAt: start });
    assert.equal(await store.eventLog.find(other.id, event.id), undefined);
    assert.equal(await store.eventLog.find(tenant, newEvent().id), undefined);
  });
}

function attemptsContract(engine: Engine): void {
  test('attempts: newest events first, each entry once over pages, with the event', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const ownedOther = await fixture.own(await fixture.addStream());
    const [one, two, three] = await fixture.publish(created, created, created);
    assert.ok(one && two && three);
    await fixture.settle(ownedOther, { outcomes: [delivered(one)] });
    await fixture.settle(owned, { outcomes: [retry(one), delivered(two)] });
    fixture.now += 10;
    await fixture.settle(owned, {
      cursor: three.offset,
      outcomes: [delivered(one, { hasRow: true, attempt: 2 }), delivered(three)],
    });
    const seen: (readonly [string | undefined, string])[] = [];
    let after: string | undefined;
    do {
      const page = await store.eventLog.attempts(tenant, stream.id, { after, take: 2 });
      seen.push(...page.items.map(({ event, attempt }) => [event?.id, attempt.outcome] as const));
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(seen, [
      [three.id, 'delivered'],
      [two.id, 'delivered'],
      [one.id, 'delivered'],
      [one.id, 'failed'],
    ]);
    const none = await store.eventLog.attempts(tenant, 'est_none', all);
    assert.deepEqual(none, { items: [], next: undefined });
  });

  test('attempts: an event that the log has no more is not named', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish(created);
    assert.ok(event);
    await fixture.settle(owned, { cursor: event.offset, outcomes: [delivered(event)] });
    fixture.now += 1000;
    await fixture.publish('a.b');
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: 500, take: 10 });
    const { items } = await fixture.store.eventLog.attempts(fixture.tenant, stream.id, all);
    assert.deepEqual(
      items.map((item) => [item.offset, item.event, item.attempt.outcome]),
      [[event.offset, undefined, 'delivered']],
    );
  });
}
