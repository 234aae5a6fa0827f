import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from '../../../src/store/port/page.ts';
import { newApi } from './apis.ts';
import { newClient } from './clients.ts';
import type { Engine } from './engine.ts';
import { createFixture, failed, newEvent, type Fixture, start } from './fixture.ts';
import { newUser } from './users.ts';

const KIB = 1024;
const bytesMax = 120 * KIB;
/** Two fit into a page, even with characters of three bytes. */
const long = '€'.repeat((40 * KIB) / 3);
const total = 5;
const ids = Array.from({ length: total }, (_, index) => `item-${index}`);

type Bounds = { after: string | undefined; take: number; bytesMax?: number };

export function pagesContract(engine: Engine): void {
  describe(`${engine.name}: a page that is bounded in bytes`, () => {
    test('streams: a page ends before the row beyond the bound', async (t) => {
      const fixture = await createFixture(engine, t);
      for (const id of ids) await fixture.addStream({ id, types: [long] });
      await assertCut(
        (page) => fixture.store.streams.list(fixture.tenant, page),
        ({ id }) => id,
        ids,
      );
    });

    test('users: a page ends before the row beyond the bound', async (t) => {
      const fixture = await createFixture(engine, t);
      const users = await addUsers(fixture);
      const list = (page: Bounds) => fixture.store.users.listFrom(fixture.tenant, page);
      await assertCut(list, ({ id }) => id, users);
    });

    test('users: a page of many large rows is complete', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const profile = { user_metadata: { long: '€'.repeat(100_000) } };
      const many = Array.from({ length: 9 }, (_, index) =>
        newUser(tenant, `${index}`, { profile }),
      );
      for (const user of many) await store.users.create(user, newEvent());
      const expected = many.map(({ id }) => id);
      const bounds = { take: 9, bytesMax: 8 * KIB * KIB };
      const page = await store.users.listFrom(tenant, { ...bounds, after: undefined });
      assert.deepEqual(
        page.items.map(({ id }) => id),
        expected,
      );
      assert.equal(page.next, undefined);
      const byNumber = { page: 0, perPage: 9, counted: false };
      const result = await store.users.list(tenant, { ...byNumber, bytesMax: bounds.bytesMax });
      assert.ok('items' in result);
      assert.deepEqual(
        result.items.map(({ id }) => id),
        expected,
      );
      const cut = await store.users.listFrom(tenant, {
        after: undefined,
        take: 9,
        bytesMax: 2 * KIB * KIB,
      });
      assert.deepEqual(
        cut.items.map(({ id }) => id),
        expected.slice(0, 6),
      );
      assert.equal(cut.next, expected[5]);
    });

    test('grants: a page ends before the row beyond the bound', async (t) => {
      const fixture = await createFixture(engine, t);
      const { store, tenant } = fixture;
      await store.clients.create(newClient(tenant, 'robot'));
      for (const id of ids) {
        await store.apis.create(newApi(tenant, id));
        await store.grants.create({ tenant, id, client: 'robot', api: id, scope: [long] });
      }
      await assertCut(
        (page) => store.grants.listFrom(tenant, page),
        ({ id }) => id,
        ids,
      );
    });

    test('failures: a page ends before the row beyond the bound', async (t) => {
      const fixture = await createFixture(engine, t);
      const stream = await fixture.addStream();
      const owned = await fixture.own(stream);
      const events = ids.map(() => newEvent({ body: JSON.stringify({ data: { long } }) }));
      const appended = await fixture.store.log.append(fixture.tenant, events);
      for (const [index, { id, type, time, body }] of events.entries()) {
        const event = { id, type, time, body, offset: appended[index]?.offset ?? 0 };
        await fixture.settle(owned, { outcomes: [failed(event)] });
        fixture.now += 1;
      }
      const list = (page: Bounds) =>
        fixture.store.deliveries.listFailures(fixture.tenant, stream.id, page);
      const newestFirst = events.map(({ id }) => id).toReversed();
      await assertCut(list, ({ event }) => event.id, newestFirst);
    });

    test('failures: a page of many large rows is complete, and yields to the event loop', async (t) => {
      const fixture = await createFixture(engine, t);
      const stream = await fixture.addStream();
      const owned = await fixture.own(stream);
      const text = 'x'.repeat(200 * KIB);
      const events = Array.from({ length: 9 }, () => newEvent({ body: JSON.stringify({ text }) }));
      const appended = await fixture.store.log.append(fixture.tenant, events);
      for (const [index, { id, type, time, body }] of events.entries()) {
        const event = { id, type, time, body, offset: appended[index]?.offset ?? 0 };
        await fixture.settle(owned, { outcomes: [failed(event)] });
        // Pairs of the same instant.
        fixture.now += index % 2;
      }
      const list = (take: number, after?: string) =>
        fixture.store.deliveries.listFailures(fixture.tenant, stream.id, {
          take,
          after,
          bytesMax: 8 * KIB * KIB,
        });
      let turns = 0;
      let counting = setImmediate(function count() {
        turns += 1;
        counting = setImmediate(count);
      });
      const page = await list(9);
      clearImmediate(counting);
      assert.ok(turns >= 3, `${turns} turns of the event loop while 1.8 MiB were read`);
      assert.deepEqual(
        page.items.map(({ failedAt, event }) => [failedAt, event.id, event.body]),
        events
          .map(({ id, body }, index) => [start + Math.floor(index / 2), id, body] as const)
          .toSorted(([atA, idA], [atB, idB]) => atB - atA || (idA < idB ? 1 : -1)),
      );
      assert.equal(page.next, undefined);
      const first = await list(5);
      const second = await list(5, first.next);
      assert.deepEqual([...first.items, ...second.items], page.items);
    });

    test('users by number: a page that is too large is refused, in every order', async (t) => {
      const fixture = await createFixture(engine, t);
      const users = await addUsers(fixture);
      for (const field of ['user_id', 'created_at', 'updated_at', 'email', 'username']) {
        for (const descending of [false, true]) {
          const max = { users: 100, bytes: 1 };
          const sort = { field, descending, max };
          const page = (perPage: number, bytes: number | undefined) =>
            fixture.store.users.list(fixture.tenant, {
              page: 0,
              perPage,
              bytesMax: bytes,
              sort,
              counted: true,
            });
          assert.deepEqual(await page(3, bytesMax), { refused: 'too_large' }, field);
          const [two, all] = [await page(2, bytesMax), await page(total, undefined)];
          assert.ok('items' in two && 'items' in all);
          const expected = descending ? users.toReversed() : users;
          assert.deepEqual(
            two.items.map(({ id }) => id),
            expected.slice(0, 2),
          );
          assert.deepEqual(
            all.items.map(({ id }) => id),
            expected,
          );
          assert.equal(two.total, total);
        }
      }
    });

    test('clients: a page ends before the row beyond the bound, and by number it is refused', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      for (const id of ids) await store.clients.create(newClient(tenant, id, { jwks: long }));
      await assertCut(
        (page) => store.clients.listFrom(tenant, page),
        ({ id }) => id,
        ids,
      );
      const refused = await store.clients.list(tenant, { page: 0, perPage: 3, bytesMax });
      assert.deepEqual(refused, { refused: 'too_large' });
      const result = await store.clients.list(tenant, { page: 2, perPage: 2, bytesMax });
      assert.equal('items' in result && result.items.length, 1);
    });

    test('grants by number: a page that is too large is refused', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      await store.clients.create(newClient(tenant, 'robot'));
      for (const id of ids) {
        await store.apis.create(newApi(tenant, id));
        await store.grants.create({ tenant, id, client: 'robot', api: id, scope: [long] });
      }
      const refused = await store.grants.list(tenant, { page: 0, perPage: 3, bytesMax });
      assert.deepEqual(refused, { refused: 'too_large' });
      const result = await store.grants.list(tenant, { page: 1, perPage: 2, bytesMax });
      assert.equal('items' in result && result.items.length, 2);
    });

    test('APIs by number: a page that is too large is refused', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      for (const [index, id] of ids.entries()) {
        const scopes = [{ value: 'read', description: long }];
        await store.apis.create(newApi(tenant, id, { scopes, createdAt: start + index }));
      }
      assert.deepEqual(await store.apis.list(tenant, { page: 0, perPage: 3, bytesMax }), {
        refused: 'too_large',
      });
      const result = await store.apis.list(tenant, { page: 1, perPage: 2, bytesMax });
      assert.ok('items' in result);
      assert.deepEqual(
        result.items.map(({ id }) => id),
        ['item-2', 'item-3'],
      );
    });
  });
}

/** Ids of users whose profiles are long, in the order of every field. */
async function addUsers({ store, tenant }: Fixture): Promise<string[]> {
  for (const [index, id] of ids.entries()) {
    const at = start + index;
    const times = { createdAt: at, updatedAt: at, username: id };
    const user = newUser(tenant, id, { ...times, profile: { user_metadata: { long } } });
    assert.ok('created' in (await store.users.create(user, newEvent())));
  }
  return ids.map((id) => `leat|${id}`);
}

/**
 * Expects pages of at most two, whatever `take` allows, with each item once; without a bound all at
 * once.
 */
async function assertCut<T>(
  list: (page: Bounds) => Promise<Page<T>>,
  idOf: (item: T) => string,
  expected: readonly string[],
): Promise<void> {
  const pages: string[][] = [];
  let after: string | undefined;
  do {
    const { items, next } = await list({ after, take: 100, bytesMax });
    pages.push(items.map(idOf));
    after = next;
  } while (after !== undefined && pages.length < 10);
  assert.deepEqual(pages, [expected.slice(0, 2), expected.slice(2, 4), expected.slice(4)]);
  const one = await list({ after: undefined, take: 100, bytesMax: 1 });
  assert.deepEqual(one.items.map(idOf), expected.slice(0, 1), 'one that is too large by itself');
  assert.ok(one.next !== undefined);
  const bare = await list({ after: undefined, take: 100 });
  assert.deepEqual(bare.items.map(idOf), expected);
  assert.equal(bare.next, undefined);
  const exact = await list({ after: undefined, take: 2, bytesMax });
  assert.deepEqual(exact.items.map(idOf), expected.slice(0, 2));
  assert.ok(exact.next !== undefined);
}
