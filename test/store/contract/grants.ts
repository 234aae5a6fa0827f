import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { managementApiId, type Grant } from '../../../src/core/types.ts';
import { newApi } from './apis.ts';
import { carriedJson, newClient } from './clients.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, type Fixture } from './fixture.ts';

export function grantsContract(engine: Engine): void {
  describe(`${engine.name}: grants`, () => {
    test('create: the grant is read as it was created', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const scope = ['read:a', 'read:a', 'ü"\\', 's'.repeat(1000)];
      const grant = newGrant(tenant, 'g', { scope });
      assert.deepEqual(await store.grants.create(grant), { created: grant });
      assert.deepEqual(await store.grants.get(tenant, 'g'), grant);
      assert.deepEqual(await store.grants.of(tenant, 'robot', 'api_1'), grant);
    });

    test('create: the management API has no row and takes grants', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const grant = newGrant(tenant, 'g', { api: managementApiId, scope: [] });
      assert.deepEqual(await store.grants.create(grant), { created: grant });
      assert.deepEqual(await store.grants.of(tenant, 'robot', managementApiId), grant);
    });

    test('create: a client has one grant for an API', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const calls = ['a', 'b', 'c'].map((id) => store.grants.create(newGrant(tenant, id)));
      const results = await Promise.all(calls);
      assert.equal(results.filter((result) => 'created' in result).length, 1);
      const refused = results.filter((result) => 'refused' in result);
      assert.deepEqual(refused, [{ refused: 'exists' }, { refused: 'exists' }]);
      assert.equal((await list(store, tenant)).length, 1);
    });

    test('create: client and API must exist in this tenant', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const other = await addTenant(store, 'other');
      await store.clients.create(newClient(other.id, 'theirs'));
      await store.apis.create(newApi(other.id, 'api_theirs'));
      const create = (given: Partial<Grant>) => store.grants.create(newGrant(tenant, 'g', given));
      assert.deepEqual(await create({ client: 'theirs' }), { refused: 'unknown_client' });
      assert.deepEqual(await create({ api: 'api_theirs' }), { refused: 'unknown_api' });
      assert.deepEqual(await create({ api: 'https://api_1.example' }), { refused: 'unknown_api' });
      assert.deepEqual(await list(store, tenant), []);
    });

    test("get, of, update and delete: another tenant's grant is unknown", async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const other = await addTenant(store, 'other');
      const grant = newGrant(tenant, 'g');
      await store.grants.create(grant);
      assert.equal(await store.grants.get(other.id, 'g'), undefined);
      assert.equal(await store.grants.of(other.id, 'robot', 'api_1'), undefined);
      assert.deepEqual(await store.grants.update(other.id, 'g', () => ({ scope: [] })), {
        refused: 'unknown',
      });
      assert.equal(await store.grants.delete(other.id, 'g'), false);
      assert.deepEqual(await list(store, other.id), []);
      assert.deepEqual(await store.grants.get(tenant, 'g'), grant);
    });

    test('listFrom: pages by id have each grant once, even while some are deleted', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      for (const id of ['b', 'd', 'a', 'c', 'e']) {
        await store.clients.create(newClient(tenant, id));
        await store.grants.create(newGrant(tenant, id, { client: id }));
      }
      const page = async (after: string | undefined) => {
        const { items, next } = await store.grants.listFrom(tenant, { after, take: 2 });
        return [items.map((grant) => grant.id).join(), next];
      };
      assert.deepEqual(await page(undefined), ['a,b', 'b']);
      await store.grants.delete(tenant, 'b');
      assert.deepEqual(await page('b'), ['c,d', 'd']);
      assert.deepEqual(await page('d'), ['e', undefined]);
      assert.deepEqual(await page('zzz'), ['', undefined]);
    });

    test('carried fields are stored, replaced and removed', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const grant = newGrant(tenant, 'a', { carriedJson });
      assert.deepEqual(await store.grants.create(grant), { created: grant });
      assert.deepEqual(await store.grants.get(tenant, 'a'), grant);
      const bare = newGrant(tenant, 'a');
      for (const after of [{ ...grant, carriedJson: '{"a":1}' }, bare]) {
        assert.deepEqual(await store.grants.update(tenant, 'a', () => after), { updated: after });
        assert.deepEqual(await list(store, tenant), [after]);
      }
    });

    test('list: pages by number with the total of the filter', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      for (const id of ['b', 'd', 'a', 'c', 'e']) {
        await store.clients.create(newClient(tenant, id));
        await store.grants.create(newGrant(tenant, id, { client: id }));
      }
      const page = async (number: number, filter: { client?: string; api?: string } = {}) => {
        const result = await store.grants.list(tenant, { page: number, perPage: 2, ...filter });
        assert.ok('items' in result);
        return [result.items.map(({ id }) => id).join(), result.total];
      };
      assert.deepEqual(await page(0), ['a,b', 5]);
      assert.deepEqual(await page(2), ['e', 5]);
      assert.deepEqual(await page(3), ['', 5]);
      assert.deepEqual(await page(0, { client: 'd' }), ['d', 1]);
      assert.deepEqual(await page(0, { client: 'd', api: 'none' }), ['', 0]);
    });

    test('listFrom: a full last page has no next', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      await store.grants.create(newGrant(tenant, 'a'));
      await store.grants.create(newGrant(tenant, 'b', { api: managementApiId }));
      const { items, next } = await store.grants.listFrom(tenant, { after: undefined, take: 2 });
      assert.equal(items.length, 2);
      assert.equal(next, undefined);
    });

    test('listFrom: filters by client, by API, by both', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      await store.clients.create(newClient(tenant, 'second'));
      await store.grants.create(newGrant(tenant, 'a'));
      await store.grants.create(newGrant(tenant, 'b', { api: managementApiId }));
      await store.grants.create(newGrant(tenant, 'c', { client: 'second' }));
      const ids = async (filter: { client?: string; api?: string }) =>
        (await list(store, tenant, filter)).map((grant) => grant.id);
      assert.deepEqual(await ids({ client: 'robot' }), ['a', 'b']);
      assert.deepEqual(await ids({ api: 'api_1' }), ['a', 'c']);
      assert.deepEqual(await ids({ client: 'second', api: 'api_1' }), ['c']);
      assert.deepEqual(await ids({ client: 'nobody' }), []);
      assert.deepEqual(await ids({ client: '' }), []);
    });

    test('update: changes only the scope', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const grant = newGrant(tenant, 'g');
      await store.grants.create(grant);
      const updated = { ...grant, scope: ['write:messages'] };
      assert.deepEqual(
        await store.grants.update(tenant, 'g', () => ({ scope: ['write:messages'] })),
        {
          updated,
        },
      );
      assert.deepEqual(await store.grants.get(tenant, 'g'), updated);
      assert.deepEqual(await store.grants.update(tenant, 'no', () => ({ scope: [] })), {
        refused: 'unknown',
      });
    });

    test('update: decides on the grant and the issuer of its client, and throws what the decision throws', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const issuer = 'https://idp.example/';
      await store.clients.create(newClient(tenant, 'guest', { issuer }));
      const grant = newGrant(tenant, 'g', { client: 'guest' });
      await store.grants.create(grant);
      const refusal = new Error('too much');
      const decide = (before: Grant, client: { issuer: string | undefined }): never => {
        assert.deepEqual([before, client], [grant, { issuer }]);
        throw refusal;
      };
      await assert.rejects(store.grants.update(tenant, 'g', decide), refusal);
      await assert.rejects(
        store.grants.delete(tenant, 'g', (before) => decide(before, { issuer })),
        refusal,
      );
      assert.deepEqual(await store.grants.get(tenant, 'g'), grant);
    });

    test('access: returns what decides about a token of the client', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const other = await addTenant(store, 'other');
      const issuer = 'https://idp.example/';
      await store.clients.create(newClient(tenant, 'guest', { issuer, global: true }));
      const ofManagement = { api: managementApiId, scope: ['read:users'] };
      await store.grants.create(newGrant(tenant, 'm', ofManagement));
      await store.grants.create(newGrant(tenant, 'g', { client: 'guest' }));
      const facts = { credentialsVersion: 1, issuer: undefined };
      const robot = { ...facts, global: false, scopes: ['read:users'] };
      assert.deepEqual(await store.clients.access(tenant, 'robot'), robot);
      const guest = { ...facts, issuer, global: true, scopes: [] };
      assert.deepEqual(await store.clients.access(tenant, 'guest'), guest);
      assert.equal(await store.clients.access(other.id, 'robot'), undefined);
      assert.equal(await store.clients.access(tenant, 'nobody'), undefined);
    });

    test('create, update and delete: hint at the client, whose cached scopes are no longer right', async (t) => {
      const { store, tenant, hints } = await prepared(engine, t);
      const hint = { kind: 'client', tenant, client: 'robot' };
      const before = hints.length;
      await store.grants.create(newGrant(tenant, 'g'));
      await store.grants.update(tenant, 'g', () => ({ scope: [] }));
      await store.grants.delete(tenant, 'g');
      await store.grants.delete(tenant, 'g');
      assert.deepEqual(hints.slice(before), [hint, hint, hint]);
    });

    test('delete: removes the grant once; then the pair may have a grant again', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      await store.grants.create(newGrant(tenant, 'g'));
      assert.equal(await store.grants.delete(tenant, 'g'), true);
      assert.equal(await store.grants.delete(tenant, 'g'), false);
      assert.ok('created' in (await store.grants.create(newGrant(tenant, 'h'))));
    });
  });
}

/** A store with the client `robot` and the API `api_1`. */
async function prepared(engine: Engine, t: TestContext): Promise<Fixture> {
  const fixture = await createFixture(engine, t);
  await fixture.store.clients.create(newClient(fixture.tenant, 'robot'));
  await fixture.store.apis.create(newApi(fixture.tenant, 'api_1'));
  return fixture;
}

function newGrant(tenant: number, id: string, given: Partial<Grant> = {}): Grant {
  return { tenant, id, client: 'robot', api: 'api_1', scope: ['read:messages'], ...given };
}

async function list(
  store: Fixture['store'],
  tenant: number,
  filter: { client?: string; api?: string } = {},
): Promise<readonly Grant[]> {
  const { items } = await store.grants.listFrom(tenant, { ...filter, after: undefined, take: 100 });
  return items;
}
