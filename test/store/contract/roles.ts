import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { managementApiId, type Role } from '../../../src/core/types.ts';
import { newApi } from './apis.ts';
import { carriedJson, newClient } from './clients.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, newEvent, type Fixture } from './fixture.ts';

const all = { page: 0, perPage: 100 };
const from = (after?: string, take = 100) => ({ after, take });

export function rolesContract(engine: Engine): void {
  describe(`${engine.name}: roles`, () => {
    test('create: the role is read as it was created; a name is unique in a tenant', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const role = newRole(tenant, 'r', { name: 'ü"\\', description: '' });
      assert.deepEqual(await store.roles.create(role), { created: role });
      assert.deepEqual(await store.roles.get(tenant, 'r'), role);
      assert.deepEqual(await store.roles.byName(tenant, role.name), role);
      const other = await addTenant(store, 'other');
      assert.deepEqual(await store.roles.create({ ...role, id: 's' }), { refused: 'name_taken' });
      assert.ok('created' in (await store.roles.create({ ...role, tenant: other.id })));
      assert.equal(await store.roles.get(tenant, 's'), undefined);
      assert.equal(await store.roles.byName(tenant, 'none'), undefined);
    });

    test('list: numbered pages, oldest first', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      for (const [index, id] of ['c', 'b', 'a'].entries()) {
        await store.roles.create(newRole(tenant, id, { name: id, createdAt: index }));
      }
      const ids = async (page: number): Promise<[string[], number]> => {
        const { items, total } = await store.roles.list(tenant, { page, perPage: 2 });
        return [items.map(({ id }) => id), total];
      };
      assert.deepEqual(await ids(0), [['c', 'b'], 3]);
      assert.deepEqual(await ids(1), [['a'], 3]);
      assert.deepEqual(await ids(2), [[], 3]);
    });

    test('carried fields are stored, and stay after a change', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      const role = newRole(tenant, 'r', { carriedJson });
      assert.deepEqual(await store.roles.create(role), { created: role });
      const result = await store.roles.update(tenant, 'r', (before) => ({ ...before, name: 'n' }));
      assert.deepEqual(result, { updated: { ...role, name: 'n' } });
      assert.deepEqual(await store.roles.get(tenant, 'r'), { ...role, name: 'n' });
      assert.deepEqual(await store.roles.byName(tenant, 'n'), { ...role, name: 'n' });
    });

    test('list: names that contain a text, in any case of a to z', async (t) => {
      const { store, tenant } = await prepared(engine, t);
      for (const [index, name] of ['Order-Reader', 'ÄRZTE', '100%_a', 'a\\b'].entries()) {
        await store.roles.create(newRole(tenant, `${index}`, { name, createdAt: index }));
      }
      const found = async (nameFilter: string): Promise<string> => {
        const { items, total } = await store.roles.list(tenant, {
          page: 0,
          perPage: 9,
          nameFilter,
        });
        assert.equal(items.length, total, nameFilter);
        return items.map(({ id }) => id).join();
      };
      assert.equal(await found('order'), '0');
      assert.equal(await found('R-rEAd'), '0');
      assert.equal(await found('Ärz'), '1');
      assert.equal(await found('ärz'), '');
      assert.equal(await found('%'), '2');
      assert.equal(await found('_A'), '2');
      assert.equal(await found('\\'), '3');
      assert.equal(await found(''), '0,1,2,3');
      assert.equal(await found('x'.repeat(10_000)), '');
    });

    test('update: changes only name and description, and refuses a taken name', async (t) => {
      const { store, tenant } = await withRole(engine, t);
      await store.roles.create(newRole(tenant, 's', { name: 'second' }));
      const changed = { name: 'new', description: 'changed' };
      const result = await store.roles.update(tenant, 'r', (before) => {
        return { ...before, ...changed, id: 'x', createdAt: 0 };
      });
      assert.deepEqual(result, { updated: newRole(tenant, 'r', changed) });
      assert.deepEqual(await store.roles.get(tenant, 'r'), newRole(tenant, 'r', changed));
      const old = newRole(tenant, 'old', { name: 'Cafe\u0301' });
      assert.deepEqual(await store.roles.create(old), { created: old });
      for (const name of ['second', 'Café']) {
        const rename = (before: Role): Role => ({ ...before, name });
        assert.deepEqual(await store.roles.update(tenant, 'r', rename), { refused: 'name_taken' });
        const again = newRole(tenant, 'again', { name });
        assert.deepEqual(await store.roles.create(again), { refused: 'name_taken' });
      }
      const normal = await store.roles.update(tenant, 'old', (role) => ({ ...role, name: 'Café' }));
      assert.ok('updated' in normal);
      const same = (before: Role): Role => ({ ...before, name: 'second' });
      assert.ok('updated' in (await store.roles.update(tenant, 's', same)));
      assert.deepEqual(await store.roles.update(tenant, 'no', same), { refused: 'unknown' });
    });

    test('addPermissions: all or none, each once, in order', async (t) => {
      const { store, tenant } = await withRole(engine, t);
      const [a, b] = ['a', 'b'].map((name) => ({ api: 'api_1', name }));
      const manage = { api: managementApiId, name: 'read:users' };
      assert.ok(a !== undefined && b !== undefined);
      const missing = { api: 'api_9', name: 'a' };
      const { roles } = store;
      assert.equal(await roles.addPermissions(tenant, 'r', [b, missing]), 'unknown_api');
      assert.equal(await roles.addPermissions(tenant, 'no', [b]), 'unknown_role');
      assert.deepEqual(await roles.permissions(tenant, 'r', all), { items: [], total: 0 });
      assert.equal(await roles.addPermissions(tenant, 'r', [manage, b, a, b]), 'added');
      assert.equal(await roles.addPermissions(tenant, 'r', [a]), 'added');
      const listed = { items: [a, b, manage], total: 3 };
      assert.deepEqual(await roles.permissions(tenant, 'r', all), listed);
      const second = await roles.permissions(tenant, 'r', { page: 1, perPage: 2 });
      assert.deepEqual(second, { items: [manage], total: 3 });
    });

    test('removePermissions: a permission that the role does not have is no error', async (t) => {
      const { store, tenant } = await withRole(engine, t);
      const { roles } = store;
      const a = { api: 'api_1', name: 'a' };
      await roles.addPermissions(tenant, 'r', [a]);
      assert.equal(await roles.removePermissions(tenant, 'no', [a]), false);
      const other = { api: 'api_1', name: 'other' };
      assert.equal(await roles.removePermissions(tenant, 'r', [other, a]), true);
      assert.deepEqual(await roles.permissions(tenant, 'r', all), { items: [], total: 0 });
      assert.equal(await roles.removePermissions(tenant, 'r', [a]), true);
    });

    test('addClients: all or none, each once, in order; removeClients', async (t) => {
      const { store, tenant } = await withRole(engine, t);
      await store.clients.create(newClient(tenant, 'another'));
      const { roles } = store;
      assert.equal(await roles.addClients(tenant, 'r', ['robot', 'no']), 'unknown_client');
      assert.equal(await roles.addClients(tenant, 'no', ['robot']), 'unknown_role');
      assert.deepEqual(await roles.clients(tenant, 'r', all), { items: [], total: 0 });
      assert.equal(await roles.addClients(tenant, 'r', ['robot', 'another', 'robot']), 'added');
      const both = { items: ['another', 'robot'], total: 2 };
      assert.deepEqual(await roles.clients(tenant, 'r', all), both);
      const second = await roles.clients(tenant, 'r', { page: 1, perPage: 1 });
      assert.deepEqual(second, { items: ['robot'], total: 2 });
      assert.equal(await roles.removeClients(tenant, 'r', ['robot', 'no']), true);
      assert.equal(await roles.removeClients(tenant, 'no', ['robot']), false);
      assert.deepEqual((await roles.clients(tenant, 'r', all)).items, ['another']);
    });

    test('addUsers: all or none, each once, in order, page by page; removeUsers', async (t) => {
      const { store, tenant } = await withRole(engine, t);
      for (const id of ['leat|b', 'leat|a', 'leat|c']) await addUser(store, tenant, id);
      const { roles } = store;
      assert.equal(await roles.addUsers(tenant, 'r', ['leat|a', 'no']), 'unknown_user');
      assert.equal(await roles.addUsers(tenant, 'no', ['leat|a']), 'unknown_role');
      assert.deepEqual((await roles.usersFrom(tenant, 'r', from())).items, []);
      assert.equal(await roles.addUsers(tenant, 'r', ['leat|c', 'leat|a', 'leat|b']), 'added');
      assert.equal(await roles.addUsers(tenant, 'r', ['leat|a']), 'added');
      const first = await roles.usersFrom(tenant, 'r', from(undefined, 2));
      assert.deepEqual(first, { items: ['leat|a', 'leat|b'], next: 'leat|b' });
      const numbered = await roles.users(tenant, 'r', { page: 1, perPage: 2 });
      assert.deepEqual(numbered, { items: ['leat|c'], total: 3 });
      const last = await roles.usersFrom(tenant, 'r', from(first.next, 2));
      assert.deepEqual(last, { items: ['leat|c'], next: undefined });
      assert.equal(await roles.removeUsers(tenant, 'r', ['leat|b', 'no']), true);
      assert.equal(await roles.removeUsers(tenant, 'no', ['leat|b']), false);
      assert.deepEqual((await roles.usersFrom(tenant, 'r', from())).items, ['leat|a', 'leat|c']);
    });

    test('permissionsOf: returns those of all roles of the client, for this API, each once, sorted', async (t) => {
      const { store, tenant } = await withRole(engine, t);
      const { roles } = store;
      await store.apis.create(newApi(tenant, 'api_2'));
      await roles.create(newRole(tenant, 's', { name: 's' }));
      await roles.create(newRole(tenant, 'unheld', { name: 'unheld' }));
      const of = (api: string, ...names: string[]) => names.map((name) => ({ api, name }));
      await roles.addPermissions(tenant, 'r', of('api_1', 'c', 'a'));
      await roles.addPermissions(tenant, 's', [...of('api_1', 'b', 'a'), ...of('api_2', 'x')]);
      await roles.addPermissions(tenant, 'unheld', of('api_1', 'z'));
      await roles.addClients(tenant, 'r', ['robot']);
      await roles.addClients(tenant, 's', ['robot']);
      assert.deepEqual(await roles.permissionsOf(tenant, 'robot', 'api_1'), ['a', 'b', 'c']);
      assert.deepEqual(await roles.permissionsOf(tenant, 'robot', 'api_2'), ['x']);
      assert.deepEqual(await roles.permissionsOf(tenant, 'other', 'api_1'), []);
      const other = await addTenant(store, 'other');
      assert.deepEqual(await roles.permissionsOf(other.id, 'robot', 'api_1'), []);
    });

    test('delete: removes a client, user or API from every role, and a new one has no role', async (t) => {
      const { store, tenant } = await withRole(engine, t);
      const { roles } = store;
      const fill = async (): Promise<void> => {
        await roles.addPermissions(tenant, 'r', [{ api: 'api_1', name: 'a' }]);
        await roles.addClients(tenant, 'r', ['robot']);
        await roles.addUsers(tenant, 'r', ['leat|a']);
      };
      await addUser(store, tenant, 'leat|a');
      await fill();
      await store.apis.delete(tenant, 'api_1');
      await store.clients.delete(tenant, 'robot');
      await store.users.delete(tenant, 'leat|a', () => newEvent());
      await store.apis.create(newApi(tenant, 'api_1'));
      await store.clients.create(newClient(tenant, 'robot'));
      await addUser(store, tenant, 'leat|a');
      const contents = async (): Promise<number[]> => [
        (await roles.permissions(tenant, 'r', all)).total,
        (await roles.clients(tenant, 'r', all)).total,
        (await roles.usersFrom(tenant, 'r', from())).items.length,
      ];
      assert.deepEqual(await contents(), [0, 0, 0]);
      await fill();
      assert.deepEqual(await contents(), [1, 1, 1]);
      assert.equal(await roles.delete(tenant, 'r'), true);
      assert.equal(await roles.delete(tenant, 'r'), false);
      await roles.create(newRole(tenant, 'r'));
      assert.deepEqual(await contents(), [0, 0, 0]);
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

async function withRole(engine: Engine, t: TestContext): Promise<Fixture> {
  const fixture = await prepared(engine, t);
  await fixture.store.roles.create(newRole(fixture.tenant, 'r'));
  return fixture;
}

function newRole(tenant: number, id: string, given: Partial<Role> = {}): Role {
  return { tenant, id, name: 'first', description: 'the first', createdAt: 7, ...given };
}

async function addUser(store: Fixture['store'], tenant: number, id: string): Promise<void> {
  const user = {
    tenant,
    id,
    connection: 'Username-Password-Authentication',
    email: `${id.slice(5)}@example.com`,
    username: undefined,
    passwordHash: '',
    profileJson: '{}',
    createdAt: 0,
    updatedAt: 0,
  };
  assert.ok('created' in (await store.users.create(user, newEvent())));
}
