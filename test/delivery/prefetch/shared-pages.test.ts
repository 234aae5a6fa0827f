import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { SharedPages, type SharedQuery } from '../../../src/delivery/prefetch/shared-pages.ts';
import { createStoreRetry } from '../../../src/delivery/store-retry.ts';
import type { LogPage, LogQuery, LogStore } from '../../../src/store/port/log.ts';
import { createManualClock } from '../../helpers/clock.ts';
import { openMemoryCopy } from '../../helpers/sqlite.ts';
import { ok } from '../../helpers/transport.ts';
import { addTenant, newEvent } from '../../store/contract/fixture.ts';
import { createDeliveryFixture } from '../fixture.ts';

interface Fixture {
  readonly shared: SharedPages;
  /** Queries that the store has answered. */
  readonly queries: LogQuery[];
  readonly tenant: number;
  readonly otherTenant: number;
  append(tenant: number, types: readonly string[], bytes?: number): Promise<void>;
  /** Reads ten events of the default type of the first tenant, unless asked for others. */
  page(query?: Partial<SharedQuery>): Promise<LogPage>;
}

async function createFixture(t: TestContext): Promise<Fixture> {
  const clock = createManualClock();
  const secretKeys = [new Uint8Array(32)];
  const random = randomBytes;
  const store = await openMemoryCopy({ secretKeys, random, clock, defer: queueMicrotask });
  t.after(() => store.close());
  const { id: tenant } = await addTenant(store, 'main');
  const { id: otherTenant } = await addTenant(store, 'other');
  const queries: LogQuery[] = [];
  const page: LogStore['page'] = (of, query) => {
    queries.push(query);
    return store.log.page(of, query);
  };
  const ignore = (): void => undefined;
  const storeRetry = createStoreRetry({
    clock,
    report: ({ kind }) => assert.fail(kind),
    recovered: ignore,
    replaced: ignore,
  });
  const shared = new SharedPages({ log: { page }, storeRetry });
  return {
    shared,
    queries,
    tenant,
    otherTenant,
    append: async (to, types, bytes = 0) => {
      const body = JSON.stringify({ data: 'x'.repeat(bytes) });
      await store.log.append(
        to,
        types.map((type) => newEvent({ type, body })),
      );
    },
    page: (query) =>
      shared.page({
        tenant,
        after: 0,
        types: ['user.created'],
        take: 10,
        bytesMax: 1_000_000,
        ...query,
      }),
  };
}

const many = (count: number, type = 'user.created'): string[] =>
  Array.from({ length: count }, () => type);

const offsetsOf = ({ events }: LogPage): number[] => events.map(({ offset }) => offset);

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

describe('pages that streams share', () => {
  test('shared pages: the same page is read from the store once, with the same events', async (t) => {
    const { page, append, tenant, queries } = await createFixture(t);
    await append(tenant, many(30));
    const first = await page();
    const second = await page();
    assert.deepEqual(offsetsOf(first), range(1, 10));
    assert.ok(second.events.every((event, index) => event === first.events[index]));
    assert.equal(queries.length, 1);
  });

  test('shared pages: those who ask while the page is being read wait for it', async (t) => {
    const { page, append, tenant, queries } = await createFixture(t);
    await append(tenant, many(30));
    const pages = await Promise.all([page(), page(), page({ after: 10 })]);
    assert.deepEqual(pages.map(offsetsOf), [range(1, 10), range(1, 10), range(11, 20)]);
    assert.equal(queries.length, 2);
  });

  test('shared pages: one who begins within a page goes on at its end', async (t) => {
    const { page, append, tenant, queries } = await createFixture(t);
    await append(tenant, many(30));
    await page();
    const within = await page({ after: 4 });
    assert.deepEqual(offsetsOf(within), range(5, 10));
    assert.equal(within.scannedTo, 10);
    assert.equal(queries.length, 1);
  });

  test('shared pages: a page ends where the next subscription begins', async (t) => {
    const { page, append, tenant } = await createFixture(t);
    await append(tenant, many(30));
    await page();
    const before = await page({ upTo: 6 });
    assert.deepEqual(offsetsOf(before), range(1, 6));
    assert.equal(before.scannedTo, 6);
    const after = await page({ after: 6, types: ['user.deleted'] });
    assert.deepEqual(offsetsOf(after), []);
    assert.equal(after.scannedTo, 30);
  });

  test('shared pages: an event that was appended after the page was read is not missed', async (t) => {
    const { page, append, tenant } = await createFixture(t);
    await append(tenant, many(3));
    assert.equal((await page()).scannedTo, 3);
    assert.equal((await page({ after: 3 })).scannedTo, 3);
    await append(tenant, many(2));
    const again = await page();
    assert.deepEqual([offsetsOf(again), again.scannedTo], [range(1, 3), 3]);
    assert.deepEqual(offsetsOf(await page({ after: 3 })), [4, 5]);
  });

  test('shared pages: tenants with the same offsets have their own pages', async (t) => {
    const { page, append, tenant, otherTenant } = await createFixture(t);
    await append(tenant, many(5));
    await append(otherTenant, many(5));
    const own = await page();
    const others = await page({ tenant: otherTenant });
    assert.deepEqual(offsetsOf(others), range(1, 5));
    const ids = new Set(own.events.map(({ id }) => id));
    assert.ok(others.events.every(({ id }) => !ids.has(id)));
  });

  test('shared pages: a rare type is read as far as the store scans, in one query', async (t) => {
    const { page, append, tenant, queries } = await createFixture(t);
    await append(tenant, [...many(500), 'user.deleted', ...many(500)]);
    for (const after of [0, 100, 400]) {
      const rare = await page({ after, types: ['user.deleted'] });
      assert.deepEqual(offsetsOf(rare), [501]);
      assert.equal(rare.scannedTo, 1001);
    }
    assert.equal(queries.length, 1);
  });

  test('shared pages: they take a bounded part of the memory, and none for long', async (t) => {
    const { page, append, tenant, queries, shared } = await createFixture(t);
    for (let count = 0; count < 10; count += 1) await append(tenant, many(10), 100_000);
    for (let after = 0; after < 100; after += 10) await page({ after, bytesMax: 2_000_000 });
    assert.ok(shared.characters > 3_000_000, `${shared.characters} characters`);
    assert.ok(shared.characters <= 4 * 1024 * 1024, `${shared.characters} characters`);
    const before = queries.length;
    await page({ after: 90 });
    assert.equal(queries.length, before);
    shared.age();
    await page({ after: 90 });
    assert.equal(queries.length, before);
    shared.age();
    assert.equal(shared.characters, 0);
    await page({ after: 90 });
    assert.equal(queries.length, before + 1);
  });

  test('shared pages: small ones are bounded too', async (t) => {
    const { page, append, tenant, shared, queries } = await createFixture(t);
    await append(tenant, many(1000));
    for (let after = 0; after < 1000; after += 1) await page({ after, upTo: after + 1 });
    assert.equal(queries.length, 1000);
    assert.ok(shared.characters <= 4 * 1024 * 1024, `${shared.characters} characters`);
    // The first were dropped, the last are there.
    await page({ after: 999 });
    assert.equal(queries.length, 1000);
    await page();
    assert.equal(queries.length, 1001);
  });

  test('shared pages: a page that was dropped while it was read is not kept', async (t) => {
    const { page, append, tenant, shared, queries } = await createFixture(t);
    await append(tenant, many(5));
    const reading = page();
    shared.drop(tenant);
    await reading;
    await page();
    assert.equal(queries.length, 2);
  });
});

describe('streams with filters that are behind', () => {
  const data = (n: number): { type: string; body: string } => ({
    type: 'user.created',
    body: JSON.stringify({ data: { object: { n } } }),
  });

  test('streams with filters read the pages of the log together', async (t) => {
    let reads = 0;
    const fixture = await createDeliveryFixture(t, {
      respond: () => ok,
      settings: { concurrency: 100 },
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: (tenant, query) => {
            reads += 1;
            return store.log.page(tenant, query);
          },
        },
      }),
    });
    for (let n = 0; n < 10; n += 1) {
      await fixture.addStream({ filter: JSON.stringify({ 'data.object.n': n }) });
    }
    const events = Array.from({ length: 200 }, (_, index) => newEvent(data(index % 10)));
    await fixture.store.log.append(fixture.tenant, events);
    await fixture.start();
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent().toSorted(), events.map(({ id }) => id).toSorted());
    // Ten pages; a few were read while other streams were being taken over.
    assert.ok(reads >= 10 && reads <= 15, `${reads} reads`);
  });

  test('a stream that is enabled again receives no event that was pruned meanwhile', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => ok });
    const filter = '{"data.object.n":{"$exists":true}}';
    await fixture.addStream({ filter });
    const held = await fixture.addStream({ filter });
    await fixture.update(held, { status: 'disabled' });
    const time = fixture.clock.now();
    const events = Array.from({ length: 150 }, (_, n) => newEvent({ ...data(n), time }));
    await fixture.store.log.append(fixture.tenant, events);
    await fixture.start();
    await fixture.clock.advance(2000);
    // Age is measured from the newest event.
    const last = newEvent({ ...data(150), time: fixture.clock.now() });
    await fixture.store.log.append(fixture.tenant, [last]);
    await fixture.clock.advance(1000);
    assert.equal(fixture.sent().length, 151);
    const pruned = await fixture.store.log.prune(fixture.tenant, { olderThanMs: 1000, take: 140 });
    assert.equal(pruned, 140);
    await fixture.update(held, { status: 'enabled' }, 'held');
    await fixture.clock.advance(2000);
    const left = [...events.slice(140), last].map(({ id }) => id);
    assert.deepEqual(fixture.sent().slice(151), left);
  });
});
