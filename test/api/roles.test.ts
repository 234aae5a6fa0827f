import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { decodeJwt } from 'jose';
import type { Credentials } from '../../src/auth/clients.ts';
import { secondTenant } from '../auth/fixture.ts';
import { allScopesBut, openSite, type Received, type Site } from './fixture.ts';

const management = 'https://localhost:8080/api/v2/';
const orders = 'urn:orders';
let site: Site;
/** A role of its own for every test. */
let role: string;
let made = 0;

before(async () => {
  site = await openSite({}, { domain: 'localhost:8080' });
  const scopes = ['read:orders', 'write:orders', 'a'].map((value) => ({ value }));
  const authz = { enforce_policies: true, token_dialect: 'access_token_authz', scopes };
  await post('/resource-servers', { identifier: orders, ...authz });
  await post('/resource-servers', { identifier: 'urn:other', ...authz });
  await post('/resource-servers', { identifier: 'urn:plain', ...authz, enforce_policies: false });
  const dialect = { ...authz, token_dialect: 'access_token' };
  await post('/resource-servers', { identifier: 'urn:dialect', ...dialect });
});
after(() => site.close());
beforeEach(async () => {
  role = (await create()).id;
});

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function post(path: string, body: object, status = 201): Promise<any> {
  const answer = await site.send('POST', path, body);
  assert.equal(answer.status, status, answer.text);
  return answer.body;
}

async function create(given: object = {}): Promise<{ id: string; name: string }> {
  made += 1;
  return post('/roles', { name: `role ${made}`, ...given });
}

async function get(path: string): Promise<unknown> {
  const answer = await site.send('GET', path);
  assert.equal(answer.status, 200, answer.text);
  return answer.body as unknown;
}

async function withScopes(...scopes: string[]): Promise<Record<string, string>> {
  return { authorization: `Bearer ${await site.tokenWith(...scopes)}` };
}

function assertRefused(answer: Received, status: number, message: string, code?: string): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.body.message, message);
  assert.equal(answer.body.errorCode, code);
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
  test('POST answers the role; GET, PATCH and DELETE find it', async () => {
    const answer = await site.send('POST', '/roles', { name: 'keepers', description: 'of keys' });
    assert.equal(answer.status, 201);
    const { id } = answer.body as { id: string };
    assert.match(id, /^rol_[0-9a-zA-Z]{16}$/);
    assert.deepEqual(answer.body, { id, name: 'keepers', description: 'of keys' });
    assert.deepEqual(await get(`/roles/${id}`), answer.body);

    const patched = await site.send('PATCH', `/roles/${id}`, { description: '' });
    assert.deepEqual(
      [patched.status, patched.body],
      [200, { id, name: 'keepers', description: '' }],
    );
    const renamed = await site.send('PATCH', `/roles/${id}`, { name: 'porters' });
    assert.equal(renamed.body.name, 'porters');

    assert.equal((await site.send('DELETE', `/roles/${id}`)).status, 204);
    assert.equal((await site.send('DELETE', `/roles/${id}`)).status, 204);
    assertRefused(await site.send('GET', `/roles/${id}`), 404, 'The role does not exist.');
    const late = await site.send('PATCH', `/roles/${id}`, { name: 'x' });
    assertRefused(late, 404, 'The role does not exist.');
  });

  test('a name is used once', async () => {
    const { name } = await create();
    const message = 'The role already exists.';
    assertRefused(await site.send('POST', '/roles', { name }), 409, message, 'already_exists');
    const renamed = await site.send('PATCH', `/roles/${role}`, { name });
    assertRefused(renamed, 409, message, 'already_exists');
  });

  test('a body that is wrong is told where', async () => {
    const wrong: [object, string][] = [
      [{}, 'name'],
      [{ name: '' }, 'name'],
      [{ name: 'x'.repeat(51) }, 'name'],
      [{ name: 7 }, 'name'],
      [{ name: 'x', description: null }, 'description'],
      [{ name: 'x', description: 'x'.repeat(256) }, 'description'],
      [{ name: 'x', id: 'rol_1' }, 'id'],
    ];
    for (const [body, property] of wrong) {
      const answer = await site.send('POST', '/roles', body);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.body.errorCode, 'invalid_body');
      assert.ok(answer.text.includes(property), answer.text);
    }
  });

  test('are listed oldest first, by number, with totals where wanted', async () => {
    const { total } = (await get('/roles?include_totals=true')) as { total: number };
    site.house.clock.move(1);
    const last = await create();
    const page = await get(`/roles?per_page=1&page=${total}&include_totals=true`);
    const shown = { id: last.id, name: last.name, description: '' };
    assert.deepEqual(page, { start: total, limit: 1, total: total + 1, roles: [shown] });
    assert.deepEqual(await get(`/roles?per_page=1&page=${total}`), [shown]);
    assert.deepEqual(await get(`/roles?per_page=1&page=${total + 1}`), []);
  });

  test('are those of their tenant', async (t) => {
    // On a site of its own: where there are two tenants, a request has to name the host of one.
    const two = await openSite();
    t.after(() => two.close());
    const { id } = (await two.send('POST', '/roles', { name: 'keepers' })).body as { id: string };
    const { tenant } = await secondTenant(two.house);
    const { roles } = two.house.store;
    assert.equal((await roles.get(two.house.tenant.id, id))?.name, 'keepers');
    assert.equal(await roles.get(tenant.id, id), undefined);
  });
});

describe('the permissions of a role', () => {
  test('are added once, listed and removed', async () => {
    const path = `/roles/${role}/permissions`;
    assert.deepEqual(await post(path, permissions('write:orders', 'a')), {});
    assert.deepEqual(await post(path, permissions('a')), {});
    const listed = [permission('a'), permission('write:orders')];
    assert.deepEqual(await get(path), listed);
    const totals = await get(`${path}?include_totals=true&per_page=1`);
    assert.deepEqual(totals, { start: 0, limit: 1, total: 2, permissions: listed.slice(0, 1) });
    const removed = await site.send('DELETE', path, permissions('a', 'read:orders'));
    assert.deepEqual([removed.status, removed.text], [204, '']);
    assert.deepEqual(await get(path), [permission('write:orders')]);
  });

  test('any form of the management API is that API', async () => {
    const path = `/roles/${role}/permissions`;
    for (const form of [management, '/api/v2/', 'http://localhost:8080/api/v2/']) {
      await post(path, { permissions: [permission('read:users', form)] });
    }
    assert.deepEqual(await get(path), [permission('read:users', management)]);
  });

  test('have to be scopes of an API that is there', async () => {
    const path = `/roles/${role}/permissions`;
    const unknown = await site.send('POST', path, permissions('a', 'no:such'));
    const where = 'property permissions.1.permission_name (A scope, without spaces).';
    assertRefused(
      unknown,
      400,
      `Payload validation error: 'The API has no scope no:such: add it to the API first' on ${where}`,
      'invalid_body',
    );
    const missing = { permissions: [permission('a', 'urn:none')] };
    assertRefused(await site.send('POST', path, missing), 404, 'The API does not exist.');
    assert.deepEqual(await get(path), []);
  });
});

describe('who holds a role', () => {
  test('users: added, listed page by page, removed', async () => {
    const path = `/roles/${role}/users`;
    const users = [await addUser(), await addUser(), await addUser()].toSorted();
    assert.deepEqual(await post(path, { users }, 200), {});
    const listed = users.map((id) => ({ user_id: id }));
    const first = (await get(`${path}?take=2`)) as { users: object[]; next: string };
    assert.deepEqual(first.users, listed.slice(0, 2));
    assert.deepEqual(await get(`${path}?take=2&from=${first.next}`), { users: listed.slice(2) });
    const removed = await site.send('DELETE', path, { users: users.slice(1) });
    assert.equal(removed.status, 204);
    assert.deepEqual(await get(path), { users: listed.slice(0, 1) });
    const unknown = await site.send('POST', path, { users: ['leat|none'] });
    assertRefused(unknown, 404, 'The user does not exist.', 'inexistent_user');
    const from = await site.send('GET', `${path}?from=nonsense`);
    assert.deepEqual([from.status, from.body.errorCode], [400, 'invalid_query_string']);
  });

  test('clients: added, listed by number, removed', async () => {
    const path = `/roles/${role}/clients`;
    const clients = [await site.house.client(), await site.house.client()]
      .map(({ clientId }) => clientId)
      .toSorted();
    assert.deepEqual(await post(path, { clients }, 200), {});
    assert.deepEqual(await get(path), clients);
    const page = await get(`${path}?page=1&per_page=1&include_totals=true`);
    assert.deepEqual(page, { start: 1, limit: 1, total: 2, clients: clients.slice(1) });
    assert.equal((await site.send('DELETE', path, { clients })).status, 204);
    assert.deepEqual(await get(path), []);
    const unknown = await site.send('POST', path, { clients: ['none'] });
    assertRefused(unknown, 404, 'The client does not exist.');
  });

  test('nobody holds a role that is not there', async () => {
    const bodies = {
      permissions: permissions('a'),
      users: { users: [await addUser()] },
      clients: { clients: [(await site.house.client()).clientId] },
    };
    for (const [noun, body] of Object.entries(bodies)) {
      const path = `/roles/rol_none/${noun}`;
      for (const [method, sent] of [['GET'], ['POST', body], ['DELETE', body]] as const) {
        assertRefused(await site.send(method, path, sent), 404, 'The role does not exist.');
      }
    }
  });

  test('a list has 1 to 50 items', async () => {
    const many = Array.from({ length: 51 }, (_, index) => `x${index}`);
    for (const noun of ['users', 'clients']) {
      for (const items of [[], many, 'x', [''], [7]]) {
        const answer = await site.send('POST', `/roles/${role}/${noun}`, { [noun]: items });
        assert.deepEqual([answer.status, answer.body.errorCode], [400, 'invalid_body']);
      }
    }
  });
});

describe('the scopes of roles', () => {
  test('each operation wants its own', async () => {
    const wanted: [string, string, string, object?][] = [
      ['GET', '/roles', 'read:roles'],
      ['POST', '/roles', 'create:roles', {}],
      ['GET', `/roles/${role}`, 'read:roles'],
      ['PATCH', `/roles/${role}`, 'update:roles', {}],
      ['DELETE', `/roles/${role}`, 'delete:roles'],
      ['GET', `/roles/${role}/permissions`, 'read:roles'],
      ['POST', `/roles/${role}/permissions`, 'update:roles', {}],
      ['DELETE', `/roles/${role}/permissions`, 'update:roles', {}],
      ...['users', 'clients'].flatMap((noun): [string, string, string, object?][] => [
        ['GET', `/roles/${role}/${noun}`, 'read:role_members'],
        ['POST', `/roles/${role}/${noun}`, 'create:role_members', {}],
        ['DELETE', `/roles/${role}/${noun}`, 'delete:role_members', {}],
      ]),
    ];
    for (const [method, path, scope, body] of wanted) {
      const without = await withScopes(...allScopesBut(scope));
      const message = `Insufficient scope; expected any of: ${scope}`;
      const refused = await site.send(method, path, body, without);
      assertRefused(refused, 403, message, 'insufficient_scope');
    }
  });

  test('a caller gives a role no scope of the management API that it lacks', async () => {
    const path = `/roles/${role}/permissions`;
    const both = ['read:users', 'delete:users'].map((name) => permission(name, management));
    const weak = await withScopes('update:roles', 'read:users');
    const refused = await site.send('POST', path, { permissions: both }, weak);
    const message = 'Insufficient scope; expected any of: delete:users';
    assertRefused(refused, 403, message, 'insufficient_scope');
    assert.deepEqual(await get(path), []);
    const own = { permissions: both.slice(0, 1) };
    assert.equal((await site.send('POST', path, own, weak)).status, 201);
    assert.equal((await site.send('POST', path, permissions('a'), weak)).status, 201);
    assert.equal((await site.send('DELETE', path, own, weak)).status, 204);
  });

  test('a caller gives no client a role that can do more than it can itself', async () => {
    const { clientId } = await site.house.client();
    await post(`/roles/${role}/permissions`, permissions('a'));
    const path = `/roles/${role}/clients`;
    const weak = await withScopes('create:role_members');
    assert.equal((await site.send('POST', path, { clients: [clientId] }, weak)).status, 200);
    const strong = { permissions: [permission('read:users', management)] };
    await post(`/roles/${role}/permissions`, strong);
    const refused = await site.send('POST', path, { clients: [clientId] }, weak);
    const message = 'Insufficient scope; expected any of: read:users';
    assertRefused(refused, 403, message, 'insufficient_scope');
  });
});

describe('the permissions in a token', () => {
  let client: Credentials;
  let grant: string;

  beforeEach(async () => {
    client = await site.house.client({ global: false });
    const sent = { client_id: client.clientId, audience: orders, scope: ['read:orders'] };
    grant = (await post('/client-grants', sent)).id;
    await post(`/roles/${role}/clients`, { clients: [client.clientId] }, 200);
  });

  async function claims(audience = orders, scope?: string): Promise<Record<string, unknown>> {
    const { clientId: client_id, clientSecret: client_secret } = client;
    const answer = await site.house.requestToken({
      grant_type: 'client_credentials',
      client_id,
      client_secret,
      audience,
      ...(scope === undefined ? {} : { scope }),
    });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return decodeJwt(String(answer.body['access_token']));
  }

  test('are the scopes of the grant and of the roles, each once and sorted', async () => {
    assert.deepEqual((await claims())['permissions'], ['read:orders']);
    await post(`/roles/${role}/permissions`, permissions('write:orders', 'read:orders', 'a'));
    const { permissions: held, scope } = await claims();
    assert.deepEqual(held, ['a', 'read:orders', 'write:orders']);
    assert.equal(scope, 'read:orders', 'a role adds no scope');
  });

  test('stay whole when a scope is asked for', async () => {
    await site.send('PATCH', `/client-grants/${grant}`, { scope: ['a', 'read:orders'] });
    await post(`/roles/${role}/permissions`, permissions('write:orders'));
    const { permissions: held, scope } = await claims(orders, 'a');
    assert.deepEqual([held, scope], [['a', 'read:orders', 'write:orders'], 'a']);
  });

  test('are those of its API alone', async () => {
    const other = { permissions: [permission('write:orders', 'urn:other')] };
    await post(`/roles/${role}/permissions`, other);
    assert.deepEqual((await claims())['permissions'], ['read:orders']);
  });

  test('are there exactly when the API has RBAC on and its dialect says so', async () => {
    for (const audience of ['urn:plain', 'urn:dialect', 'urn:other']) {
      await post('/client-grants', { client_id: client.clientId, audience, scope: [] });
      await post(`/roles/${role}/permissions`, { permissions: [permission('a', audience)] });
    }
    assert.equal((await claims('urn:plain'))['permissions'], undefined);
    assert.equal((await claims('urn:dialect'))['permissions'], undefined);
    assert.deepEqual((await claims('urn:other'))['permissions'], ['a']);
    await site.send('DELETE', `/roles/${role}`);
    assert.deepEqual((await claims('urn:other'))['permissions'], []);
  });

  test('a role alone gives no access to an API', async () => {
    await post(`/roles/${role}/permissions`, permissions('a'));
    await site.send('DELETE', `/client-grants/${grant}`);
    const { clientId: client_id, clientSecret: client_secret } = client;
    const parameters = { grant_type: 'client_credentials', client_id, client_secret };
    const refused = await site.house.requestToken({ ...parameters, audience: orders });
    assert.equal(refused.status, 403);
    assert.equal(
      refused.body['error_description'],
      `Client is not authorized to access "${orders}".`,
    );
  });

  test('end with the next token when permission, membership or role goes', async () => {
    const path = `/roles/${role}/permissions`;
    await post(path, permissions('a', 'write:orders'));
    await site.send('DELETE', path, permissions('a'));
    assert.deepEqual((await claims())['permissions'], ['read:orders', 'write:orders']);
    await site.send('DELETE', `/roles/${role}/clients`, { clients: [client.clientId] });
    assert.deepEqual((await claims())['permissions'], ['read:orders']);
    await post(`/roles/${role}/clients`, { clients: [client.clientId] }, 200);
    assert.deepEqual((await claims())['permissions'], ['read:orders', 'write:orders']);
    await site.send('DELETE', `/roles/${role}`);
    assert.deepEqual((await claims())['permissions'], ['read:orders']);
  });
});
