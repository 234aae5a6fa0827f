import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Engine } from './engine.ts';
import { addTenant, createScene, newEvent, start } from './scene.ts';

export function tenantsContract(engine: Engine): void {
  describe(`${engine.name}: tenants`, () => {
    test('list: in the order of creation', async (t) => {
      const { store } = await createScene(engine, t);
      const second = await addTenant(store, 'b-second');
      const third = await addTenant(store, 'a-third');
      const list = await store.tenants.list();
      assert.deepEqual(list.slice(1), [second, third]);
      assert.equal(list[0]?.name, 'main');
    });

    test('create: a name or a domain is given once, in whatever case the domain is', async (t) => {
      const { store } = await createScene(engine, t);
      const taken = { name: 'main', domain: 'other.example.com' };
      assert.deepEqual(await store.tenants.create(taken, start), { refused: 'name_taken' });
      const sameHost = { name: 'other', domain: 'MAIN.Example.COM' };
      assert.deepEqual(await store.tenants.create(sameHost, start), { refused: 'domain_taken' });
      assert.equal((await store.tenants.list()).length, 1);
    });

    test('create: of concurrent calls for one name one wins', async (t) => {
      const { store } = await createScene(engine, t);
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, index) =>
          store.tenants.create({ name: 'wanted', domain: `${index}.example.com` }, start),
        ),
      );
      assert.equal(answers.filter((answer) => 'created' in answer).length, 1);
      assert.equal((await store.tenants.list()).length, 2);
    });

    test('create: the domain is kept in lower case, with its port', async (t) => {
      const { store } = await createScene(engine, t);
      const answer = await store.tenants.create({ name: 'tls', domain: 'Host:8443' }, start);
      assert.ok('created' in answer);
      assert.equal(answer.created.domain, 'host:8443');
      assert.deepEqual((await store.tenants.list())[1], answer.created);
    });

    test('rename: changes the names and nothing else', async (t) => {
      const { store, tenant } = await createScene(engine, t);
      await store.log.append(tenant, [newEvent()], start);
      const to = { name: 'renamed', domain: 'New.example.com' };
      assert.equal(await store.tenants.rename(tenant, to), 'renamed');
      assert.deepEqual(await store.tenants.list(), [
        { id: tenant, name: 'renamed', domain: 'new.example.com' },
      ]);
      assert.equal(await store.log.head(tenant), 1);
    });

    test('rename: to the names it has already', async (t) => {
      const { store, tenant } = await createScene(engine, t);
      const [own] = await store.tenants.list();
      assert.ok(own);
      assert.equal(await store.tenants.rename(tenant, own), 'renamed');
    });

    test("rename: refuses another tenant's names and an unknown tenant", async (t) => {
      const { store, tenant } = await createScene(engine, t);
      const other = await addTenant(store, 'other');
      const rename = (name: string, domain: string) =>
        store.tenants.rename(tenant, { name, domain });
      assert.equal(await rename('other', 'free.example.com'), 'name_taken');
      assert.equal(await rename('free', 'OTHER.example.com'), 'domain_taken');
      assert.equal(await store.tenants.rename(other.id + 1, other), 'unknown');
      const names = (await store.tenants.list()).map(({ name }) => name);
      assert.deepEqual(names, ['main', 'other']);
    });
  });
}
