import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Stream } from '../../../src/core/types.ts';
import type { FailureFilter, NewFailure } from '../../../src/store/port/deliveries.ts';
import type { Engine } from './engine.ts';
import { waitingContract } from './waiting.ts';
import {
  addTenant,
  claimDue,
  createFixture,
  delivered,
  failed,
  failuresOf,
  parked,
  raiseOf,
  retry,
  start,
  type LoggedEvent,
  type Fixture,
  dueRules,
  newEvent,
  waitRule,
} from './fixture.ts';

export function deliveriesContract(engine: Engine): void {
  describe(`${engine.name}: deliveries.listFailures`, { tags: engine.sharedTags }, () =>
    listContract(engine),
  );
  describe(`${engine.name}: deliveries.failure`, { tags: engine.sharedTags }, () =>
    failureContract(engine),
  );
  describe(`${engine.name}: deliveries.redeliver`, () => redeliverContract(engine));
  describe(`${engine.name}: deliveries.redeliverMany`, { tags: engine.sharedTags }, () =>
    redeliverManyContract(engine),
  );
  describe(`${engine.name}: deliveries.retryNow`, { tags: engine.sharedTags }, () =>
    waitingContract(engine),
  );
  describe(`${engine.name}: deliveries.addTest`, () => testContract(engine));
  describe(`${engine.name}: deliveries.claimDue`, () => claimContract(engine));
  describe(`${engine.name}: deliveries.pruneAttempts`, () => pruneContract(engine));
}

const later = start + 60_000;
const again = { kind: 'redelivery', hasRow: true } as const;

/** Creates a stream whose `count` events failed, one millisecond after the other. */
async function withFailures(fixture: Fixture, count: number, type = 'user.created') {
  const stream = await fixture.addStream({ types: [type] });
  const owned = await fixture.own(stream);
  const events = await fixture.publish(...Array.from({ length: count }, () => type));
  for (const event of events) {
    await fixture.settle(owned, { outcomes: [failed(event)] });
    fixture.now += 1;
  }
  return { stream, owned, events };
}

const ids = (items: readonly { event: { id: string } }[]) => items.map(({ event }) => event.id);

const idsOf = (events: readonly LoggedEvent[]) => events.map((event) => event.id);

async function disable(fixture: Fixture, stream: Stream): Promise<void> {
  await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, status: 'disabled' },
  }));
}

function listContract(engine: Engine): void {
  test('listFailures: the newest failure comes first', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events } = await withFailures(fixture, 3);
    assert.deepEqual(ids(await failuresOf(fixture, stream)), idsOf(events).toReversed());
  });

  test('listFailures: pages cover all failures once, even those of one instant', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events = await fixture.publish(...Array.from({ length: 25 }, () => 'user.created'));
    await fixture.settle(owned, { outcomes: events.map((event) => failed(event)) });
    const seen: string[] = [];
    let after: string | undefined;
    do {
      const query = { after, take: 10 };
      const page = await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query);
      seen.push(...ids(page.items));
      after = page.next;
    } while (after !== undefined);
    assert.equal(seen.length, 25);
    assert.deepEqual(seen.toSorted(), idsOf(events).toSorted());
  });

  test('listFailures: a page that ends at the last failure has no next', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withFailures(fixture, 2);
    const query = { after: undefined, take: 2 };
    const page = await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query);
    assert.deepEqual([page.items.length, page.next], [2, undefined]);
  });

  test('listFailures: records that come, go and are redelivered between two pages move no other', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, 6);
    const [e1, e2, e3, e4, e5, e6] = idsOf(events);
    assert.ok(e1 && e2 && e3 && e4 && e5 && e6);
    const first = await store.deliveries.listFailures(tenant, stream.id, {
      after: undefined,
      take: 2,
    });
    assert.deepEqual(ids(first.items), [e6, e5]);
    // The record at the end of the page is removed, a new one appears, a waiting one is retried.
    for (const id of [e5, e2]) await store.deliveries.redeliver(tenant, stream.id, id);
    const [, second, , , fifth] = events;
    assert.ok(second && fifth);
    await fixture.settle(owned, { outcomes: [delivered(fifth, again), failed(second, again)] });
    const [fresh] = await fixture.publish('user.created');
    assert.ok(fresh);
    await fixture.settle(owned, { outcomes: [failed(fresh)] });
    const rest = await store.deliveries.listFailures(tenant, stream.id, {
      after: first.next,
      take: 10,
    });
    assert.deepEqual(ids(rest.items), [e4, e3, e2, e1]);
  });

  test('newFailures: returns those recorded after an instant, with their last failed attempt', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events } = await withFailures(fixture, 6);
    const { deliveries } = fixture.store;
    const found: NewFailure[] = [];
    let after: string | undefined;
    do {
      const query = { after, take: 2, failedAfter: start + 2 };
      const page = await deliveries.newFailures(fixture.tenant, stream.id, query);
      found.push(...page.items);
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(
      found.map(({ eventId }) => eventId),
      idsOf(events.slice(3)).toReversed(),
    );
    const listed = await deliveries.listFailures(fixture.tenant, stream.id, {
      after: undefined,
      take: 3,
    });
    assert.deepEqual(
      found,
      listed.items.map(({ event, failedAt, attempts }) => {
        const last = attempts.at(-1);
        const row = { eventId: event.id, eventType: event.type, failedAt };
        return { ...row, attempts: 1, status: last?.status, error: last?.error };
      }),
    );
    for (const [failedAfter, count] of [
      [start - 1, 6],
      [start + 5, 0],
    ] as const) {
      const query = { after: undefined, take: 10, failedAfter };
      const page = await deliveries.newFailures(fixture.tenant, stream.id, query);
      assert.deepEqual([page.items.length, page.next], [count, undefined]);
    }
  });

  test('listFailures: filters by type and by the time of the event, from inclusive, to exclusive', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events: LoggedEvent[] = [];
    for (const [index, type] of ['a.a', 'b.b', 'a.a', 'c.c'].entries()) {
      fixture.now = start + index * 1000;
      events.push(...(await fixture.publish(type)));
    }
    await fixture.settle(owned, { outcomes: events.map((event) => failed(event)) });
    const [a1, b2, a3, c4] = idsOf(events);
    const list = async (filter: FailureFilter) => {
      const query = { ...filter, after: undefined, take: 100 };
      const page = await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query);
      return ids(page.items).toSorted();
    };
    assert.deepEqual(await list({ types: ['a.a', 'c.c'] }), [a1, a3, c4]);
    assert.deepEqual(await list({ types: [] }), []);
    assert.deepEqual(await list({ from: start + 1000 }), [b2, a3, c4]);
    assert.deepEqual(await list({ to: start + 1000 }), [a1]);
    assert.deepEqual(await list({ from: start + 1000, to: start + 3000, types: ['a.a'] }), [a3]);
    assert.deepEqual(await list({ from: start + 5000, to: start }), []);
  });

  test('listFailures: an unknown page key returns an empty page', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withFailures(fixture, 1);
    for (const after of ['', 'x', '1', '-1.evt', "1.'; drop table deliveries", '1.\u0000']) {
      const query = { after, take: 10 };
      const page = await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query);
      assert.deepEqual(page, { items: [], next: undefined }, after);
    }
  });

  test('listFailures: waiting retries and attempts in progress are no failures', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one, two] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && two);
    await fixture.settle(owned, { outcomes: [retry(one), parked(two)] });
    assert.deepEqual(await failuresOf(fixture, stream), []);
  });

  test('listFailures: leaves out other streams and tenants', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events } = await withFailures(fixture, 1);
    const quiet = await fixture.addStream();
    const other = await addTenant(fixture.store, 'other');
    assert.deepEqual(await failuresOf(fixture, quiet), []);
    const query = { after: undefined, take: 10 };
    const there = await fixture.store.deliveries.listFailures(other.id, stream.id, query);
    assert.deepEqual(there.items, []);
    const id = events[0]?.id ?? '';
    assert.equal(await fixture.store.deliveries.failure(other.id, stream.id, id), undefined);
    assert.equal(await fixture.store.deliveries.redeliver(other.id, stream.id, id), 'unknown');
  });

  test('listFailures: shows the newest hundred entries of a long history, oldest first', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withFailures(fixture, 1);
    const [event] = events;
    assert.ok(event);
    const outcomes = Array.from({ length: 130 }, (_, index) =>
      retry(event, { agoMs: -index, error: `error ${index}` }),
    );
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    await fixture.settle(owned, {
      outcomes: outcomes.map((outcome) => ({ ...outcome, ...again })),
    });
    const [failure] = await failuresOf(fixture, stream);
    const errors = failure?.attempts.map(({ error }) => error);
    assert.deepEqual(
      errors,
      Array.from({ length: 100 }, (_, index) => `error ${index + 30}`),
    );
  });
}

function failureContract(engine: Engine): void {
  test('failure: returns the same record as the list', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream } = await withFailures(fixture, 2);
    for (const listed of await failuresOf(fixture, stream)) {
      const one = await fixture.store.deliveries.failure(
        fixture.tenant,
        stream.id,
        listed.event.id,
      );
      assert.deepEqual(one, listed);
    }
  });

  test('failure: returns only open failures', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one, two] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && two);
    await fixture.settle(owned, { outcomes: [retry(one), delivered(two)] });
    for (const id of [one.id, two.id, 'evt_unknown', '']) {
      assert.equal(
        await fixture.store.deliveries.failure(fixture.tenant, stream.id, id),
        undefined,
      );
    }
  });
}

function redeliverContract(engine: Engine): void {
  test('redeliver: a failure is due now again, from attempt 1, and stays on the list', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withFailures(fixture, 1);
    const [event] = events;
    assert.ok(event);
    fixture.now = later;
    fixture.hints.length = 0;
    const { redeliver } = fixture.store.deliveries;
    assert.equal(await redeliver(fixture.tenant, stream.id, event.id), 'accepted');
    assert.deepEqual(fixture.hints, [
      { kind: 'stream', tenant: fixture.tenant, stream: stream.id },
    ]);
    const [failure] = await failuresOf(fixture, stream);
    assert.deepEqual(failure?.attempts.at(-1), {
      at: later,
      durationMs: 0,
      outcome: 'redelivered',
      status: undefined,
      error: undefined,
    });
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(rows, [{ event, kind: 'redelivery', state: 'parked', attempt: 1 }]);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
  });

  test('redeliver: returns retrying while a cycle is in progress, and changes nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withFailures(fixture, 1);
    const [event] = events;
    assert.ok(event);
    const { redeliver } = fixture.store.deliveries;
    await redeliver(fixture.tenant, stream.id, event.id);
    fixture.hints.length = 0;
    assert.equal(await redeliver(fixture.tenant, stream.id, event.id), 'retrying');
    await claimDue(fixture, owned);
    assert.equal(await redeliver(fixture.tenant, stream.id, event.id), 'retrying');
    await fixture.settle(owned, { outcomes: [retry(event, { ...again, delayMs: later - start })] });
    assert.equal(await redeliver(fixture.tenant, stream.id, event.id), 'retrying');
    assert.deepEqual(fixture.hints, []);
    const [failure] = await failuresOf(fixture, stream);
    assert.equal(failure?.attempts.filter((one) => one.outcome === 'redelivered').length, 1);
  });

  test('redeliver: a delivery that waits by a schedule of its stream is due now, and its cycle goes on', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream({ delivery: { retry: 'hours' } });
    const owned = await fixture.own(stream);
    const [waits, runs] = await fixture.publish('user.created', 'user.created');
    assert.ok(waits && runs);
    await fixture.settle(owned, { outcomes: [retry(waits, { delayMs: 60_000 }), parked(runs)] });
    fixture.hints.length = 0;
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, waits.id), 'accepted');
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, runs.id), 'retrying');
    assert.deepEqual(fixture.hints, [{ kind: 'stream', tenant, stream: stream.id }]);
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(
      rows.map(({ event, kind, attempt }) => [event.id, kind, attempt]),
      [[waits.id, 'first', 2]],
    );
  });

  test('redeliver: returns retrying during a first cycle too', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one, two] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && two);
    await fixture.settle(owned, { outcomes: [retry(one), parked(two)] });
    const { redeliver } = fixture.store.deliveries;
    assert.equal(await redeliver(fixture.tenant, stream.id, one.id), 'retrying');
    assert.equal(await redeliver(fixture.tenant, stream.id, two.id), 'retrying');
  });

  test('redeliver: returns delivered after a success, of an event and of a test', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, 1);
    const [event] = events;
    assert.ok(event);
    await store.deliveries.redeliver(tenant, stream.id, event.id);
    await fixture.settle(owned, { outcomes: [delivered(event, again)] });
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, event.id), 'delivered');
    const testEvent = { id: 'evt_test', type: 'a.b', time: start, body: '{}' };
    await store.deliveries.addTest(tenant, stream.id, testEvent);
    const [due] = (await claimDue(fixture, owned)).rows;
    assert.ok(due);
    await fixture.settle(owned, {
      outcomes: [delivered(due.event, { kind: 'test', hasRow: true })],
    });
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, 'evt_test'), 'delivered');
  });

  test('redeliver: returns unknown for anything else', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events } = await withFailures(fixture, 1);
    const quiet = await fixture.addStream();
    const { redeliver } = fixture.store.deliveries;
    const id = events[0]?.id ?? '';
    assert.equal(await redeliver(fixture.tenant, quiet.id, id), 'unknown');
    assert.equal(await redeliver(fixture.tenant, stream.id, 'evt_unknown'), 'unknown');
    assert.equal(await redeliver(fixture.tenant, 'est_unknown', id), 'unknown');
  });

  test('redeliver: accepts exactly one of several concurrent requests for one failure', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events } = await withFailures(fixture, 1);
    const id = events[0]?.id ?? '';
    const results = await Promise.all(
      Array.from({ length: 5 }, () =>
        fixture.store.deliveries.redeliver(fixture.tenant, stream.id, id),
      ),
    );
    assert.deepEqual(results.toSorted(), ['accepted', ...Array(4).fill('retrying')]);
  });
}

function redeliverManyContract(engine: Engine): void {
  test('redeliverMany: every matching failure starts a new cycle, with an entry in its history', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withFailures(fixture, 4);
    const { redeliver, redeliverMany } = fixture.store.deliveries;
    const [first] = events;
    assert.ok(first);
    await redeliver(fixture.tenant, stream.id, first.id);
    fixture.hints.length = 0;
    assert.equal(await redeliverMany(fixture.tenant, stream.id, {}), 3);
    assert.deepEqual(fixture.hints, [
      { kind: 'stream', tenant: fixture.tenant, stream: stream.id },
    ]);
    assert.equal((await claimDue(fixture, owned)).rows.length, 4);
    for (const { attempts } of await failuresOf(fixture, stream)) {
      assert.deepEqual(
        attempts.map(({ outcome }) => outcome),
        ['failed', 'redelivered'],
      );
    }
    assert.equal(await redeliverMany(fixture.tenant, stream.id, {}), 0);
  });

  test('redeliverMany: filters by type and time', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [a1, b1] = await fixture.publish('a.a', 'b.b');
    fixture.now = later;
    const [a2] = await fixture.publish('a.a');
    assert.ok(a1 && b1 && a2);
    await fixture.settle(owned, { outcomes: [failed(a1), failed(b1), failed(a2)] });
    const filter = { types: ['a.a'], from: start + 1, to: later + 1 };
    const { redeliverMany } = fixture.store.deliveries;
    assert.equal(await redeliverMany(fixture.tenant, stream.id, filter), 1);
    assert.deepEqual(ids((await claimDue(fixture, owned)).rows), [a2.id]);
    assert.equal(await redeliverMany(fixture.tenant, stream.id, { to: start }), 0);
    assert.equal(await redeliverMany(fixture.tenant, stream.id, { types: [] }), 0);
  });

  test('redeliverMany: leaves waiting retries alone, and sends no hint without a change', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [retry(event, { delayMs: later - start })] });
    fixture.hints.length = 0;
    assert.equal(await fixture.store.deliveries.redeliverMany(fixture.tenant, stream.id, {}), 0);
    assert.deepEqual(fixture.hints, []);
    assert.equal((await claimDue(fixture, owned)).nextDueInMs, later - start);
  });

  test('redeliverMany: redelivers failures of a disabled stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withFailures(fixture, 3);
    await disable(fixture, stream);
    const { redeliverMany } = fixture.store.deliveries;
    assert.equal(await redeliverMany(fixture.tenant, stream.id, {}), 3);
    assert.equal((await claimDue(fixture, owned)).rows.length, 3);
  });
}

function testContract(engine: Engine): void {
  const testEvent = { id: 'evt_test', type: 'order.paid', time: start, body: '{"a":"ä"}' };
  const asDelivered = { ...testEvent, offset: undefined };

  test('addTest: a test is due now and never enters the log', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ types: ['a.a'] });
    const owned = await fixture.own(stream);
    fixture.hints.length = 0;
    const { addTest } = fixture.store.deliveries;
    assert.equal(await addTest(fixture.tenant, stream.id, testEvent), 'accepted');
    assert.deepEqual(fixture.hints, [
      { kind: 'stream', tenant: fixture.tenant, stream: stream.id },
    ]);
    assert.equal(await fixture.store.log.head(fixture.tenant), 0);
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(rows, [{ event: asDelivered, kind: 'test', state: 'parked', attempt: 1 }]);
  });

  test('addTest: a failed test is a failure like any other, and can be redelivered', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, testEvent);
    await claimDue(fixture, owned);
    const ofTest = { kind: 'test', hasRow: true } as const;
    await fixture.settle(owned, {
      outcomes: [retry(asDelivered, { ...ofTest, delayMs: later - start })],
    });
    await fixture.settle(owned, { outcomes: [failed(asDelivered, { ...ofTest, attempt: 2 })] });
    const [failure] = await failuresOf(fixture, stream);
    assert.deepEqual(failure?.event, asDelivered);
    assert.equal(failure?.attempts.length, 2);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, testEvent.id);
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(rows[0]?.event, asDelivered);
    await fixture.settle(owned, { outcomes: [delivered(asDelivered, again)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
  });

  test('addTest: refuses a disabled and an unknown stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ status: 'disabled' });
    const { addTest } = fixture.store.deliveries;
    assert.equal(await addTest(fixture.tenant, stream.id, testEvent), 'disabled');
    assert.equal(await addTest(fixture.tenant, 'est_unknown', testEvent), 'unknown');
    assert.deepEqual(await failuresOf(fixture, stream), []);
  });

  test('addTest: the id of a test stays free in the log', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, testEvent);
    const events = [{ ...testEvent, chosen: true }];
    const [appended] = await fixture.store.log.append(fixture.tenant, events);
    assert.deepEqual(appended, { id: testEvent.id, offset: 1, repeated: false });
  });
}

function claimContract(engine: Engine): void {
  test('claimDue: returns the oldest due rows first, as many as requested, and when the next is due', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one, two, three, four] = await fixture.publish(...Array(4).fill('user.created'));
    assert.ok(one && two && three && four);
    await fixture.settle(owned, {
      outcomes: [
        retry(one, { delayMs: 3000 }),
        retry(two, { delayMs: 1000 }),
        retry(three, { delayMs: 2000 }),
        retry(four, { delayMs: 9000 }),
      ],
    });
    fixture.now = start + 3000;
    const first = await claimDue(fixture, owned, 2);
    assert.deepEqual([ids(first.rows), first.nextDueInMs], [[two.id, three.id], 0]);
    const second = await claimDue(fixture, owned, 2);
    assert.deepEqual([ids(second.rows), second.nextDueInMs], [[one.id], 6000]);
  });

  test('claimDue: a row of any kind that is due later than the longest wait is due now', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [ahead, inFlight, waits] = await fixture.publish(...Array(3).fill('user.created'));
    assert.ok(ahead && inFlight && waits);
    // The clock of the store was ahead by more than the longest wait, and is right again.
    const longestWaitMs = 20_000;
    fixture.now = start + 3_600_000;
    await fixture.settle(owned, { outcomes: [retry(ahead), parked(inFlight)] });
    const tested = newEvent();
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, tested);
    fixture.now = start;
    await fixture.settle(owned, { outcomes: [retry(waits)] });
    const { claimDue: claimRows } = fixture.store.deliveries;
    const request = {
      tenant: fixture.tenant,
      stream: stream.id,
      epoch: owned.epoch,
      take: 2,
      leaseMs: 15_000,
      longestWaitMs,
    };
    const refs = [{ tenant: fixture.tenant, stream: stream.id }];
    const node = await fixture.node();
    const [seen] = await fixture.store.ownership.owned(node, refs, { longestWaitMs });
    assert.equal(seen?.nextDueInMs, 0);
    const [first] = await claimRows([request]);
    const [second] = await claimRows([request]);
    assert.deepEqual([ids(first?.rows ?? []), first?.nextDueInMs], [[tested.id, ahead.id], 0]);
    assert.deepEqual([ids(second?.rows ?? []), second?.nextDueInMs], [[inFlight.id], 1000]);
    const [third] = await claimRows([request]);
    assert.deepEqual([third?.rows, third?.nextDueInMs], [[], 1000]);
  });

  test('claimDue: a retry is due by the end of its cycle, and is the last', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const late = { delayMs: 6000, cycleMaxMs: 10_000 };
    await fixture.settle(owned, { outcomes: [retry(event, late)] });
    assert.equal((await claimDue(fixture, owned)).nextDueInMs, 6000);
    fixture.now += 6000;
    assert.equal((await claimDue(fixture, owned)).rows.length, 1);
    await fixture.settle(owned, {
      outcomes: [retry(event, { ...late, attempt: 2, hasRow: true })],
    });
    assert.equal((await claimDue(fixture, owned)).nextDueInMs, 4000);
    fixture.now += 4000;
    assert.equal((await claimDue(fixture, owned)).rows.length, 1);
    await fixture.settle(owned, {
      outcomes: [retry(event, { ...late, attempt: 3, hasRow: true })],
    });
    assert.deepEqual(ids(await failuresOf(fixture, stream)), [event.id]);

    // A redelivery is a new cycle.
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    await claimDue(fixture, owned);
    await fixture.settle(owned, { outcomes: [retry(event, { ...late, ...again })] });
    assert.equal((await claimDue(fixture, owned)).nextDueInMs, 6000);
  });

  test('claimDue: finds rows that are due too late, however many others wait', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events = await fixture.publish(...Array(20).fill('user.created'));
    const [ahead, ...others] = events;
    assert.ok(ahead);
    fixture.now = start + 3_600_000;
    await fixture.settle(owned, { outcomes: [retry(ahead)] });
    fixture.now = start;
    await fixture.settle(owned, { outcomes: others.map((event) => retry(event)) });
    const request = { tenant: fixture.tenant, stream: stream.id, epoch: owned.epoch, take: 1 };
    const rules = { leaseMs: 15_000, longestWaitMs: 20_000 };
    const [result] = await fixture.store.deliveries.claimDue([{ ...request, ...rules }]);
    assert.deepEqual([ids(result?.rows ?? []), result?.nextDueInMs], [[ahead.id], 1000]);
  });

  test('claimDue: a claimed row is due again when its lease has ended, with the same attempt', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [retry(event, { delayMs: 0 })] });
    assert.equal((await claimDue(fixture, owned)).rows.length, 1);
    const meanwhile = await claimDue(fixture, owned);
    assert.deepEqual([meanwhile.rows, meanwhile.nextDueInMs], [[], 15_000]);
    fixture.now = start + 15_000;
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(
      rows.map(({ attempt, kind }) => [attempt, kind]),
      [[2, 'first']],
    );
  });

  test('claimDue: returns nothing for a stream of another owner or epoch', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withFailures(fixture, 1);
    await fixture.store.deliveries.redeliverMany(fixture.tenant, stream.id, {});
    const { epoch } = owned;
    for (const other of [epoch - 1, epoch + 1]) {
      assert.deepEqual((await claimDue(fixture, { ...owned, epoch: other })).rows, []);
    }
    await fixture.store.ownership.release(await fixture.node(), [raiseOf(owned)]);
    assert.deepEqual((await claimDue(fixture, owned)).rows, []);
  });

  test('claimDue: returns one result per stream, in the order of the request', async (t) => {
    const fixture = await createFixture(engine, t);
    const one = await withFailures(fixture, 2);
    const two = await withFailures(fixture, 1, 'b.b');
    for (const { stream } of [one, two]) {
      await fixture.store.deliveries.redeliverMany(fixture.tenant, stream.id, {});
    }
    const requests = [two, one].map(({ stream, owned }) => ({
      tenant: fixture.tenant,
      stream: stream.id,
      epoch: owned.epoch,
      take: 10,
      ...dueRules,
    }));
    const results = await fixture.store.deliveries.claimDue(requests);
    assert.deepEqual(
      results.map((result) => [result.stream, result.rows.length]),
      [
        [two.stream.id, 1],
        [one.stream.id, 2],
      ],
    );
  });

  test('claimDue: returns only redeliveries of a disabled stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withFailures(fixture, 1);
    const [inFlight] = await fixture.publish('user.created');
    assert.ok(inFlight);
    await fixture.settle(owned, { outcomes: [parked(inFlight)] });
    await disable(fixture, stream);
    await fixture.store.deliveries.redeliverMany(fixture.tenant, stream.id, {});
    fixture.now = later;
    const { rows, nextDueInMs } = await claimDue(fixture, owned);
    assert.deepEqual([ids(rows), nextDueInMs], [idsOf(events), undefined]);
  });
}

function pruneContract(engine: Engine): void {
  const redeliver = (fixture: Fixture, stream: Stream, event: LoggedEvent) =>
    fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);

  const dayMs = 86_400_000;
  /** Two days after `start`. */
  const daysLater = start + 2 * dayMs;

  /** Runs steps until they do nothing, after an event from which ages are measured. */
  const prune = async (fixture: Fixture, olderThanMs = dayMs, take = 10): Promise<void> => {
    fixture.now = daysLater;
    await fixture.publish('a.a');
    while ((await fixture.store.deliveries.pruneAttempts({ olderThanMs, take })) > 0);
  };
  const release = async (fixture: Fixture): Promise<void> => {
    while ((await fixture.store.upkeep.releaseKept({ take: 100 })) > 0);
  };

  test('pruneAttempts: removes attempts of delivered events when their day is old', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events = await fixture.publish('user.created', 'user.created', 'user.created');
    const [first, , young] = events;
    assert.ok(first && young);
    const outcomes = events.map((event) =>
      delivered(event, event === young ? { agoMs: start - daysLater } : {}),
    );
    await fixture.settle(owned, { outcomes });
    await prune(fixture, 3 * dayMs);
    assert.equal(await redeliver(fixture, stream, first), 'delivered');
    await prune(fixture);
    assert.equal(await redeliver(fixture, stream, young), 'delivered');
    assert.equal(await redeliver(fixture, stream, first), 'unknown');
  });

  test('pruneAttempts: keeps attempts until their whole day is old', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [delivered(event)] });
    const hourMs = dayMs / 24;
    await prune(fixture, daysLater - start - hourMs);
    assert.equal(await redeliver(fixture, stream, event), 'delivered');
    await prune(fixture, daysLater - start - dayMs);
    assert.equal(await redeliver(fixture, stream, event), 'unknown');
  });

  test('pruneAttempts: a clock that is ahead of the newest event removes nothing early', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [delivered(event)], cursor: event.offset });
    // By the clock all of it is months old.
    const query = { olderThanMs: dayMs, take: 10 };
    assert.equal(await fixture.store.log.prune(fixture.tenant, query), 0);
    while ((await fixture.store.deliveries.pruneAttempts(query)) > 0);
    assert.equal(await redeliver(fixture, stream, event), 'delivered');
  });

  test('pruneAttempts: open failures keep their attempts, even when their events are pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await withFailures(fixture, 2);
    await fixture.settle(owned, { cursor: 2 });
    await prune(fixture);
    await fixture.settle(owned, { cursor: 3 });
    assert.equal(
      await fixture.store.log.prune(fixture.tenant, { olderThanMs: dayMs, take: 10 }),
      2,
    );
    while ((await fixture.store.upkeep.dropEvents({ olderThanMs: dayMs, take: 1 })) > 0);
    await release(fixture);
    for (const failure of await failuresOf(fixture, stream)) {
      assert.equal(failure.attempts.length, 1);
      assert.ok(events.some(({ body }) => body === failure.event.body));
    }
    const [event] = events;
    assert.ok(event);
    await redeliver(fixture, stream, event);
    assert.deepEqual(
      (await claimDue(fixture, owned)).rows.map((row) => row.event.body),
      [event.body],
    );
    await fixture.settle(owned, { outcomes: [delivered(event, again)] });
    assert.equal(await redeliver(fixture, stream, event), 'unknown', 'the log does not know it');
    await release(fixture);
    const [other] = await failuresOf(fixture, stream);
    assert.equal(other?.attempts.length, 1, 'what the other failure needs stays');
  });

  test('pruneAttempts: an event that many streams need is kept until the last of them has it', async (t) => {
    const fixture = await createFixture(engine, t);
    const streams = [
      await fixture.addStream(),
      await fixture.addStream({ id: 'est_2', name: 'two' }),
    ];
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const [stream] = streams;
    assert.ok(stream);
    await fixture.own(stream);
    const others = await fixture.store.ownership.owned(
      await fixture.node(),
      streams.map(({ tenant, id }) => ({ tenant, stream: id })),
      waitRule,
    );
    for (const own of others) await fixture.settle(own, { cursor: 1, outcomes: [failed(event)] });
    await prune(fixture);
    for (const own of others) await fixture.settle(own, { cursor: 2 });
    assert.equal(
      await fixture.store.log.prune(fixture.tenant, { olderThanMs: dayMs, take: 10 }),
      1,
    );
    while ((await fixture.store.upkeep.dropEvents({ olderThanMs: dayMs, take: 10 })) > 0);
    for (const own of others) {
      await release(fixture);
      await fixture.store.deliveries.redeliver(fixture.tenant, own.stream.id, event.id);
      const { rows } = await claimDue(fixture, own);
      assert.deepEqual(
        rows.map((row) => row.event.body),
        [event.body],
      );
      await fixture.settle(own, { outcomes: [delivered(event, again)] });
    }
    await release(fixture);
    const [repeated] = await fixture.store.log.append(fixture.tenant, [{ ...event, chosen: true }]);
    assert.equal(repeated?.repeated, false, 'its id is free again');
  });

  test('pruneAttempts: a failed test keeps its attempts', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const testEvent = { id: 'evt_test', type: 'a.b', time: start, body: '{}' };
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, testEvent);
    await disable(fixture, stream);
    await prune(fixture);
    await release(fixture);
    assert.equal((await failuresOf(fixture, stream))[0]?.attempts.length, 1);
  });

  test('pruneAttempts: reaches old attempts after many that must stay', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await withFailures(fixture, 30);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [delivered(event)] });
    await prune(fixture, dayMs, 2);
    assert.equal(await redeliver(fixture, stream, event), 'unknown');
    const failures = await failuresOf(fixture, stream);
    assert.deepEqual(new Set(failures.map(({ attempts }) => attempts.length)), new Set([1]));
  });
}
