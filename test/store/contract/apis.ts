import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Api } from '../../../src/core/types.ts';
import { carriedJson, newClient } from './clients.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, start } from './fixture.ts';

export function apisContract(engine: Engine): void {
  describe(`${engine.name}: APIs`, () => {
    test('get: returns an API as it was created, by id and by identifier', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const api = newApi(tenant, 'api_1', {
        identifier: 'https://messages.example/ü?q="1"',
        scopes: [
          { value: 'read:messages', description: 'Lesen & „anführen“ 📬' },
          { value: 'x'.repeat(280), description: '' },
        ],
        enforcePolicies: true,
        tokenDialect: 'access_token_authz',
        tokenLifetimeSeconds: 2_592_000,
      });
      assert.deepEqual(await store.apis.create(api), { created: api });
      assert.deepEqual(await store.apis.get(tenant, api.id), api);
      assert.deepEqual(await store.apis.get(tenant, api.identifier), api);
      assert.equal(await store.apis.get(tenant, api.identifier.toUpperCase()), undefined);
    });

    test('create: an identifier is unique in a tenant', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      const identifier = 'https://messages.example';
      await store.apis.create(newApi(tenant, 'api_1', { identifier, name: 'ours' }));
      const again = await store.apis.create(newApi(tenant, 'api_2', { identifier }));
      assert.deepEqual(again, { refused: 'identifier_taken' });
      assert.equal(await store.apis.get(tenant, 'api_2'), undefined);
      const theirs = newApi(other.id, 'api_1', { identifier, name: 'theirs' });
      assert.deepEqual(await store.apis.create(theirs), { created: theirs });
      assert.equal((await store.apis.get(tenant, identifier))?.name, 'ours');
    });

    test('create: refuses an identifier that is the id of another API', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      await store.apis.create(newApi(tenant, 'api_1'));
      const hidden = newApi(tenant, 'api_2', { identifier: 'api_1' });
      assert.deepEqual(await store.apis.create(hidden), { refused: 'identifier_taken' });
    });

    test('create: one of several concurrent calls for one identifier succeeds', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const calls = ['a', 'b', 'c', 'd'].map((id) =>
        store.apis.create(newApi(tenant, id, { identifier: 'https://one.example' })),
      );
      const results = await Promise.all(calls);
      assert.equal(results.filter((result) => 'created' in result).length, 1);
    });

    test('list: pages in the order of creation, with the total of this tenant', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      await store.apis.create(newApi(other.id, 'theirs'));
      for (const [index, id] of ['b', 'c', 'a'].entries()) {
        await store.apis.create(newApi(tenant, id, { createdAt: start + index }));
      }
      const page = async (number: number) => {
        const result = await store.apis.list(tenant, { page: number, perPage: 2 });
        assert.ok('items' in result);
        assert.equal(result.total, 3);
        return result.items.map((api) => api.id);
      };
      assert.deepEqual(await page(0), ['b', 'c']);
      assert.deepEqual(await page(1), ['a']);
      assert.deepEqual(await page(2), []);
    });

    test('carried fields are stored, replaced and removed', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const api = newApi(tenant, 'api_1', { carriedJson });
      await store.apis.create(api);
      assert.deepEqual(await store.apis.get(tenant, 'api_1'), api);
      const bare = newApi(tenant, 'api_1');
      for (const after of [{ ...api, carriedJson: '{"a":1}' }, bare]) {
        assert.deepEqual(await store.apis.update(tenant, 'api_1', () => after), { updated: after });
        assert.deepEqual(await store.apis.get(tenant, 'api_1'), after);
      }
    });

    test('list: only APIs with one of the identifiers', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      for (const id of ['a', 'b', 'c']) {
        await store.apis.create(newApi(tenant, id, { identifier: `urn:${id}` }));
      }
      const found = async (...identifiers: string[]) => {
        const result = await store.apis.list(tenant, { page: 0, perPage: 1, identifiers });
        assert.ok('items' in result);
        return [result.items.map(({ id }) => id).join(), result.total];
      };
      assert.deepEqual(await found('urn:c', 'urn:b', 'urn:b', 'c', 'urn:none'), ['b', 2]);
      assert.deepEqual(await found('a'), ['', 0]);
      assert.deepEqual(await found(), ['', 0]);
    });

    test('update: changes all but id, identifier and time of creation', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const api = newApi(tenant, 'api_1');
      await store.apis.create(api);
      const scopes = [{ value: 'read:all', description: 'all' }];
      const result = await store.apis.update(tenant, 'api_1', (before) => {
        assert.deepEqual(before, api);
        return { ...newApi(tenant + 1, 'moved'), name: 'new', scopes, enforcePolicies: true };
      });
      const after = { ...api, name: 'new', scopes, enforcePolicies: true };
      assert.deepEqual(result, { updated: after });
      assert.deepEqual(await store.apis.get(tenant, 'api_1'), after);
    });

    test('update: finds an API by its id only, within the tenant', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      const api = newApi(tenant, 'api_1');
      await store.apis.create(api);
      const decide = () => assert.fail('decided');
      const refused = { refused: 'unknown' };
      assert.deepEqual(await store.apis.update(tenant, api.identifier, decide), refused);
      assert.deepEqual(await store.apis.update(other.id, 'api_1', decide), refused);
    });

    test('delete: removes the grants for this API, and no others', async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      await store.clients.create(newClient(tenant, 'robot'));
      for (const id of ['api_1', 'api_2']) {
        await store.apis.create(newApi(tenant, id));
        const grant = { tenant, id: `grant for ${id}`, client: 'robot', api: id, scope: [] };
        assert.ok('created' in (await store.grants.create(grant)));
      }
      assert.equal(await store.apis.delete(tenant, 'api_1'), true);
      assert.equal(await store.apis.get(tenant, 'api_1'), undefined);
      assert.equal(await store.grants.of(tenant, 'robot', 'api_1'), undefined);
      assert.ok(await store.grants.of(tenant, 'robot', 'api_2'));
      assert.equal(await store.apis.delete(tenant, 'api_1'), false);
    });

    test("delete: leaves another tenant's API and the grants of the management API", async (t) => {
      const { store, tenant } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      await store.apis.create(newApi(tenant, 'api_1'));
      await store.clients.create(newClient(tenant, 'robot'));
      const grant = { tenant, id: 'g', client: 'robot', api: 'management', scope: [] };
      await store.grants.create(grant);
      assert.equal(await store.apis.delete(other.id, 'api_1'), false);
      assert.equal(await store.apis.delete(tenant, 'management'), false);
      assert.ok(await store.apis.get(tenant, 'api_1'));
      assert.deepEqual(await store.grants.get(tenant, 'g'), grant);
    });
  });
}

/** Returns an API whose identifier is a URL with the id. */
export function newApi(tenant: number, id: string, given: Partial<Api> = {}): Api {
  return {
    tenant,
    id,
    identifier: `https://${id}.example`,
    name: id,
    scopes: [],
    enforcePolicies: false,
    tokenDialect: 'access_token',
    tokenLifetimeSeconds: 86_400,
    createdAt: start,
    ...given,
  };
}
