import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { managementScopes } from '../../src/auth/scopes.ts';
import {
  assertNotFound,
  assertLacksScope,
  assertNeedsScope,
  cursorPages,
  type ScopedOperation,
  assertInvalid,
  assertProblem,
  allScopesBut,
  openApiFixture,
  type ApiResponse,
  type ApiFixture,
} from './fixture.ts';

const issuer = 'https://login.example.net/';
const management = 'https://localhost:8080/api/v2/';
const audience = 'urn:orders';
let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture({ trustedIssuers: [issuer] }, { domain: 'localhost:8080' });
  const response = await fixture.send('POST', '/resource-servers', { identifier: audience });
  assert.equal(response.status, 201, response.text);
});
after(() => fixture.close());

async function newClient(): Promise<string> {
  return (await fixture.auth.client()).clientId;
}

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function create(sent: object = {}): Promise<any> {
  const body = { client_id: await newClient(), audience, ...sent };
  const response = await fixture.send('POST', '/client-grants', body);
  assert.equal(response.status, 201, response.text);
  return response.body;
}

describe('POST /client-grants', () => {
  test('POST /client-grants allows the client to get tokens with these scopes', async () => {
    const credentials = await fixture.auth.client();
    const sent = { client_id: credentials.clientId, audience, scope: ['b:x', 'a:x'] };
    const response = await fixture.send('POST', '/client-grants', sent);
    assert.equal(response.status, 201, response.text);
    assert.match(response.body.id, /^cgr_/);
    assert.deepEqual(response.body, { id: response.body.id, ...sent });
    assert.ok(await fixture.auth.token(credentials, audience));
  });

  test('POST /client-grants accepts a grant without scopes', async () => {
    assert.deepEqual((await create()).scope, []);
    assert.deepEqual((await create({ scope: [] })).scope, []);
  });

  for (const form of [management, '/api/v2/', 'http://localhost:8080/api/v2/']) {
    test(`POST /client-grants accepts ${form} for the management API`, async () => {
      const grant = await create({ audience: form, scope: ['read:users'] });
      assert.equal(grant.audience, management);
    });
  }

  test('POST /client-grants rejects a second grant of a client for an audience', async () => {
    const grant = await create();
    const sent = { client_id: grant.client_id, audience, scope: ['other'] };
    const response = await fixture.send('POST', '/client-grants', sent);
    assertProblem(response, 409, 'The grant already exists.', 'already_exists');
    await create({ client_id: grant.client_id, audience: management });
    const again = { client_id: grant.client_id, audience: '/api/v2/' };
    const twice = await fixture.send('POST', '/client-grants', again);
    assertProblem(twice, 409, 'The grant already exists.', 'already_exists');
  });

  test('POST /client-grants accepts one of many equal concurrent requests', async () => {
    const sent = { client_id: await newClient(), audience };
    const requests = Array.from({ length: 6 }, () => fixture.send('POST', '/client-grants', sent));
    const statuses = (await Promise.all(requests)).map(({ status }) => status);
    assert.equal(statuses.filter((status) => status === 201).length, 1);
    assert.equal(statuses.filter((status) => status === 409).length, 5);
  });

  test('POST /client-grants returns 404 for an unknown client or API', async () => {
    const nobody = await fixture.send('POST', '/client-grants', { client_id: 'none', audience });
    assertNotFound(nobody, 'client');
    const sent = { client_id: await newClient(), audience: 'urn:none' };
    const nothing = await fixture.send('POST', '/client-grants', sent);
    assertNotFound(nothing, 'api');
  });

  test('POST /client-grants accepts the identifier of an API, not its id', async () => {
    const { body: api } = await fixture.send('GET', '/resource-servers/urn%3Aorders');
    for (const id of [api.id, 'management']) {
      const sent = { client_id: await newClient(), audience: id };
      const response = await fixture.send('POST', '/client-grants', sent);
      assertNotFound(response, 'api');
    }
  });

  const wrong: [sent: object, property: string][] = [
    [{ client_id: undefined }, 'client_id'],
    [{ client_id: 1 }, 'client_id'],
    [{ audience: undefined }, 'audience'],
    [{ audience: null }, 'audience'],
    [{ scope: 'read:users' }, 'scope'],
    [{ scope: null }, 'scope'],
    [{ scope: [1] }, 'scope.0'],
    [{ scope: [''] }, 'scope.0'],
    [{ scope: ['a b'] }, 'scope.0'],
    [{ scope: ['a\\b'] }, 'scope.0'],
    [{ scope: ['a', 'a'] }, 'scope'],
    [{ scope: Array.from({ length: 1001 }, (_, i) => `s${i}`) }, 'scope'],
    [{ id: 'mine' }, 'id'],
    [{ default_for: 'third_party_clients' }, 'default_for'],
  ];
  for (const [sent, property] of wrong) {
    test(`POST /client-grants rejects ${(JSON.stringify(sent) ?? '').slice(0, 70)} (${property})`, async () => {
      const body = { client_id: 'x', audience, ...sent };
      assertInvalid(await fixture.send('POST', '/client-grants', body), property);
    });
  }
});

describe('scope delegation', () => {
  test('a caller grants scopes of the management API that its token has, and no others', async () => {
    const headers = await fixture.headersWith('create:client_grants', 'read:users');
    const sent = { client_id: await newClient(), audience: management };
    const post = (scope: string[]): Promise<ApiResponse> =>
      fixture.send('POST', '/client-grants', { ...sent, scope }, headers);
    assertLacksScope(
      await post(['read:users', 'delete:users', 'read:roles']),
      'delete:users',
      'read:roles',
    );
    assertLacksScope(await post(['no:such']), 'no:such');
    const none = await fixture.send('GET', `/client-grants?client_id=${sent.client_id}`);
    assert.deepEqual(none.body.client_grants, []);
    assert.equal((await post(['read:users'])).status, 201);
  });

  test('a caller cannot widen its own grant', async () => {
    const credentials = await fixture.auth.client({}, [
      'read:client_grants',
      'update:client_grants',
    ]);
    const headers = { authorization: `Bearer ${await fixture.auth.token(credentials)}` };
    const list = `/client-grants?client_id=${credentials.clientId}`;
    const { body } = await fixture.send('GET', list, undefined, headers);
    const path = `/client-grants/${body.client_grants[0].id}`;
    const response = await fixture.send('PATCH', path, { scope: [...managementScopes] }, headers);
    assert.equal(response.status, 403, response.text);
    assert.deepEqual((await fixture.send('GET', list)).body, body);
    const narrowed = await fixture.send('PATCH', path, { scope: ['read:client_grants'] }, headers);
    assert.deepEqual(narrowed.body.scope, ['read:client_grants']);
  });

  test('to change or delete a grant of another client, the caller needs all scopes that it has', async () => {
    const grant = await create({ audience: management, scope: ['read:users', 'read:roles'] });
    const path = `/client-grants/${grant.id}`;
    const scopes = ['update:client_grants', 'delete:client_grants', 'read:users'];
    const some = await fixture.headersWith(...scopes);
    for (const scope of [['read:roles'], ['read:users'], []]) {
      assertLacksScope(await fixture.send('PATCH', path, { scope }, some), 'read:roles');
    }
    assertLacksScope(await fixture.send('DELETE', path, undefined, some), 'read:roles');
    assert.deepEqual((await fixture.send('PATCH', path, {})).body, grant);
    const all = await fixture.headersWith(...scopes, 'read:roles');
    assert.deepEqual((await fixture.send('PATCH', path, { scope: [] }, all)).body.scope, []);
    assert.equal((await fixture.send('DELETE', path, undefined, all)).status, 204);
  });

  test('a grant for a client of an external issuer needs every scope', async () => {
    const sent = { name: 'x', issuer, client_id: 'external' };
    assert.equal((await fixture.send('POST', '/clients', sent)).status, 201);
    const grant = { client_id: 'external', audience: management, scope: ['read:users'] };
    const headers = await fixture.headersWith(...allScopesBut('read:roles'));
    assertLacksScope(await fixture.send('POST', '/client-grants', grant, headers), 'read:roles');
    assert.equal((await fixture.send('POST', '/client-grants', grant)).status, 201);
  });

  test('any caller can grant scopes of other APIs', async () => {
    const headers = await fixture.headersWith('create:client_grants', 'update:client_grants');
    const sent = { client_id: await newClient(), audience, scope: ['delete:users'] };
    const response = await fixture.send('POST', '/client-grants', sent, headers);
    assert.equal(response.status, 201, response.text);
    const path = `/client-grants/${response.body.id}`;
    assert.equal((await fixture.send('PATCH', path, { scope: ['x'] }, headers)).status, 200);
  });
});

describe('PATCH /client-grants/{id}', () => {
  test('PATCH /client-grants/{id} replaces the scopes; an empty body changes nothing', async () => {
    const grant = await create({ scope: ['a'] });
    const path = `/client-grants/${grant.id}`;
    const response = await fixture.send('PATCH', path, { scope: ['b', 'c'] });
    assert.deepEqual([response.status, response.body], [200, { ...grant, scope: ['b', 'c'] }]);
    assert.deepEqual((await fixture.send('PATCH', path, {})).body, response.body);
  });

  for (const field of ['client_id', 'audience', 'id']) {
    test(`PATCH /client-grants/{id} rejects ${field}`, async () => {
      const { id } = await create();
      assertInvalid(await fixture.send('PATCH', `/client-grants/${id}`, { [field]: 'x' }), field);
    });
  }

  test('PATCH /client-grants/{id} returns 404 for an unknown grant', async () => {
    const response = await fixture.send('PATCH', '/client-grants/cgr_none', { scope: [] });
    assertNotFound(response, 'grant');
  });
});

describe('DELETE /client-grants/{id}', () => {
  test('DELETE /client-grants/{id} takes effect with the next token', async () => {
    const credentials = await fixture.auth.client();
    const grant = await create({ client_id: credentials.clientId });
    assert.ok(await fixture.auth.token(credentials, audience));
    assert.equal((await fixture.send('DELETE', `/client-grants/${grant.id}`)).status, 204);
    await assert.rejects(fixture.auth.token(credentials, audience), /access_denied/);
  });

  test('DELETE /client-grants/{id} returns 204 for an unknown grant', async () => {
    assert.equal((await fixture.send('DELETE', '/client-grants/none')).status, 204);
  });
});

describe('GET /client-grants/{id}', () => {
  test('GET /client-grants/{id} returns the grant as create and update do', async () => {
    const created = await create({ audience: management, scope: ['read:users'] });
    const path = `/client-grants/${created.id}`;
    const read = await fixture.send('GET', path);
    assert.deepEqual([read.status, read.body], [200, created]);
    const updated = await fixture.send('PATCH', path, { scope: [] });
    assert.deepEqual((await fixture.send('GET', path)).body, updated.body);
  });

  for (const id of ['none', 'cgr_none', 'constructor']) {
    test(`GET /client-grants/{id} returns 404 for ${id}`, async () => {
      const response = await fixture.send('GET', `/client-grants/${id}`);
      assertNotFound(response, 'grant');
    });
  }

  test('GET /client-grants/{id} returns 404 for the grant of another tenant', async (t) => {
    const two = await openApiFixture();
    t.after(() => two.close());
    const { clientId } = await two.auth.client({}, ['read:users']);
    const { body } = await two.send('GET', `/client-grants?client_id=${clientId}`);
    const response = await fixture.send('GET', `/client-grants/${body.client_grants[0].id}`);
    assertNotFound(response, 'grant');
  });
});

describe('GET /client-grants', () => {
  test('GET /client-grants pages with take and from', async (t) => {
    const other = await openApiFixture();
    t.after(() => other.close());
    for (let index = 0; index < 4; index += 1) await other.auth.client({}, ['read:users']);
    const seen: string[] = [];
    for await (const { body } of cursorPages(other, '/client-grants?take=2')) {
      assert.ok(body.client_grants.length <= 2);
      seen.push(...body.client_grants.map(({ id }: { id: string }) => id));
    }
    assert.equal(new Set(seen).size, 5, 'four grants and that of the bootstrap client');
    assert.equal(seen.length, 5);
  });

  test('GET /client-grants filters by client and by audience', async () => {
    const client = await newClient();
    const orders = await create({ client_id: client, scope: ['a'] });
    const own = await create({ client_id: client, audience: management });
    const list = async (query: string): Promise<unknown> =>
      (await fixture.send('GET', `/client-grants?client_id=${client}${query}`)).body;
    assert.deepEqual(await list(''), { client_grants: [orders, own].toSorted(byId) });
    assert.deepEqual(await list(`&audience=${audience}`), { client_grants: [orders] });
    const encoded = encodeURIComponent(management);
    assert.deepEqual(await list(`&audience=${encoded}`), { client_grants: [own] });
    assert.deepEqual(await list('&audience=urn:none'), { client_grants: [] });
    const nobody = await fixture.send('GET', '/client-grants?client_id=none');
    assert.deepEqual(nobody.body, { client_grants: [] });
  });

  test('GET /client-grants ignores further parameters of the npm package auth0', async () => {
    const response = await fixture.send('GET', '/client-grants?include_totals=true&take=50');
    assert.equal(response.status, 200);
    assert.ok(Array.isArray(response.body.client_grants));
  });

  for (const query of [
    'take=0',
    'take=101',
    'take=x',
    'from=!',
    'from=eA',
    'client_id=a&client_id=b',
  ]) {
    test(`GET /client-grants rejects ${query}`, async () => {
      const response = await fixture.send('GET', `/client-grants?${query}`);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.errorCode, 'invalid_query_string');
    });
  }
});

describe('the scopes of client grants', () => {
  const operations: ScopedOperation[] = [
    ['GET', '/client-grants', 'read:client_grants'],
    ['POST', '/client-grants', 'create:client_grants'],
    ['GET', '/client-grants/x', 'read:client_grants'],
    ['PATCH', '/client-grants/x', 'update:client_grants'],
    ['DELETE', '/client-grants/x', 'delete:client_grants'],
  ];
  for (const operation of operations) {
    const [method, path, scope] = operation;
    test(`${method} ${path} needs ${scope}`, () => assertNeedsScope(fixture, operation));
  }
});

function byId(one: { id: string }, other: { id: string }): number {
  return one.id < other.id ? -1 : 1;
}
