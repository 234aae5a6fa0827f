import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Engine } from './engine.ts';
import { StoreContentRefused } from '../../../src/core/errors.ts';
import { addTenant, createFixture, newEvent, fixtureOf, start, waitRule } from './fixture.ts';

export function tenantsContract(engine: Engine): void {
  describe(`${engine.name}: tenants`, () => {
    test('list: returns tenants in the order of creation', async (t) => {
      const { store } = await createFixture(engine, t);
      const second = await addTenant(store, 'b-second');
      const third = await addTenant(store, 'a-third');
      const list = await store.tenants.list();
      assert.deepEqual(list.slice(1), [second, third]);
      assert.equal(list[0]?.name, 'main');
    });

    test('create: names and domains are unique, domains without regard to case', async (t) => {
      const { store } = await createFixture(engine, t);
      const taken = { name: 'main', domain: 'other.example.com' };
      assert.deepEqual(await store.tenants.create(taken, start), { refused: 'name_taken' });
      const sameHost = { name: 'other', domain: 'MAIN.Example.COM' };
      assert.deepEqual(await store.tenants.create(sameHost, start), { refused: 'domain_taken' });
      assert.equal((await store.tenants.list()).length, 1);
    });

    test('list: returns the same array until a tenant is created, renamed or removed', async (t) => {
      const { store } = await createFixture(engine, t);
      const changes = [
        () => addTenant(store, 'other'),
        () => store.tenants.rename(2, { name: 'renamed', domain: 'other.example.com' }),
        () => store.tenants.rename(2, { name: 'renamed', domain: 'renamed.example.com' }),
        () => store.tenants.leave(2),
      ];
      for (const change of changes) {
        const before = await store.tenants.list();
        assert.equal(await store.tenants.list(), before);
        await change();
        assert.notDeepEqual(await store.tenants.list(), before);
      }
    });

    test('create: one of several concurrent calls for one name succeeds', async (t) => {
      const { store } = await createFixture(engine, t);
      const results = await Promise.all(
        Array.from({ length: 8 }, (_, index) =>
          store.tenants.create({ name: 'wanted', domain: `${index}.example.com` }, start),
        ),
      );
      assert.equal(results.filter((result) => 'created' in result).length, 1);
      assert.equal((await store.tenants.list()).length, 2);
    });

    test('create: the domain is stored in lower case, with its port', async (t) => {
      const { store } = await createFixture(engine, t);
      const result = await store.tenants.create({ name: 'tls', domain: 'Host:8443' }, start);
      assert.ok('created' in result);
      assert.equal(result.created.domain, 'host:8443');
      assert.deepEqual((await store.tenants.list())[1], result.created);
    });

    test('rename: changes the names and nothing else', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      await store.log.append(tenant, [newEvent()]);
      const to = { name: 'renamed', domain: 'New.example.com' };
      assert.equal(await store.tenants.rename(tenant, to), 'renamed');
      assert.deepEqual(await store.tenants.list(), [
        { id: tenant, name: 'renamed', domain: 'new.example.com' },
      ]);
      assert.equal(await store.log.head(tenant), 1);
    });

    test('rename: accepts the names that the tenant has already', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const [own] = await store.tenants.list();
      assert.ok(own);
      assert.equal(await store.tenants.rename(tenant, own), 'renamed');
    });

    test("rename: refuses another tenant's names and an unknown tenant", async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      const rename = (name: string, domain: string) =>
        store.tenants.rename(tenant, { name, domain });
      assert.equal(await rename('other', 'free.example.com'), 'name_taken');
      assert.equal(await rename('free', 'OTHER.example.com'), 'domain_taken');
      assert.equal(await store.tenants.rename(other.id + 1, other), 'unknown');
      const names = (await store.tenants.list()).map(({ name }) => name);
      assert.deepEqual(names, ['main', 'other']);
    });

    test('leave: the tenant is unknown at once, and its log accepts nothing', async (t) => {
      const { store, hints } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      await store.log.append(other.id, [newEvent()]);
      assert.equal(await store.tenants.leave(other.id), true);
      assert.equal(await store.tenants.leave(other.id), false);
      assert.deepEqual(hints.at(-1), { kind: 'tenants' });
      assert.deepEqual(
        (await store.tenants.list()).map(({ name }) => name),
        ['main'],
      );
      assert.deepEqual(await store.tenants.leaving(), [other]);
      await assert.rejects(store.log.append(other.id, [newEvent()]), StoreContentRefused);
      assert.equal(await store.tenants.rename(other.id, other), 'unknown');
      // Two tenants of one name cannot be distinguished while the first still exists.
      assert.deepEqual(await store.tenants.create({ ...other, domain: 'new.example.com' }, start), {
        refused: 'name_taken',
      });
    });

    test('leave: concurrent appends are complete or refused', async (t) => {
      const { store } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      const appends = Array.from({ length: 20 }, () =>
        store.log.append(other.id, [newEvent(), newEvent()]),
      );
      const [left, ...results] = await Promise.allSettled([
        store.tenants.leave(other.id),
        ...appends,
      ]);
      assert.deepEqual(left, { status: 'fulfilled', value: true });
      for (const result of results) {
        if (result.status === 'rejected') assert.ok(result.reason instanceof StoreContentRefused);
        else assert.equal(result.value.length, 2);
      }
    });

    test('removeStep: streams go first, with a hint for their owner', async (t) => {
      const { store } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      const fixture = fixtureOf(store, other.id);
      const [first, second] = [await fixture.addStream(), await fixture.addStream()];
      await fixture.own(first);
      await store.tenants.leave(other.id);
      const step = await store.tenants.removeStep(other.id, { take: 1 });
      assert.deepEqual([step.removed, step.isDone], [2, false]);
      assert.deepEqual(fixture.hints.at(-1), {
        kind: 'stream',
        tenant: other.id,
        stream: first.id,
      });
      const refs = [first, second].map(({ id }) => ({ tenant: other.id, stream: id }));
      const owned = await store.ownership.owned(await fixture.node(), refs, waitRule);
      assert.ok(!owned.some(({ stream }) => stream.id === first.id));
    });

    test('removeStep: removes nothing of a tenant that is not being removed', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      await store.log.append(tenant, [newEvent()]);
      assert.deepEqual(await store.tenants.removeStep(tenant, { take: 100 }), {
        removed: 0,
        isDone: true,
      });
      assert.deepEqual(await store.tenants.removeStep(99, { take: 100 }), {
        removed: 0,
        isDone: true,
      });
      assert.equal(await store.log.head(tenant), 1);
      const page = await store.log.page(tenant, { after: 0, take: 10, bytesMax: 10_000 });
      assert.equal(page.events.length, 1);
    });
  });
}
