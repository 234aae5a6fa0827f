import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { decodeJwt } from 'jose';
import type { Credentials } from '../../src/auth/clients.ts';
import { secondTenant } from '../auth/fixture.ts';
import {
  assertNotFound,
  assertLacksScope,
  assertNeedsScope,
  type ScopedOperation,
  assertProblem,
  openApiFixture,
  type ApiFixture,
} from './fixture.ts';

const management = 'https://localhost:8080/api/v2/';
const orders = 'urn:orders';
let fixture: ApiFixture;
/** A new role for every test. */
let role: string;
let made = 0;

before(async () => {
  fixture = await openApiFixture({}, { domain: 'localhost:8080' });
  const scopes = ['read:orders', 'write:orders', 'a'].map((value) => ({ value }));
  const authz = { enforce_policies: true, token_dialect: 'access_token_authz', scopes };
  await post('/resource-servers', { identifier: orders, ...authz });
  await post('/resource-servers', { identifier: 'urn:other', ...authz });
  await post('/resource-servers', { identifier: 'urn:plain', ...authz, enforce_policies: false });
  const dialect = { ...authz, token_dialect: 'access_token' };
  await post('/resource-servers', { identifier: 'urn:dialect', ...dialect });
});
after(() => fixture.close());
beforeEach(async () => {
  role = (await create()).id;
});

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function post(path: string, body: object, status = 201): Promise<any> {
  const response = await fixture.send('POST', path, body);
  assert.equal(response.status, status, response.text);
  return response.body;
}

async function create(fields: object = {}): Promise<{ id: string; name: string }> {
  made += 1;
  return post('/roles', { name: `role ${made}`, ...fields }, 200);
}

async function get(path: string): Promise<unknown> {
  const response = await fixture.send('GET', path);
  assert.equal(response.status, 200, response.text);
  return response.body as unknown;
}

function permissions(...names: string[]): object {
  return { permissions: names.map((name) => permission(name)) };
}

function permission(name: string, api = orders): object {
  return { resource_server_identifier: api, permission_name: name };
}

async function addUser(): Promise<string> {
  made += 1;
  const user = await post('/users', {
    email: `user-${made}@example.com`,
    password: 'correct-horse-battery',
    connection: 'Username-Password-Authentication',
  });
  return user.user_id;
}

describe('/roles', () => {
  test('roles can be created, read, changed and deleted', async () => {
    const response = await fixture.send('POST', '/roles', {
      name: 'keepers',
      description: 'of keys',
    });
    assert.equal(response.status, 200);
    const { id } = response.body as { id: string };
    assert.match(id, /^rol_[0-9a-zA-Z]{16}$/);
    assert.deepEqual(response.body, { id, name: 'keepers', description: 'of keys' });
    assert.deepEqual(await get(`/roles/${id}`), response.body);

    const patched = await fixture.send('PATCH', `/roles/${id}`, { description: '' });
    assert.deepEqual(
      [patched.status, patched.body],
      [200, { id, name: 'keepers', description: '' }],
    );
    const renamed = await fixture.send('PATCH', `/roles/${id}`, { name: 'porters' });
    assert.equal(renamed.body.name, 'porters');

    for (const which of ['existing', 'deleted']) {
      const deleted = await fixture.send('DELETE', `/roles/${id}`);
      assert.deepEqual([deleted.status, deleted.body], [200, {}], which);
    }
    assertNotFound(await fixture.send('GET', `/roles/${id}`), 'role');
    const late = await fixture.send('PATCH', `/roles/${id}`, { name: 'x' });
    assertNotFound(late, 'role');
  });

  test('/roles accepts a name of 255 characters, in a new role and in a change', async () => {
    for (const character of ['x', 'ä', '界']) {
      const { id } = await create();
      const name = character.repeat(255);
      assert.equal((await fixture.send('PATCH', `/roles/${id}`, { name })).body.name, name);
      await fixture.send('DELETE', `/roles/${id}`);
      assert.equal((await fixture.send('POST', '/roles', { name })).body.name, name);
      const longer = await fixture.send('PATCH', `/roles/${role}`, { name: `${name}x` });
      assert.equal(longer.body.errorCode, 'invalid_body');
    }
  });

  test('/roles rejects a name in use', async () => {
    const { name } = await create();
    const message = 'The role already exists.';
    assertProblem(await fixture.send('POST', '/roles', { name }), 409, message, 'already_exists');
    const renamed = await fixture.send('PATCH', `/roles/${role}`, { name });
    assertProblem(renamed, 409, message, 'already_exists');
  });

  test('the error of an invalid body names the property', async () => {
    const wrong: [object, string][] = [
      [{}, 'name'],
      [{ name: '' }, 'name'],
      [{ name: 'x'.repeat(256) }, 'name'],
      [{ name: 7 }, 'name'],
      [{ name: 'x', description: null }, 'description'],
      [{ name: 'x', description: 'x'.repeat(256) }, 'description'],
      [{ name: 'x', id: 'rol_1' }, 'id'],
    ];
    for (const [body, property] of wrong) {
      const response = await fixture.send('POST', '/roles', body);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.errorCode, 'invalid_body');
      assert.ok(response.text.includes(property), response.text);
    }
  });

  test('roles are listed oldest first, by page number, with totals on request', async () => {
    const { total } = (await get('/roles?include_totals=true')) as { total: number };
    fixture.auth.clock.move(1);
    const last = await create();
    const page = await get(`/roles?per_page=1&page=${total}&include_totals=true`);
    const shown = { id: last.id, name: last.name, description: '' };
    assert.deepEqual(page, { start: total, limit: 1, total: total + 1, length: 1, roles: [shown] });
    assert.deepEqual(await get(`/roles?per_page=1&page=${total}`), [shown]);
    assert.deepEqual(await get(`/roles?per_page=1&page=${total + 1}`), []);
  });

  test('a role belongs to one tenant', async (t) => {
    // A separate fixture: with two tenants every request has to name the host of one.
    const two = await openApiFixture();
    t.after(() => two.close());
    const { id } = (await two.send('POST', '/roles', { name: 'keepers' })).body as { id: string };
    const { tenant } = await secondTenant(two.auth);
    const { roles } = two.auth.store;
    assert.equal((await roles.get(two.auth.tenant.id, id))?.name, 'keepers');
    assert.equal(await roles.get(tenant.id, id), undefined);
  });
});

describe('the permissions of a role', () => {
  test('permissions are added once, listed and removed', async () => {
    const path = `/roles/${role}/permissions`;
    assert.deepEqual(await post(path, permissions('write:orders', 'a')), {});
    assert.deepEqual(await post(path, permissions('a')), {});
    const listed = [permission('a'), permission('write:orders')];
    assert.deepEqual(await get(path), listed);
    const totals = await get(`${path}?include_totals=true&per_page=1`);
    assert.deepEqual(totals, {
      start: 0,
      limit: 1,
      total: 2,
      length: 1,
      permissions: listed.slice(0, 1),
    });
    const removed = await fixture.send('DELETE', path, permissions('a', 'read:orders'));
    assert.deepEqual([removed.status, removed.text], [204, '']);
    assert.deepEqual(await get(path), [permission('write:orders')]);
  });

  test('the permissions of a role accepts any audience of the management API', async () => {
    const path = `/roles/${role}/permissions`;
    for (const form of [management, '/api/v2/', 'http://localhost:8080/api/v2/']) {
      await post(path, { permissions: [permission('read:users', form)] });
    }
    assert.deepEqual(await get(path), [permission('read:users', management)]);
  });

  test('the permissions of a role rejects a permission that is not a scope of an existing API', async () => {
    const path = `/roles/${role}/permissions`;
    const unknown = await fixture.send('POST', path, permissions('a', 'no:such'));
    const where = 'property permissions.1.permission_name (A scope, without spaces).';
    assertProblem(
      unknown,
      400,
      `Payload validation error: 'The API has no scope no:such: add it to the API first' on ${where}`,
      'invalid_body',
    );
    const missing = { permissions: [permission('a', 'urn:none')] };
    assertNotFound(await fixture.send('POST', path, missing), 'api');
    assert.deepEqual(await get(path), []);
  });
});

describe('the users and clients of a role', () => {
  test('users of a role are added, listed by cursor, and removed', async () => {
    const path = `/roles/${role}/users`;
    const users = [await addUser(), await addUser(), await addUser()].toSorted();
    assert.deepEqual(await post(path, { users }, 200), {});
    const listed = users.map((id) => ({ user_id: id }));
    const first = (await get(`${path}?take=2`)) as { users: object[]; next: string };
    assert.deepEqual(first.users, listed.slice(0, 2));
    assert.deepEqual(await get(`${path}?take=2&from=${first.next}`), { users: listed.slice(2) });
    const removed = await fixture.send('DELETE', path, { users: users.slice(1) });
    assert.equal(removed.status, 204);
    assert.deepEqual(await get(path), { users: listed.slice(0, 1) });
    const unknown = await fixture.send('POST', path, { users: ['leat|none'] });
    assertNotFound(unknown, 'user');
    const from = await fixture.send('GET', `${path}?from=nonsense`);
    assert.deepEqual([from.status, from.body.errorCode], [400, 'invalid_query_string']);
  });

  test('clients of a role are added, listed by page number, and removed', async () => {
    const path = `/roles/${role}/clients`;
    const clients = [await fixture.auth.client(), await fixture.auth.client()]
      .map(({ clientId }) => clientId)
      .toSorted();
    assert.deepEqual(await post(path, { clients }, 200), {});
    assert.deepEqual(await get(path), clients);
    const page = await get(`${path}?page=1&per_page=1&include_totals=true`);
    assert.deepEqual(page, { start: 1, limit: 1, total: 2, length: 1, clients: clients.slice(1) });
    assert.equal((await fixture.send('DELETE', path, { clients })).status, 204);
    assert.deepEqual(await get(path), []);
    const unknown = await fixture.send('POST', path, { clients: ['none'] });
    assertNotFound(unknown, 'client');
  });

  test('permissions, users and clients of an unknown role are 404', async () => {
    const bodies = {
      permissions: permissions('a'),
      users: { users: [await addUser()] },
      clients: { clients: [(await fixture.auth.client()).clientId] },
    };
    for (const [noun, body] of Object.entries(bodies)) {
      const path = `/roles/rol_none/${noun}`;
      for (const [method, sent] of [['GET'], ['POST', body], ['DELETE', body]] as const) {
        assertNotFound(await fixture.send(method, path, sent), 'role');
      }
    }
  });

  test('a 404 names the one of several members that does not exist', async () => {
    const { clientId } = fixture.auth.manager;
    for (const [noun, known, message] of [
      ['users', await addUser(), 'The user does not exist: nobody'],
      ['clients', clientId, 'The client does not exist: nobody'],
    ] as const) {
      const sent = { [noun]: [known, 'nobody', 'none'] };
      const { status, body } = await fixture.send('POST', `/roles/${role}/${noun}`, sent);
      assert.deepEqual([status, body.message], [404, message]);
    }
    const unknown = { permissions: [permission('a', 'urn:nobody')] };
    const response = await fixture.send('POST', `/roles/${role}/permissions`, unknown);
    assert.equal(response.body.message, 'The resource server does not exist: urn:nobody');
  });

  test('a request adds 1 to 50 users or clients', async () => {
    const many = Array.from({ length: 51 }, (_, index) => `x${index}`);
    for (const noun of ['users', 'clients']) {
      for (const items of [[], many, 'x', [''], [7]]) {
        const response = await fixture.send('POST', `/roles/${role}/${noun}`, { [noun]: items });
        assert.deepEqual([response.status, response.body.errorCode], [400, 'invalid_body']);
      }
    }
  });
});

describe('the scopes of roles', () => {
  test('each operation needs its scope', async () => {
    const operations: ScopedOperation[] = [
      ['GET', '/roles', 'read:roles'],
      ['POST', '/roles', 'create:roles', {}],
      ['GET', `/roles/${role}`, 'read:roles'],
      ['PATCH', `/roles/${role}`, 'update:roles', {}],
      ['DELETE', `/roles/${role}`, 'delete:roles'],
      ['GET', `/roles/${role}/permissions`, 'read:roles'],
      ['POST', `/roles/${role}/permissions`, 'update:roles', {}],
      ['DELETE', `/roles/${role}/permissions`, 'update:roles', {}],
      ...['users', 'clients'].flatMap((noun): ScopedOperation[] => [
        ['GET', `/roles/${role}/${noun}`, 'read:role_members'],
        ['POST', `/roles/${role}/${noun}`, 'create:role_members', {}],
        ['DELETE', `/roles/${role}/${noun}`, 'delete:role_members', {}],
      ]),
    ];
    for (const operation of operations) await assertNeedsScope(fixture, operation);
  });

  test('a caller can add only its own scopes of the management API to a role', async () => {
    const path = `/roles/${role}/permissions`;
    const both = ['read:users', 'delete:users'].map((name) => permission(name, management));
    const weak = await fixture.headersWith('update:roles', 'read:users');
    const refused = await fixture.send('POST', path, { permissions: both }, weak);
    assertLacksScope(refused, 'delete:users');
    assert.deepEqual(await get(path), []);
    const own = { permissions: both.slice(0, 1) };
    assert.equal((await fixture.send('POST', path, own, weak)).status, 201);
    assert.equal((await fixture.send('POST', path, permissions('a'), weak)).status, 201);
    const none = await fixture.headersWith('update:roles');
    const kept = await fixture.send('DELETE', path, own, none);
    assertLacksScope(kept, 'read:users');
    assert.equal((await fixture.send('DELETE', path, own, weak)).status, 204);
    assert.equal((await fixture.send('DELETE', path, permissions('a'), none)).status, 204);
  });

  test('a caller cannot assign a role with scopes that it lacks', async () => {
    const { clientId } = await fixture.auth.client();
    await post(`/roles/${role}/permissions`, permissions('a'));
    const path = `/roles/${role}/clients`;
    const weak = await fixture.headersWith('create:role_members');
    assert.equal((await fixture.send('POST', path, { clients: [clientId] }, weak)).status, 200);
    const strong = { permissions: [permission('read:users', management)] };
    await post(`/roles/${role}/permissions`, strong);
    const refused = await fixture.send('POST', path, { clients: [clientId] }, weak);
    assertLacksScope(refused, 'read:users');
  });

  test('a caller cannot rename or describe a role with scopes that it lacks', async () => {
    const path = `/roles/${role}`;
    const weak = await fixture.headersWith('update:roles');
    const renamed = await fixture.send('PATCH', path, { name: 'weak' }, weak);
    assert.equal(renamed.status, 200);
    await post(`${path}/permissions`, { permissions: [permission('read:users', management)] });
    for (const change of [{ name: 'readers' }, { description: 'Harmless' }]) {
      assertLacksScope(await fixture.send('PATCH', path, change, weak), 'read:users');
    }
    const same = await fixture.send('PATCH', path, { name: 'weak' }, weak);
    assert.deepEqual([same.status, same.body.name, same.body.description], [200, 'weak', '']);
    const strong = await fixture.headersWith('update:roles', 'read:users');
    assert.equal((await fixture.send('PATCH', path, { name: 'readers' }, strong)).status, 200);
  });

  test('a caller cannot take away or delete a role with scopes that it lacks', async () => {
    const { clientId } = await fixture.auth.client();
    const strong = { permissions: [permission('read:users', management)] };
    await post(`/roles/${role}/permissions`, strong);
    const path = `/roles/${role}/clients`;
    await post(path, { clients: [clientId] }, 200);
    const weak = await fixture.headersWith('delete:role_members', 'delete:roles');
    const taken = await fixture.send('DELETE', path, { clients: [clientId] }, weak);
    assertLacksScope(taken, 'read:users');
    const gone = await fixture.send('DELETE', `/roles/${role}`, undefined, weak);
    assertLacksScope(gone, 'read:users');
    assert.deepEqual(await get(path), [clientId]);
    assert.equal((await fixture.send('DELETE', path, { clients: [clientId] })).status, 204);
    assert.equal((await fixture.send('DELETE', `/roles/${role}`)).status, 200);
  });
});

describe('the permissions in a token', () => {
  let client: Credentials;
  let grant: string;

  beforeEach(async () => {
    client = await fixture.auth.client({ global: false });
    const sent = { client_id: client.clientId, audience: orders, scope: ['read:orders'] };
    grant = (await post('/client-grants', sent)).id;
    await post(`/roles/${role}/clients`, { clients: [client.clientId] }, 200);
  });

  async function claims(audience = orders, scope?: string): Promise<Record<string, unknown>> {
    const { clientId: client_id, clientSecret: client_secret } = client;
    const response = await fixture.auth.requestToken({
      grant_type: 'client_credentials',
      client_id,
      client_secret,
      audience,
      ...(scope === undefined ? {} : { scope }),
    });
    assert.equal(response.status, 200, JSON.stringify(response.body));
    return decodeJwt(String(response.body['access_token']));
  }

  test('a token has the scopes of the grant and of the roles, each once and sorted', async () => {
    assert.deepEqual((await claims())['permissions'], ['read:orders']);
    await post(`/roles/${role}/permissions`, permissions('write:orders', 'read:orders', 'a'));
    const { permissions: held, scope } = await claims();
    assert.deepEqual(held, ['a', 'read:orders', 'write:orders']);
    assert.equal(scope, 'read:orders', 'a role adds no scope');
  });

  test('a requested scope reduces the permissions, and can be one of a role', async () => {
    await fixture.send('PATCH', `/client-grants/${grant}`, { scope: ['a', 'read:orders'] });
    await post(`/roles/${role}/permissions`, permissions('write:orders'));
    for (const asked of ['a', 'write:orders']) {
      const { permissions: held, scope } = await claims(orders, asked);
      assert.deepEqual([held, scope], [[asked], asked]);
    }
  });

  test('a token has no permissions of other APIs', async () => {
    const other = { permissions: [permission('write:orders', 'urn:other')] };
    await post(`/roles/${role}/permissions`, other);
    assert.deepEqual((await claims())['permissions'], ['read:orders']);
  });

  test('a token has permissions only if the API enables RBAC and its dialect includes them', async () => {
    for (const audience of ['urn:plain', 'urn:dialect', 'urn:other']) {
      await post('/client-grants', { client_id: client.clientId, audience, scope: [] });
      await post(`/roles/${role}/permissions`, { permissions: [permission('a', audience)] });
    }
    assert.equal((await claims('urn:plain'))['permissions'], undefined);
    assert.equal((await claims('urn:dialect'))['permissions'], undefined);
    assert.deepEqual((await claims('urn:other'))['permissions'], ['a']);
    await fixture.send('DELETE', `/roles/${role}`);
    assert.deepEqual((await claims('urn:other'))['permissions'], []);
  });

  test('a role alone gives no access to an API', async () => {
    await post(`/roles/${role}/permissions`, permissions('a'));
    await fixture.send('DELETE', `/client-grants/${grant}`);
    const { clientId: client_id, clientSecret: client_secret } = client;
    const parameters = { grant_type: 'client_credentials', client_id, client_secret };
    const refused = await fixture.auth.requestToken({ ...parameters, audience: orders });
    assert.equal(refused.status, 403);
    assert.equal(
      refused.body['error_description'],
      `Client is not authorized to access "${orders}".`,
    );
  });

  test('removing a permission, a client of the role, or the role takes effect with the next token', async () => {
    const path = `/roles/${role}/permissions`;
    await post(path, permissions('a', 'write:orders'));
    await fixture.send('DELETE', path, permissions('a'));
    assert.deepEqual((await claims())['permissions'], ['read:orders', 'write:orders']);
    await fixture.send('DELETE', `/roles/${role}/clients`, { clients: [client.clientId] });
    assert.deepEqual((await claims())['permissions'], ['read:orders']);
    await post(`/roles/${role}/clients`, { clients: [client.clientId] }, 200);
    assert.deepEqual((await claims())['permissions'], ['read:orders', 'write:orders']);
    await fixture.send('DELETE', `/roles/${role}`);
    assert.deepEqual((await claims())['permissions'], ['read:orders']);
  });
});
