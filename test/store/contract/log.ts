import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreContentRefused, StoreEventIdInUse } from '../../../src/core/errors.ts';
import type { LogEvent } from '../../../src/core/types.ts';
import { blockOf } from '../../../src/core/tenant-blocks.ts';
import type { Engine } from './engine.ts';
import {
  addTenant,
  createFixture,
  failed,
  newEvent,
  newId,
  retry,
  start,
  type Fixture,
  dueRules,
} from './fixture.ts';

/** Returns the check of the refusal of an event by its index. */
const isInUseAt = (index: number) => (error: unknown) =>
  error instanceof StoreEventIdInUse && error.index === index;

const everything = { after: 0, take: 1000, bytesMax: Infinity };

export function logContract(engine: Engine): void {
  describe(`${engine.name}: log.append`, () => appendContract(engine));
  describe(`${engine.name}: log.append of chosen ids`, () => chosenContract(engine));
  describe(`${engine.name}: log.page`, () => pageContract(engine));
  describe(`${engine.name}: log.firstSince`, () => firstSinceContract(engine));
  describe(`${engine.name}: log.prune`, () => pruneContract(engine));
}

const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

/** Content that no engine stores: a field that must be text is none. */
const broken = { ...newEvent(), type: null as unknown as string };

function appendContract(engine: Engine): void {
  test('append: offsets are 1, 2, 3, … in the order of the events', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const events = [newEvent(), newEvent(), newEvent()];
    const appended = await store.log.append(tenant, events);
    assert.deepEqual(
      appended,
      events.map(({ id }, index) => ({ id, offset: index + 1, repeated: false })),
    );
    assert.equal(await store.log.head(tenant), 3);
  });

  test('append: events are read as they were written', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const body = JSON.stringify({ text: 'ä𝄞  "\\ 1.10' });
    const event = newEvent({ type: 'order.paid', time: start - 5000, body });
    await store.log.append(tenant, [event]);
    const { events } = await store.log.page(tenant, everything);
    const { chosen, ...written } = event;
    assert.equal(chosen, false);
    assert.deepEqual(events, [{ ...written, offset: 1, publishedAt: start }]);
  });

  test('append: the trace of an event is in its hint and in pages', async (t) => {
    const { store, tenant, hints } = await createFixture(engine, t);
    const events = [newEvent(), newEvent({ trace }), newEvent()];
    await store.log.append(tenant, events);
    const { events: read } = await store.log.page(tenant, everything);
    assert.deepEqual(
      read.map((event) => event.trace),
      [undefined, trace, undefined],
    );
    assert.deepEqual(
      hints.flatMap((hint) => (hint.kind === 'appended' ? hint.events : [])),
      read,
    );
  });

  test('append: each tenant has its own offsets', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const other = await addTenant(store, 'other');
    await store.log.append(tenant, [newEvent(), newEvent()]);
    const [first] = await store.log.append(other.id, [newEvent()]);
    assert.equal(first?.offset, 1);
    assert.equal(await store.log.head(other.id), 1);
    const tenants = [other.id, 999, tenant];
    assert.deepEqual(await store.log.heads(tenants), [1, 0, await store.log.head(tenant)]);
    // So many that an engine reads them with another statement.
    const many = Array.from({ length: 200 }, (_, index) => tenants[index] ?? 1000 + index);
    assert.deepEqual((await store.log.heads(many)).slice(0, 3), await store.log.heads(tenants));
    assert.deepEqual(await store.log.heads([]), []);
    assert.equal((await store.log.page(other.id, everything)).events.length, 1);
  });

  test('headMarks: names each block of tenants, and changes with any of its heads', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const before = await store.log.headMarks();
    assert.deepEqual([...before.keys()], [blockOf(tenant)]);
    assert.deepEqual(await store.log.headMarks(), before);
    await store.log.append(tenant, [newEvent()]);
    const appended = await store.log.headMarks();
    assert.notEqual(appended.get(blockOf(tenant)), before.get(blockOf(tenant)));
    const other = await addTenant(store, 'other');
    const added = await store.log.headMarks();
    assert.notEqual(added.get(blockOf(other.id)), appended.get(blockOf(other.id)));
  });

  test('headMarks: the removal of a tenant does not hide an append to another one', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const leaving = await addTenant(store, 'leaving');
    assert.equal(blockOf(leaving.id), blockOf(tenant));
    await store.log.append(leaving.id, [newEvent()]);
    const before = await store.log.headMarks();
    await store.tenants.leave(leaving.id);
    await store.log.append(tenant, [newEvent()]);
    const added = await addTenant(store, 'added');
    assert.equal(blockOf(added.id), blockOf(tenant));
    const after = await store.log.headMarks();
    assert.notEqual(after.get(blockOf(tenant)), before.get(blockOf(tenant)));
  });

  test('head: 0 for an empty log and for an unknown tenant', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    assert.equal(await store.log.head(tenant), 0);
    assert.equal(await store.log.head(99), 0);
  });

  test('append: the time of acceptance never falls along the log', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    for (const now of [start, start - 60_000, start + 1]) {
      fixture.now = now;
      await store.log.append(tenant, [newEvent()]);
    }
    const { events } = await store.log.page(tenant, everything);
    assert.deepEqual(
      events.map((event) => event.publishedAt),
      [start, start, start + 1],
    );
  });

  test('append: an empty append changes nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    assert.deepEqual(await fixture.store.log.append(fixture.tenant, []), []);
    assert.deepEqual(fixture.hints, []);
  });

  test('append: a refused append writes nothing and uses no offsets', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await assert.rejects(
      store.log.append(tenant, [newEvent(), newEvent(), broken]),
      StoreContentRefused,
    );
    assert.deepEqual((await store.log.page(tenant, everything)).events, []);
    const [next] = await store.log.append(tenant, [newEvent()]);
    assert.equal(next?.offset, 1);
  });

  test('append: refuses a generated id that exists already', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const event = newEvent();
    await store.log.append(tenant, [event]);
    await assert.rejects(store.log.append(tenant, [event]), StoreContentRefused);
    assert.equal(await store.log.head(tenant), 1);
  });

  test('append: refuses an unknown tenant', async (t) => {
    const { store } = await createFixture(engine, t);
    await assert.rejects(store.log.append(99, [newEvent()]), StoreContentRefused);
  });

  test('append: concurrent appends get separate ranges of offsets, without gaps', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const results = await Promise.all(
      Array.from({ length: 50 }, () => store.log.append(tenant, [newEvent(), newEvent()])),
    );
    const offsets = results.map((appended) => appended.map((one) => one.offset));
    for (const [one, other] of offsets) assert.equal(other, (one ?? 0) + 1);
    const sorted = offsets.flat().toSorted((one, other) => one - other);
    assert.deepEqual(
      sorted,
      Array.from({ length: 100 }, (_, index) => index + 1),
    );
  });

  test('append: a call with bad content does not affect the others of its commit', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const results = await Promise.allSettled([
      store.log.append(tenant, [newEvent()]),
      store.log.append(tenant, [newEvent(), broken]),
      store.log.append(tenant, [newEvent()]),
    ]);
    assert.deepEqual(
      results.map((result) => result.status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.equal(await store.log.head(tenant), 2);
  });

  test('watch: receives the events of each commit once, in offset order', async (t) => {
    const fixture = await createFixture(engine, t);
    await Promise.all([1, 2, 3].map(() => fixture.publish('user.created', 'user.deleted')));
    const received = fixture.hints.flatMap((hint) => (hint.kind === 'appended' ? hint.events : []));
    assert.deepEqual(received, (await fixture.store.log.page(fixture.tenant, everything)).events);
  });

  test('watch: the hint comes before the result', async (t) => {
    const fixture = await createFixture(engine, t);
    const order: string[] = [];
    fixture.store.watch(() => order.push('hint'));
    await fixture.store.log.append(fixture.tenant, [newEvent()]).then(() => order.push('result'));
    assert.deepEqual(order, ['hint', 'result']);
  });

  test('watch: receives no hint for a repeat', async (t) => {
    const fixture = await createFixture(engine, t);
    const event = newEvent({ chosen: true });
    await fixture.store.log.append(fixture.tenant, [event]);
    fixture.hints.length = 0;
    await fixture.store.log.append(fixture.tenant, [event]);
    assert.deepEqual(fixture.hints, []);
  });

  test('watch: receives nothing after it was stopped', async (t) => {
    const fixture = await createFixture(engine, t);
    let received = 0;
    const stop = fixture.store.watch(() => (received += 1));
    stop();
    await fixture.publish('user.created');
    assert.equal(received, 0);
  });
}

function chosenContract(engine: Engine): void {
  test('chosen ids: a repeat returns the first offset and writes nothing', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const event = newEvent({ chosen: true });
    await store.log.append(tenant, [newEvent(), event]);
    const changed = { ...event, type: 'other.type', body: '{"other":1}' };
    const [repeat] = await store.log.append(tenant, [changed]);
    assert.deepEqual(repeat, { id: event.id, offset: 2, repeated: true });
    const { events } = await store.log.page(tenant, everything);
    assert.equal(events.length, 2);
    assert.equal(events[1]?.body, event.body);
  });

  test('chosen ids: a repeat within one append takes no offset', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const [event, other] = [newEvent({ chosen: true }), newEvent()];
    const appended = await store.log.append(tenant, [event, event, other, event]);
    assert.deepEqual(
      appended.map(({ offset, repeated }) => [offset, repeated]),
      [
        [1, false],
        [1, true],
        [2, false],
        [1, true],
      ],
    );
    const { events } = await store.log.page(tenant, everything);
    assert.deepEqual(
      events.map(({ id, offset }) => [id, offset]),
      [
        [event.id, 1],
        [other.id, 2],
      ],
    );
  });

  test('chosen ids: exactly one of several concurrent appends of one id is the first', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const event = newEvent({ chosen: true });
    const results = await Promise.all(
      Array.from({ length: 10 }, () => store.log.append(tenant, [event])),
    );
    const all = results.flat();
    assert.deepEqual([...new Set(all.map((one) => one.offset))], [1]);
    assert.equal(all.filter((one) => !one.repeated).length, 1);
  });

  const [content, changedContent] = ['0'.repeat(32), 'f'.repeat(32)];

  test('chosen ids: another content is refused, and nothing of its append is stored', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const event = newEvent({ chosen: true, content });
    await store.log.append(tenant, [event]);
    const changed = { ...event, content: changedContent };
    await assert.rejects(store.log.append(tenant, [event, changed]), isInUseAt(1));
    await assert.rejects(store.log.append(tenant, [newEvent(), changed]), isInUseAt(1));
    const fresh = newEvent({ chosen: true, content });
    const twice = [fresh, fresh, { ...fresh, content: changedContent }];
    await assert.rejects(store.log.append(tenant, twice), isInUseAt(2));
    assert.equal(await store.log.head(tenant), 1);
    const [repeat] = await store.log.append(tenant, [event]);
    assert.deepEqual(repeat, { id: event.id, offset: 1, repeated: true });
  });

  test('chosen ids: an event without a known content counts as the same', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const [known, unknown] = [newEvent({ chosen: true, content }), newEvent({ chosen: true })];
    await store.log.append(tenant, [known, unknown]);
    const sent = [
      { ...known, content: undefined },
      { ...unknown, content },
    ];
    const repeats = await store.log.append(tenant, sent);
    assert.deepEqual(
      repeats.map(({ offset, repeated }) => [offset, repeated]),
      [
        [1, true],
        [2, true],
      ],
    );
  });

  test('chosen ids: of concurrent appends with other contents one is stored, the others of its commit as well', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const event = newEvent({ chosen: true, content });
    const others = [newEvent(), newEvent({ chosen: true, content })];
    const results = await Promise.allSettled([
      store.log.append(tenant, [event]),
      ...others.map((one) => store.log.append(tenant, [one])),
      store.log.append(tenant, [{ ...event, content: changedContent }]),
    ]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'fulfilled', 'fulfilled', 'rejected'],
    );
    assert.equal(await store.log.head(tenant), 3);
    assert.ok(results[3]?.status === 'rejected' && isInUseAt(0)(results[3].reason));
  });

  test('chosen ids: the same id in two tenants is two events', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const other = await addTenant(store, 'other');
    const event = newEvent({ chosen: true });
    await store.log.append(tenant, [event]);
    const [appended] = await store.log.append(other.id, [event]);
    assert.equal(appended?.repeated, false);
  });

  test('chosen ids: the id of a pruned event with an open failure is still known', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const event = newEvent({ chosen: true });
    await store.log.append(tenant, [newEvent(), event]);
    const owned = await fixture.own(stream);
    const inLog = { ...event, offset: 2 };
    await fixture.settle(owned, { cursor: 2, outcomes: [failed(inLog)] });
    assert.equal(await store.log.prune(tenant, { olderThanMs: -1, take: 10 }), 2);
    const [repeat] = await store.log.append(tenant, [event]);
    assert.deepEqual(repeat, { id: event.id, offset: 2, repeated: true });
  });

  test('chosen ids: the id of a pruned event that nothing needs is free again', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const event = newEvent({ chosen: true });
    await store.log.append(tenant, [event]);
    await store.log.prune(tenant, { olderThanMs: -1, take: 10 });
    fixture.now = start + 5;
    const [again] = await store.log.append(tenant, [event]);
    assert.deepEqual(again, { id: event.id, offset: 2, repeated: false });
  });
}

function pageContract(engine: Engine): void {
  const offsets = (events: readonly LogEvent[]) => events.map((event) => event.offset);

  test('page: returns events after the offset, oldest first', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('a.a', 'b.b', 'a.a', 'c.c');
    const page = await fixture.store.log.page(fixture.tenant, { ...everything, after: 1 });
    assert.deepEqual(offsets(page.events), [2, 3, 4]);
    assert.equal(page.scannedTo, 4);
  });

  test('page: returns only wanted types, and counts the others as scanned', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('a.a', 'b.b', 'a.a', 'c.c');
    const query = { ...everything, types: ['a.a', 'b.b', 'a.a'] };
    const page = await fixture.store.log.page(fixture.tenant, query);
    assert.deepEqual(offsets(page.events), [1, 2, 3]);
    assert.equal(page.scannedTo, 4);
    const none = await fixture.store.log.page(fixture.tenant, { ...everything, types: [] });
    assert.deepEqual([none.events, none.scannedTo], [[], 4]);
  });

  test('page: a full page returns where it stopped', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('a.a', 'b.b', 'a.a', 'a.a');
    const page = await fixture.store.log.page(fixture.tenant, {
      ...everything,
      types: ['a.a'],
      take: 2,
    });
    assert.deepEqual(offsets(page.events), [1, 3]);
    assert.equal(page.scannedTo, 3);
  });

  test('page: bounds the bodies, but returns at least one event', async (t) => {
    const fixture = await createFixture(engine, t);
    const bodies = [10, 10, 10, 50].map((length) => newEvent({ body: 'x'.repeat(length) }));
    await fixture.store.log.append(fixture.tenant, bodies);
    const page = await fixture.store.log.page(fixture.tenant, { ...everything, bytesMax: 25 });
    assert.deepEqual([offsets(page.events), page.scannedTo], [[1, 2], 2]);
    const big = await fixture.store.log.page(fixture.tenant, {
      ...everything,
      after: 3,
      bytesMax: 25,
    });
    assert.deepEqual([offsets(big.events), big.scannedTo], [[4], 4]);
  });

  test('page: returns nothing beyond the last requested offset', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('a.a', 'a.a', 'a.a');
    const page = await fixture.store.log.page(fixture.tenant, { ...everything, upTo: 2 });
    assert.deepEqual([offsets(page.events), page.scannedTo], [[1, 2], 2]);
    const past = await fixture.store.log.page(fixture.tenant, { ...everything, after: 2, upTo: 1 });
    assert.deepEqual([past.events, past.scannedTo], [[], 2]);
  });

  test('page: at and beyond the head it is empty, and the position stays', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('a.a');
    for (const after of [1, 7]) {
      const page = await fixture.store.log.page(fixture.tenant, { ...everything, after });
      assert.deepEqual([page.events, page.scannedTo], [[], after]);
    }
  });

  test('page: finds a rare type page by page, each bounded', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const many = Array.from({ length: 5000 }, () => newEvent({ type: 'a.a' }));
    for (let round = 0; round < 5; round += 1) {
      const events = many.map((event) => ({ ...event, id: newId('evt') }));
      await store.log.append(tenant, events);
    }
    await fixture.publish('rare.type');
    let after = 0;
    let found: readonly LogEvent[] = [];
    let pages = 0;
    while (after < 25_001) {
      const page = await store.log.page(tenant, { ...everything, after, types: ['rare.type'] });
      assert.ok(page.scannedTo > after, 'every page moves on');
      after = page.scannedTo;
      found = [...found, ...page.events];
      pages += 1;
    }
    assert.deepEqual(offsets(found), [25_001]);
    assert.ok(pages > 1, 'one page does not look at everything');
  });

  test('page: many readers of few types each find all of their events', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const typeOf = (offset: number): string => `order.n${(offset * 7) % 40}`;
    const count = 20_000;
    for (let done = 0; done < count; done += 5000) {
      const events = Array.from({ length: 5000 }, (_, at) =>
        newEvent({ type: typeOf(done + at + 1) }),
      );
      await store.log.append(tenant, events);
    }
    const read = async (query: { after: number; upTo: number; types: string[]; take: number }) => {
      const found: LogEvent[] = [];
      let { after } = query;
      while (after < query.upTo) {
        const page = await store.log.page(tenant, { ...query, after, bytesMax: 200_000 });
        assert.ok(page.scannedTo > after, 'every page moves on');
        assert.ok(page.events.every(({ offset }) => offset > after && offset <= page.scannedTo));
        assert.ok(page.events.length <= query.take);
        after = page.scannedTo;
        found.push(...page.events);
      }
      return found;
    };
    let oldest = 1;
    for (let reader = 0; reader < 12; reader += 1) {
      const types = [`order.n${reader}`, ...(reader % 3 === 0 ? ['order.n1', 'order.n2'] : [])];
      const query = {
        after: reader * 197,
        upTo: count - reader * 131,
        types,
        take: 10 + 40 * reader,
      };
      if (reader === 8) {
        oldest += await store.log.prune(tenant, { olderThanMs: -1, take: 3000 });
      }
      const expected = Array.from({ length: count }, (_, at) => at + 1).filter(
        (offset) =>
          offset >= oldest &&
          offset > query.after &&
          offset <= query.upTo &&
          types.includes(typeOf(offset)),
      );
      const found = await read(query);
      assert.deepEqual(offsets(found), expected, types.join());
      assert.deepEqual(
        found.map(({ type }) => type),
        expected.map(typeOf),
      );
    }
  });

  test('page: a cursor before the oldest retained event continues at that event', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('a.a', 'a.a');
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 10 });
    fixture.now += 1000;
    await fixture.publish('a.a');
    const page = await fixture.store.log.page(fixture.tenant, everything);
    assert.deepEqual([offsets(page.events), page.scannedTo], [[3], 3]);
  });
}

function firstSinceContract(engine: Engine): void {
  test('firstSince: finds the oldest event accepted at or after an instant', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    for (const seconds of [0, 1, 1, 5, 5, 5, 9]) {
      fixture.now = start + seconds * 1000;
      await store.log.append(tenant, [newEvent()]);
    }
    const times = [-1, 0, 0.5, 1, 2, 5, 6, 9, 10];
    const found = times.map((seconds) => store.log.firstSince(tenant, start + seconds * 1000));
    assert.deepEqual(await Promise.all(found), [1, 1, 2, 2, 4, 4, 7, 7, 8]);
  });

  test('firstSince: does not find pruned events', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    for (const seconds of [0, 1, 2, 3]) {
      fixture.now = start + seconds * 1000;
      await store.log.append(tenant, [newEvent()]);
    }
    await store.log.prune(tenant, { olderThanMs: 1000, take: 10 });
    assert.equal(await store.log.firstSince(tenant, 0), 3);
    assert.equal(await store.log.firstSince(tenant, start), 3);
    assert.equal(await store.log.firstSince(tenant, start + 2001), 4);
  });

  test('firstSince: returns the next offset in a log without events', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    assert.equal(await store.log.firstSince(tenant, 0), 1);
    await store.log.append(tenant, [newEvent(), newEvent()]);
    await store.log.prune(tenant, { olderThanMs: -1, take: 10 });
    assert.equal(await store.log.firstSince(tenant, 0), 3);
    assert.equal(await store.log.firstSince(tenant, start), 3);
  });
}

function pruneContract(engine: Engine): void {
  const later = start + 60_000;

  const retained = async ({ store, tenant }: Fixture): Promise<number[]> => {
    const page = await store.log.page(tenant, everything);
    return page.events.map((event) => event.offset);
  };

  test('prune: removes the oldest events, at most as many as requested', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('a.a', 'a.a', 'a.a');
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 2 }), 2);
    assert.deepEqual(await retained(fixture), [3]);
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 2 }), 1);
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 2 }), 0);
  });

  test('prune: keeps an event that is not old enough', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('a.a');
    fixture.now = later;
    await fixture.publish('a.a');
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: 0, take: 10 }), 1);
    assert.deepEqual(await retained(fixture), [2]);
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: 0, take: 10 }), 0);
  });

  test('prune: keeps an event that an enabled stream has not passed', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const events = await fixture.publish('user.created', 'user.created', 'user.created');
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { cursor: events[0]?.offset ?? 0 });
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 10 }), 1);
    assert.deepEqual(await retained(fixture), [2, 3]);
  });

  test('prune: keeps no event for a disabled stream', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.addStream({ status: 'disabled' });
    await fixture.publish('user.created');
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 10 }), 1);
  });

  test('prune: keeps the events of other tenants', async (t) => {
    const fixture = await createFixture(engine, t);
    const other = await addTenant(fixture.store, 'other');
    await fixture.store.log.append(other.id, [newEvent()]);
    await fixture.publish('a.a');
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 10 });
    assert.equal((await fixture.store.log.page(other.id, everything)).events.length, 1);
  });

  test('prune: keeps the events of an open failure and of a waiting retry', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const [first, second] = await fixture.publish('user.created', 'user.created');
    assert.ok(first && second);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { cursor: 2, outcomes: [failed(first), retry(second)] });
    assert.equal(await store.log.prune(tenant, { olderThanMs: -1, take: 10 }), 2);
    const failure = await store.deliveries.failure(tenant, stream.id, first.id);
    assert.deepEqual(failure?.event, first);
    fixture.now = later;
    const request = { tenant, stream: stream.id, epoch: owned.epoch, take: 10 };
    const [due] = await store.deliveries.claimDue([{ ...request, ...dueRules }]);
    assert.deepEqual(
      due?.rows.map((row) => row.event),
      [second],
    );
  });

  test('prune: a waiting retry keeps its trace after its event was pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const events = [newEvent({ trace }), newEvent({ trace })];
    await store.log.append(tenant, events);
    const [first, second] = (await store.log.page(tenant, everything)).events;
    assert.ok(first && second);
    const owned = await fixture.own(stream);
    const outcomes = [retry(first, { delayMs: 0 }), retry(second, { delayMs: 0 })];
    await fixture.settle(owned, { cursor: 2, outcomes });
    const request = { tenant, stream: stream.id, epoch: owned.epoch, take: 1 };
    fixture.now = later;
    const [before] = await store.deliveries.claimDue([{ ...request, ...dueRules }]);
    await store.log.prune(tenant, { olderThanMs: -1, take: 10 });
    const [after] = await store.deliveries.claimDue([{ ...request, ...dueRules }]);
    assert.deepEqual(
      [before, after].flatMap((due) => due?.rows.map(({ event }) => [event.id, event.trace])),
      [
        [first.id, trace],
        [second.id, trace],
      ],
    );
  });

  test('prune: an attempt that ends after its event was pruned keeps the event', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const owned = await fixture.own(stream);
    await store.streams.update(tenant, stream.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    assert.equal(await store.log.prune(tenant, { olderThanMs: -1, take: 10 }), 1);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    const failure = await store.deliveries.failure(tenant, stream.id, event.id);
    assert.deepEqual(failure?.event, event);
  });
}
