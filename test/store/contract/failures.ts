import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Attempt, DeliveredEvent, Stream } from '../../../src/core/types.ts';
import type { ListQuery } from '../../../src/store/port/failures.ts';
import type { Engine } from './engine.ts';
import { dismissFailures } from './failure-work.ts';
import {
  addTenant,
  createFixture,
  delivered,
  failed,
  type Fixture,
  newEvent,
  retry,
  start,
  waitRule,
} from './fixture.ts';

/** Defines the tests of the failures of all streams. */
export function failuresContract(engine: Engine): void {
  describe(`${engine.name}: failures.groups`, () => groupsContract(engine));
  describe(`${engine.name}: failures.list`, { tags: engine.sharedTags }, () =>
    listContract(engine),
  );
}

/** Creates a stream whose events fail with these results, a millisecond between two. */
async function failing(
  fixture: Fixture,
  errors: readonly (string | number)[],
  type = 'user.created',
) {
  const stream = await fixture.addStream({ types: [type] });
  const owned = await fixture.own(stream);
  const events = await fixture.publish(...errors.map(() => type));
  for (const [index, event] of events.entries()) {
    const error = errors[index] ?? '';
    const result =
      typeof error === 'number'
        ? { status: error, error: `${error} - no` }
        : { status: undefined, error };
    await fixture.settle(owned, { cursor: event.offset, outcomes: [failed(event, result)] });
    fixture.now += 1;
  }
  return { stream, owned, events };
}

const everything = { after: undefined, take: 100 };

async function groupsOf(fixture: Fixture, query: object = {}) {
  const { items } = await fixture.store.failures.groups(fixture.tenant, {
    ...everything,
    ...query,
  });
  return items.map(({ stream, code, count }) => [stream, code, count]);
}

function groupsContract(engine: Engine): void {
  test('groups: by stream and code, largest first, with times, a sample and the total', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events } = await failing(fixture, [
      503,
      'timeout: none',
      503,
      'timeout: late',
      503,
    ]);
    const other = await failing(fixture, [404, 404]);
    const { items, total, next, now } = await fixture.store.failures.groups(
      fixture.tenant,
      everything,
    );
    assert.deepEqual([total, next, now > start], [3, undefined, true]);
    assert.deepEqual(
      items.map(({ stream: id, code, count }) => [id, code, count]),
      [
        [stream.id, 'http_503', 3],
        ...[
          [stream.id, 'timeout', 2],
          [other.stream.id, 'http_404', 2],
        ].toSorted(([one = ''], [two = '']) => (one < two ? -1 : 1)),
      ],
    );
    const [largest] = items;
    assert.deepEqual([largest?.firstFailedAt, largest?.lastFailedAt], [start, start + 4]);
    const sample = { eventId: events[4]?.id, eventType: 'user.created', error: '503 - no' };
    assert.deepEqual(largest?.sample, sample);
  });

  test('groups: a redelivery that fails otherwise moves to another group, a success leaves', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await failing(fixture, [503, 503]);
    const [one, two] = events;
    assert.ok(one && two);
    const again = { kind: 'redelivery', hasRow: true } as const;
    await fixture.store.deliveries.redeliverMany(fixture.tenant, stream.id, {});
    assert.deepEqual(await groupsOf(fixture), [[stream.id, 'http_503', 2]]);
    const otherwise = { ...again, status: undefined, error: 'dns: unknown' };
    await fixture.settle(owned, { outcomes: [failed(one, otherwise), delivered(two, again)] });
    assert.deepEqual(await groupsOf(fixture), [[stream.id, 'dns', 1]]);
  });

  test('groups: the last attempt is that of a redelivery that failed again; its failure is the sample', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await failing(fixture, [503, 503, 503]);
    const [one, two] = events;
    const newest = events.at(-1);
    assert.ok(one && two && newest);
    const group = async () => {
      const { items } = await fixture.store.failures.groups(fixture.tenant, everything);
      const { firstFailedAt, lastFailedAt, lastAttemptAt, sample } = items[0] ?? {};
      return [firstFailedAt, lastFailedAt, lastAttemptAt, sample?.eventId, sample?.error];
    };
    const opened = [start, start + 2];
    assert.deepEqual(await group(), [...opened, start + 2, newest.id, '503 - no']);
    await fixture.store.deliveries.redeliverMany(fixture.tenant, stream.id, {});
    fixture.now = start + 5000;
    const again = { kind: 'redelivery', hasRow: true, error: '503 - still' } as const;
    await fixture.settle(owned, { outcomes: [retry(two, again)] });
    assert.deepEqual(await group(), [...opened, start + 5000, two.id, '503 - still']);
    fixture.now = start + 6000;
    await fixture.settle(owned, { outcomes: [failed(one, again), failed(two, again)] });
    assert.deepEqual(await group(), [...opened, start + 6000, two.id, '503 - still']);
    // The sample is closed; what was attempted last stays known.
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, two.id);
    await fixture.settle(owned, { outcomes: [delivered(two, again)] });
    assert.deepEqual(await group(), [...opened, start + 6000, newest.id, '503 - no']);
    const { stream: other } = await failing(fixture, ['dns', 'dns', 'dns', 'dns'], 'user.deleted');
    fixture.now = start + 7000;
    await fixture.settle(owned, { outcomes: [failed(one, again)] });
    const sorted = async (sort?: '-last_attempt_at') => {
      const query = { after: undefined, take: 1, sort };
      const page = await fixture.store.failures.groups(fixture.tenant, query);
      const rest = { ...query, after: page.next };
      const { items } = await fixture.store.failures.groups(fixture.tenant, rest);
      return [...page.items, ...items].map(({ stream: id }) => id);
    };
    assert.deepEqual(await sorted(), [other.id, stream.id]);
    assert.deepEqual(await sorted('-last_attempt_at'), [stream.id, other.id]);
  });

  test('groups: disabling, dismissing and deleting a stream change them', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned } = await failing(fixture, [503]);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { cursor: event.offset, outcomes: [retry(event)] });
    await store.streams.update(tenant, stream.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    assert.deepEqual(await groupsOf(fixture), [
      [stream.id, 'http_503', 1],
      [stream.id, 'stream_disabled', 1],
    ]);
    await dismissFailures(store, tenant, stream.id, { codes: ['http_5xx'] });
    assert.deepEqual(await groupsOf(fixture), [[stream.id, 'stream_disabled', 1]]);
    await store.streams.delete(tenant, stream.id);
    assert.deepEqual(await groupsOf(fixture), []);
  });

  test('groups: filters by streams and codes with classes, pages, and tenants apart', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const one = await failing(fixture, [503, 500, 404, 'tls: expired']);
    const two = await failing(fixture, [503]);
    const other = await addTenant(store, 'other');
    assert.equal((await store.failures.groups(other.id, everything)).total, 0);
    const codes = async (query: object) => (await groupsOf(fixture, query)).map(([, code]) => code);
    assert.deepEqual(await codes({ streams: [two.stream.id] }), ['http_503']);
    assert.deepEqual(await codes({ streams: [one.stream.id], codes: ['http_5xx', 'tls'] }), [
      'http_500',
      'http_503',
      'tls',
    ]);
    const seen: unknown[] = [];
    let after: string | undefined;
    do {
      const page = await store.failures.groups(tenant, { after, take: 2 });
      assert.equal(page.total, 5);
      seen.push(...page.items.map(({ stream, code }) => `${stream} ${code}`));
      after = page.next;
    } while (after !== undefined);
    assert.equal(new Set(seen).size, 5);
    assert.equal(seen.length, 5);
  });

  test('groups: of more than two thousand the largest come first, and all are counted', async (t) => {
    const fixture = await createFixture(engine, t);
    const groups: string[] = [];
    for (let index = 0; index < 6; index += 1) {
      const stream = await fixture.addStream();
      const owned = await fixture.own(stream);
      const events = await fixture.publish(...Array<string>(401 + index).fill('user.created'));
      const outcomes = events.map((event, nth) =>
        failed(event, { status: Math.min(100 + nth, 500), error: 'no' }),
      );
      await fixture.settle(owned, { cursor: events.at(-1)?.offset ?? 0, outcomes });
      groups.unshift(`${stream.id} ${index + 1}`);
    }
    const { items, total, next } = await fixture.store.failures.groups(fixture.tenant, {
      after: undefined,
      take: 5,
    });
    assert.equal(total, 6 * 401);
    assert.deepEqual(
      items.map(({ stream, count }) => `${stream} ${count}`),
      groups.slice(0, 5),
    );
    const rest = await fixture.store.failures.groups(fixture.tenant, { after: next, take: 5 });
    assert.deepEqual([rest.total, rest.items.length], [6 * 401, 5]);
    assert.ok(rest.items.every(({ count }) => count === 1));
  });
}

function listContract(engine: Engine): void {
  const query: ListQuery = { ...everything, statuses: ['failed'], bytesMax: 1_000_000 };
  const idsOf = async (fixture: Fixture, changes: Partial<ListQuery> = {}) => {
    const { items } = await fixture.store.failures.list(fixture.tenant, { ...query, ...changes });
    return items.map(({ event }) => event.id);
  };

  test('list: failures of all streams, newest first, with code, history and event', async (t) => {
    const fixture = await createFixture(engine, t);
    const one = await failing(fixture, [503, 'timeout: none']);
    const two = await failing(fixture, [404]);
    const { items, next } = await fixture.store.failures.list(fixture.tenant, query);
    assert.equal(next, undefined);
    assert.deepEqual(
      items.map(({ stream, event, code, failedAt, nextAttemptAt, attempts }) => ({
        stream,
        body: event.body,
        code,
        failedAt,
        nextAttemptAt,
        errors: attempts.map(({ error }) => error),
      })),
      [
        { ...two, code: 'http_404', at: 2, errors: ['404 - no'], index: 0 },
        { ...one, code: 'timeout', at: 1, errors: ['timeout: none'], index: 1 },
        { ...one, code: 'http_503', at: 0, errors: ['503 - no'], index: 0 },
      ].map(({ stream, events, code, at, errors, index }) => ({
        stream: stream.id,
        body: events[index]?.body,
        code,
        failedAt: start + at,
        nextAttemptAt: undefined,
        errors,
      })),
    );
  });

  test('list: streams, codes, types, times of failures and events select together', async (t) => {
    const fixture = await createFixture(engine, t);
    const one = await failing(fixture, [503, 500, 'timeout: none']);
    const two = await failing(fixture, [503], 'order.paid');
    const [first, second, third] = one.events.map(({ id }) => id);
    const [other] = two.events.map(({ id }) => id);
    assert.deepEqual(await idsOf(fixture, { streams: [two.stream.id] }), [other]);
    assert.deepEqual(await idsOf(fixture, { codes: ['http_5xx'] }), [other, second, first]);
    assert.deepEqual(await idsOf(fixture, { codes: ['http_503', 'timeout'] }), [
      other,
      third,
      first,
    ]);
    assert.deepEqual(await idsOf(fixture, { types: ['order.paid'] }), [other]);
    const window = { failedFrom: start + 1, failedTo: start + 3 };
    assert.deepEqual(await idsOf(fixture, window), [third, second]);
    assert.deepEqual(await idsOf(fixture, { ...window, codes: ['timeout'] }), [third]);
    assert.deepEqual(await idsOf(fixture, { to: start }), []);
    assert.deepEqual(await idsOf(fixture, { streams: [] }), []);
  });

  test('list: failures outside of the times do not use up what a request reads', async (t) => {
    const fixture = await createFixture(engine, t);
    const { events, owned } = await failing(fixture, [503, 404]);
    const later = await fixture.publish(...Array<string>(5000).fill('user.created'));
    const outcomes = later.map((event) => failed(event));
    await fixture.settle(owned, { cursor: later.at(-1)?.offset ?? 0, outcomes });
    const [first, second] = events.map(({ id }) => id);
    assert.deepEqual(await idsOf(fixture, { failedTo: start + 2 }), [second, first]);
    assert.deepEqual(await idsOf(fixture, { failedTo: start + 1 }), [first]);
    fixture.now += 1;
    const [newest] = await fixture.publish('user.created');
    assert.ok(newest);
    await fixture.settle(owned, { cursor: newest.offset, outcomes: [failed(newest)] });
    const page = { ...query, failedFrom: fixture.now };
    const { items, next } = await fixture.store.failures.list(fixture.tenant, page);
    assert.deepEqual([items.map(({ event }) => event.id), next], [[newest.id], undefined]);
  });

  test('list: a filter that few failures match finds each once, and one page reads 5,000', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await fixture.own(await fixture.addStream());
    const events = await fixture.publish(...Array<string>(5600).fill('user.created'));
    const newestFirst = events.toReversed();
    const wanted = [0, 499, 500, 4999, 5000, 5599].map((index) => newestFirst[index]);
    const outcomes = events.map((event) =>
      failed(event, wanted.includes(event) ? { status: undefined, error: 'dns: unknown' } : {}),
    );
    await fixture.settle(owned, { cursor: events.at(-1)?.offset ?? 0, outcomes });
    for (const { take, pages } of [
      { take: 100, pages: [4, 2] },
      { take: 4, pages: [4, 2] },
      { take: 3, pages: [3, 2, 1] },
      { take: 2, pages: [2, 2, 2] },
      { take: 1, pages: [1, 1, 1, 1, 1, 1] },
    ]) {
      const seen: string[][] = [];
      let after: string | undefined;
      do {
        const dns = { ...query, codes: ['dns'], take, after };
        const page = await fixture.store.failures.list(fixture.tenant, dns);
        seen.push(page.items.map(({ event }) => event.id));
        after = page.next;
      } while (after !== undefined);
      assert.deepEqual(
        seen.flat(),
        wanted.map((event) => event?.id),
      );
      assert.deepEqual(
        seen.map(({ length }) => length),
        pages,
        `${take} at a time`,
      );
    }
  });

  test('list: what waits for a retry, and failures under redelivery, with the next attempt', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await failing(fixture, [503]);
    const [open] = events;
    const [waits] = await fixture.publish('user.created');
    assert.ok(open && waits);
    await fixture.settle(owned, {
      cursor: waits.offset,
      outcomes: [retry(waits, { delayMs: 60_000 })],
    });
    assert.deepEqual(await idsOf(fixture), [open.id]);
    assert.deepEqual(await idsOf(fixture, { statuses: ['retrying'] }), [waits.id]);
    const both = { ...query, statuses: ['retrying', 'failed'] } as const;
    await store.deliveries.redeliver(tenant, stream.id, open.id);
    const next = async () =>
      (await store.failures.list(tenant, both)).items.map((item) => [
        item.event.id,
        item.failedAt,
        item.nextAttemptAt,
      ]);
    assert.deepEqual(await next(), [
      [waits.id, undefined, fixture.now + 60_000],
      [open.id, start, fixture.now],
    ]);
    const pause = (before: Stream) => ({ after: { ...before, paused: { at: 0 } } });
    await store.streams.update(tenant, stream.id, pause);
    assert.deepEqual(await next(), [
      [waits.id, undefined, undefined],
      [open.id, start, fixture.now],
    ]);
  });

  test('list: health and event log name the next attempt of the same deliveries, and these are claimed', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await failing(fixture, [503]);
    const [open] = events;
    const [first] = await fixture.publish('user.created');
    assert.ok(open && first);
    const { streams, deliveries, failures, eventLog } = store;
    await fixture.settle(owned, { outcomes: [retry(first, { delayMs: 3000 })] });
    const tried = newEvent({ type: 'user.created' });
    await deliveries.addTest(tenant, stream.id, tried);
    const testEvent = { ...tried, offset: undefined };
    const asTest = { kind: 'test', hasRow: true, delayMs: 2000 } as const;
    await fixture.settle(owned, { outcomes: [retry(testEvent, asTest)] });
    await deliveries.redeliver(tenant, stream.id, open.id);
    const again = { kind: 'redelivery', hasRow: true, delayMs: 4000 } as const;
    await fixture.settle(owned, { outcomes: [retry(open, again)] });
    const at = { [tried.id]: fixture.now + 2000, [first.id]: fixture.now + 3000 };
    const all = { ...at, [open.id]: fixture.now + 4000 };
    const check = async (expected: Readonly<Record<string, number>>) => {
      const due = Object.entries(all).map(([id]) => [id, expected[id]] as const);
      const both = { ...query, statuses: ['retrying', 'failed'] } as const;
      const { items } = await failures.list(tenant, both);
      const listed = items.map(({ event, nextAttemptAt }) => [event.id, nextAttemptAt] as const);
      assert.deepEqual(new Map(listed), new Map(due));
      for (const [id, nextAttemptAt] of due) {
        const event = await eventLog.find(tenant, id);
        assert.ok(event);
        const {
          items: [found],
        } = await eventLog.deliveries(tenant, event, everything);
        assert.equal(found?.nextAttemptAt, nextAttemptAt, id);
      }
      const facts = await streams.facts(tenant, stream.id);
      assert.equal(facts?.nextDueAt, Math.min(...Object.values(expected)));
    };
    const change = async (to: Partial<Stream>) => {
      const decide = (before: Stream) => ({ after: { ...before, ...to } });
      assert.ok('updated' in (await streams.update(tenant, stream.id, decide)));
    };
    await check(all);
    await change({ paused: { at: 0 } });
    await check({ [tried.id]: all[tried.id] ?? 0, [open.id]: all[open.id] ?? 0 });
    const rule = { ...waitRule, leaseMs: 15_000 };
    fixture.now += 5000;
    const request = { tenant, stream: stream.id, epoch: owned.epoch, take: 10, ...rule };
    const [claimed] = await deliveries.claimDue([request]);
    assert.deepEqual(
      claimed?.rows.map(({ event }) => event.id),
      [tried.id, open.id],
    );
  });

  test('list: pages have every failure once, also those of one instant and large ones', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events = await fixture.publish(...Array<string>(40).fill('user.created'));
    const cursor = events.at(-1)?.offset ?? 0;
    await fixture.settle(owned, { cursor, outcomes: events.map((event) => failed(event)) });
    for (const limits of [{ take: 7 }, { take: 100, bytesMax: 10_000 }]) {
      const seen: string[] = [];
      let after: string | undefined;
      do {
        const page = await store.failures.list(tenant, { ...query, ...limits, after });
        assert.ok(page.items.length > 0 && page.items.length < 20);
        seen.push(...page.items.map(({ event }) => event.id));
        after = page.next;
      } while (after !== undefined);
      assert.deepEqual(seen.toSorted(), events.map(({ id }) => id).toSorted());
      assert.deepEqual(seen, seen.toSorted().toReversed());
    }
  });

  test('list, listFailures: a page of some MiB with events of two days is complete', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events: DeliveredEvent[] = [];
    for (let index = 0; index < 24; index += 1) {
      fixture.now += index === 12 ? 86_400_000 : 1;
      const event = newEvent({ body: JSON.stringify({ index, text: 'x'.repeat(200_000) }) });
      const [appended] = await store.log.append(tenant, [event]);
      const { id, type, time, body } = event;
      const { now: publishedAt } = fixture;
      const sent = { id, type, time, body, offset: appended?.offset, publishedAt };
      events.unshift(sent);
      const error = `${index} ${'x'.repeat(100_000)}`;
      await fixture.settle(owned, { outcomes: [failed(sent, { error })] });
    }
    const limits = { after: undefined, take: 100, bytesMax: 16_000_000 };
    for (const page of [
      await store.failures.list(tenant, { ...query, ...limits }),
      await store.deliveries.listFailures(tenant, stream.id, limits),
    ]) {
      assert.deepEqual(
        page.items.map(({ event, attempts }) => [event.body, attempts.map(numberOf)]),
        events.map(({ body }, index) => [body, [23 - index]]),
      );
      assert.equal(page.next, undefined);
    }
  });
}

/** Returns the number at the beginning of the error of an attempt. */
function numberOf({ error }: Attempt): number {
  return Number.parseInt(error ?? '', 10);
}
